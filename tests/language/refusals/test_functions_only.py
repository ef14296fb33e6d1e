"""What torch has as functions alone is no method here either, and printed source calls it as a function."""

from __future__ import annotations

import gradscript as gs
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from gradscript.compiler.ops import OPS
from gradscript.compiler.spelling.functions import FUNCTIONS_ONLY
from gradscript.compiler.spelling.in_place import IN_PLACE
from gradscript.compiler.spelling.names import BUILTINS, OWN

NOT_IN_PLACE = [name for name in OPS.names() if name not in OWN and not hasattr(torch.Tensor, f"{name}_")]


def _function(name: str) -> str | None:
    """What torch calls it as a function, by torch itself."""
    return f"F.{name}" if hasattr(F, name) else f"torch.{name}" if hasattr(torch, name) else None


def test_the_table_is_torchs() -> None:
    alone = {name: _function(name) for name in OPS.names() if name not in OWN and not hasattr(torch.Tensor, name)}
    known = {name: function for name, function in FUNCTIONS_ONLY.items() if function not in BUILTINS}
    assert {name: function for name, function in alone.items() if function} == known


def test_functions_of_python_are_no_methods_where_torch_has_none() -> None:
    alone = {op: name for name, op in BUILTINS.items() if not hasattr(torch.Tensor, op)}
    assert alone.items() <= FUNCTIONS_ONLY.items()


@pytest.mark.parametrize("name", [*FUNCTIONS_ONLY, *(f"{name}_" for name in NOT_IN_PLACE if name in FUNCTIONS_ONLY)])
def test_no_tensor_has_the_method(name: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x, y):\n    return x.{name}(y)\n")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E202"
    assert diagnostic.notes == (f"it is a function: write `{FUNCTIONS_ONLY[name.removesuffix('_')]}(…)`",)


def test_the_table_of_writes_is_torchs() -> None:
    assert {name for name in OPS.names() if hasattr(torch.Tensor, f"{name}_")} == IN_PLACE


@pytest.mark.parametrize("name", [name for name in NOT_IN_PLACE if name not in FUNCTIONS_ONLY and name[0] != "_"])
def test_what_torch_does_not_write_in_place_is_refused(name: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x, y):\n    z = x.clone()\n    z.{name}_(y)\n    return z\n")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E202"
    assert diagnostic.notes[0].endswith(f"bind the name anew: `y = y.{name}(…)`")


def test_methods_that_torch_has_stay() -> None:
    writes = "    z.fill_(y.sum())\n    z.relu_()\n    z[0].zero_()\n"
    unit = gs.CompilationUnit(f"def f(x, y):\n    z = x.clone()\n{writes}    return z.softmax(0)\n")
    found = unit.f(torch.zeros(2, dtype=torch.float64), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([0.0, 3.0], dtype=torch.float64).softmax(0))

"""What torch has as a function alone is no method here either, an attribute is not called, and no module has a function
that it has not in torch; printed source calls each as what it is."""

from __future__ import annotations

import gradscript as gs
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from gradscript.compiler.ops import OPS
from gradscript.compiler.spelling.functional_names import FUNCTIONAL
from gradscript.compiler.spelling.functions import FUNCTIONS_ONLY
from gradscript.compiler.spelling.in_place import IN_PLACE, writes
from gradscript.compiler.spelling.names import BUILTINS, METHOD_ATTRIBUTES, MODULES, OWN, op_name

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


HELD = {
    name: eval(name, {"torch": torch, "F": F, "nn": torch.nn})
    for name in MODULES
    if name.partition(".")[0] in ("torch", "F", "nn") and name != "torch.functional"
}
"""The modules of torch's."""


@pytest.mark.parametrize("module", HELD)
def test_what_writes_in_place_is_torchs(module: str) -> None:
    names = {name for name in OPS.names() if hasattr(HELD[module], f"{name}_") and op_name(module, name)}
    assert {name for name in OPS.names() if writes(module, name)} == names
    for name in [name for name in OPS.names() if name not in names and op_name(module, name)][:: max(1, len(names))]:
        with pytest.raises(gs.CompileError) as caught:
            gs.CompilationUnit(f"def f(x):\n    y = x * 2\n    {module}.{name}_(y)\n    return y\n")
        assert caught.value.message == f"unknown operator '{module}.{name}_'"
        assert caught.value.diagnostics[0].notes


def test_the_names_of_torch_nn_functional_are_torchs() -> None:
    assert {name for name in OPS.names() if hasattr(F, name)} == FUNCTIONAL
    others = [name for name in OPS.names() if name not in FUNCTIONAL and op_name("torch", name)]
    assert not [name for name in others if op_name("F", name) and not hasattr(F, name)]
    for name in others[::20]:
        with pytest.raises(gs.CompileError) as caught:
            gs.CompilationUnit(f"def f(x):\n    return F.{name}(x)\n")
        assert caught.value.message == f"unknown operator 'F.{name}'"


def test_functions_of_other_modules_are_not_torchs() -> None:
    for prefix, module in {prefix: module for module, prefix in MODULES.items() if prefix}.items():
        names = [name for name in OPS.names() if name.startswith(prefix)]
        assert names and not [name for name in names if op_name("torch", name)], module


@pytest.mark.parametrize("name", METHOD_ATTRIBUTES)
def test_attributes_are_not_called(name: str) -> None:
    assert not callable(getattr(torch.Tensor, name))
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x):\n    return x.{name}()\n")
    assert (caught.value.code, caught.value.diagnostics[0].notes) == ("E202", (f"it is an attribute: write `.{name}`",))
    unit = gs.CompilationUnit(f"def f(x):\n    return x.{name}\n")
    assert gs.CompilationUnit(unit.code).code == unit.code


def test_methods_that_torch_has_stay() -> None:
    writes = "    z.fill_(y.sum())\n    z.relu_()\n    z[0].zero_()\n"
    unit = gs.CompilationUnit(f"def f(x, y):\n    z = x.clone()\n{writes}    return z.softmax(0)\n")
    found = unit.f(torch.zeros(2, dtype=torch.float64), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([0.0, 3.0], dtype=torch.float64).softmax(0))

"""What torch refuses is refused: as RuntimeFailure that names the op and its line, never a number or NumPy's words."""

from __future__ import annotations

import re
import warnings

import gradscript as gs
import pytest
import torch
from bad_calls import ARRAYS, BAD

_NAMES = re.compile(r"(?<![.\w\"'])([a-z]\w*)(?![\w(=\"'])")
_NUMPYS_WORDS = re.compile(
    r"numpy|ndarray|could not be broadcast|ufunc|dtype\('|axis \d|object has no|unsupported operand|boolean index"
)
REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError)


def _names(text: str) -> list[str]:
    found = set(_NAMES.findall(text))
    return [name for name in ARRAYS if name in found]


@pytest.mark.parametrize("text", BAD)
def test_torch_refuses(text: str) -> None:
    tensors = {name: torch.from_numpy(ARRAYS[name].copy()) for name in _names(text)}
    with (
        warnings.catch_warnings(),
        pytest.raises(REFUSALS),
    ):
        warnings.simplefilter("ignore")
        eval(text, {"torch": torch, "F": torch.nn.functional, **tensors})


@pytest.mark.parametrize("text", BAD)
def test_so_do_we(text: str) -> None:
    names = _names(text)
    source = f"def f({', '.join(names) or 'unused: int = 0'}):\n    # the call below\n    return {text}\n"
    try:
        unit = gs.CompilationUnit(source, "model.grad")
    except gs.CompileError as error:
        assert error.span.line == 3
        return
    with pytest.raises(gs.RuntimeFailure) as caught:
        unit.f(*(ARRAYS[name] for name in names))
    failure = caught.value
    assert failure.op.startswith(("aten::", "gs::", "prim::", "F.")), failure.op
    assert "functional_" not in str(failure)
    assert failure.span.line == 3
    assert failure.span.source.filename == "model.grad"
    assert not _NUMPYS_WORDS.search(failure.message), failure.message
    if names:
        assert re.search(r"\d|\[|\(|'", failure.message + "".join(failure.notes)), "no shape or value is told"
        assert any(re.search(r"(float|int|bool)\d*\[", note) for note in failure.notes), failure.notes


@pytest.mark.parametrize("text", BAD)
def test_so_do_we_where_it_is_differentiated(text: str) -> None:
    """A formula may compute its op otherwise; what the op refuses it refuses too."""
    names = _names(text)
    try:
        unit = gs.CompilationUnit(f"def f({', '.join(names) or 'unused: int = 0'}):\n    return {text}\n")
    except gs.CompileError:
        return
    with pytest.raises((gs.RuntimeFailure, gs.CompileError)):
        gs.vjp(unit.f, *(ARRAYS[name] for name in names))


@pytest.mark.parametrize("text", ["x in [y]", "x not in [y, x]", "[x] in [[y]]"])
def test_only_single_numbers_are_looked_for(text: str) -> None:
    unit = gs.CompilationUnit(f"def f(x, y):\n    return {text}\n")
    with pytest.raises(gs.RuntimeFailure, match=r"a tensor of shape \[3, 4\] is not equal, less or more as a whole"):
        unit.f(ARRAYS["x"], ARRAYS["y"])

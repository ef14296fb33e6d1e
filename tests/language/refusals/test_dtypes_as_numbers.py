"""A dtype is a number here, and is taken for one nowhere: `x.view(torch.float32)` has no size of 6."""

from __future__ import annotations

import gradscript as gs
import pytest

REFUSED = (
    *("x.view(torch.float32)", "x.view(y.dtype)", "x.reshape(3, y.dtype)", "torch.zeros(2, torch.int32)"),
    *("x + torch.float32", "x.sum(torch.float64)", "torch.full([2], torch.float32)", "x.clamp(torch.float32)"),
)
TAKEN = (
    *("x.to(y.dtype)", "F.softmax(x, 0, 3, torch.float64)", "x.softmax(0, torch.float64)", "[x.dtype, y.dtype]"),
    *("torch.zeros(2, dtype=y.dtype)", "x.dtype == torch.float32", "x if x.dtype in [y.dtype] else y"),
)


@pytest.mark.parametrize("expression", REFUSED)
def test_a_dtype_is_no_size_and_no_operand(expression: str) -> None:
    with pytest.raises(gs.CompileError, match=r"E204.*takes no dtype"):
        gs.CompilationUnit(f"def f(x, y):\n    return {expression}\n")


@pytest.mark.parametrize("expression", TAKEN)
def test_where_it_is_one_it_is_taken(expression: str) -> None:
    unit = gs.CompilationUnit(f"def f(x, y):\n    return {expression}\n")
    assert gs.CompilationUnit(unit.code).code == unit.code

"""What nobody computes is no operand, however the op is spelled: the text of gradients asks before it computes."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest

OPERANDS = (
    "gs.autograd_zero() * x",
    "x - gs.autograd_zero()",
    "torch.mul(gs.autograd_zero(), x)",
    "torch.where(x > 0, gs.autograd_zero(), x)",
    "F.relu(gs.autograd_zero())",
    "gs.autograd_zero().sum()",
    "gs.autograd_zero().size()",
)


@pytest.mark.parametrize("text", OPERANDS)
def test_it_is_refused(text: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x):\n    return {text}\n")
    assert caught.value.code == "E301"
    assert caught.value.span.text == "gs.autograd_zero()"
    assert "gs.autograd_add" in str(caught.value)


@pytest.mark.parametrize("op", ["stack", "cat", "hstack", "vstack", "meshgrid", "broadcast_tensors"])
def test_a_list_with_a_gradient_that_is_none_has_no_sum(op: str) -> None:
    unit = gs.CompilationUnit(f"def f(x):\n    return torch.{op}([x, gs.autograd_zero()])\n")
    with pytest.raises(gs.RuntimeFailure, match="element 1 of 'tensors' is a gradient that nobody computed"):
        unit.f(np.ones(2))

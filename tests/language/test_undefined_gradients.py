"""What nobody computes is no operand, however the op is spelled: the text of gradients asks before it computes."""

from __future__ import annotations

import gradscript as gs
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

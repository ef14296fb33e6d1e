"""Backwards that give a gradient on some ways only: none stands for zeros, and is no failure."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest

CHOSEN = """
def f(x, y, other: Optional[Tensor] = None):
    taken = bool(y.sum() > 0)

    def backward(grad_output):
        if taken:
            grad_x = grad_output * 2
            grad_other = {none}
        else:
            grad_x = {zeros}
            grad_other = grad_output * 3
        return grad_x, None, grad_other

    if taken:
        result = x * 2
    else:
        result = other * 3 if other is not None else x
    return result, backward
"""


@pytest.mark.parametrize("none", ["None", "gs.autograd_zero()"])
@pytest.mark.parametrize("zeros", ["torch.zeros_like(x)", "gs.autograd_zero()"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_branch_without_gradient(none: str, zeros: str, sign: float) -> None:
    unit = gs.CompilationUnit(CHOSEN.format(none=none, zeros=zeros))
    x = np.ones((2, 3))
    _, pullback = gs.vjp(unit.f, x, sign * x, 5 * x)
    taken = sign > 0
    for found, expected in zip(pullback(x), (2.0 * taken, 0.0, 3.0 * (not taken)), strict=True):
        np.testing.assert_array_equal(np.zeros_like(x) if found is None else found, np.full_like(x, expected))
    _, pullback = gs.vjp(unit.f, x, np.ones_like(x), None)
    np.testing.assert_array_equal(pullback(x)[0], 2 * x)

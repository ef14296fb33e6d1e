"""`torch.jit._unwrap_optional(y)` is y, and its gradient is that of y; None is a failure."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch

TEXT = """
def f(x, y: Optional[Tensor]):
    z = torch.jit._unwrap_optional(y)
    return (z * z * z * x).sum()
"""
X, Y = np.array([1.0, -2.0]), np.array([0.5, 3.0])


def test_its_gradients_are_those_of_what_is_there() -> None:
    f = gs.CompilationUnit(TEXT).f
    first, pullback = gs.vjp(gs.grad(f, argnums=1), X, Y)
    np.testing.assert_allclose(first, 3 * Y**2 * X)
    np.testing.assert_allclose(pullback(np.ones(2)), (3 * Y**2, 6 * Y * X))
    y = torch.tensor(Y, requires_grad=True)
    f(torch.tensor(X), y).backward()
    np.testing.assert_allclose(y.grad, first)


def test_none_is_told_where_it_is_unwrapped() -> None:
    with pytest.raises(gs.RuntimeFailure, match="must have a value here is None"):
        gs.grad(gs.CompilationUnit(TEXT).f)(X, None)

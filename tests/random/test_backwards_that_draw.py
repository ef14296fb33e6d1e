"""A user's backward that draws random numbers, differentiated again: one draw for each call, whoever needs it.

The backward's own backward says nothing of `x`, so the derivative with respect to it goes through the body.
"""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest

DRAWS = {
    "plain": "mask = torch.rand_like(x)",
    "twice": "mask = torch.rand_like(x) + 2 * torch.rand_like(x)",
    "in the language": "mask = F.dropout(torch.ones_like(x), 0.5)",
    "in a branch": """mask = torch.zeros_like(x)
        if n > 1:
            mask = torch.rand_like(x)""",
    "in a loop": """mask = torch.zeros_like(x)
        for i in range(n):
            mask = mask + torch.rand_like(x)""",
    "in a branch in a loop": """mask = torch.zeros_like(x)
        for i in range(n):
            if i > 0:
                mask = mask * 0.5 + torch.rand_like(x)""",
    "in a function": "mask = drawn(x)",
}
SECONDS = {
    "of its gradient only": """
        def second(grad_grad):
            return grad_grad * mask * x
        return grad * mask * x, None, second""",
    "none": """
        return grad * mask * x, None""",
    "of all": """
        def second(grad_grad):
            return grad_grad * mask * x, grad_grad * grad * mask, None
        return grad * mask * x, None, second""",
}
X = np.linspace(0.5, 4.0, 64)


def unit(draw: str, second: str) -> gs.CompilationUnit:
    return gs.CompilationUnit(f"""
def drawn(x):
    return torch.rand_like(x)


def f(x, n: int):
    def backward(grad):
        {DRAWS[draw]}
{SECONDS[second]}

    return x * 2, backward


def total(x, n: int):
    return f(x, n).sum()


def both(x, n: int):
    return f(x, n).sum() - f(x, n).sum()
""")


@pytest.mark.parametrize("second", SECONDS)
@pytest.mark.parametrize("draw", DRAWS)
def test_the_second_derivative_has_the_mask_of_the_first(draw: str, second: str) -> None:
    """The first is mask * x, so the second is mask."""
    first = gs.grad(unit(draw, second).total)
    for n in (0, 2, 3):
        found, pullback = gs.vjp(first, X, n)
        (of_x, _) = pullback(np.ones_like(X))
        np.testing.assert_allclose(of_x, found / X, rtol=1e-12)
        again, _ = gs.vjp(first, X, n)
        is_random = n > 1 or draw not in ("in a branch", "in a loop", "in a branch in a loop")
        assert np.any(found != again) == is_random


@pytest.mark.parametrize("second", SECONDS)
def test_each_call_draws_its_own(second: str) -> None:
    """The gradient is mask * x of one call, less that of the other."""
    found, pullback = gs.vjp(gs.grad(unit("plain", second).both), X, 2)
    (of_x, _) = pullback(np.ones_like(X))
    assert np.any(found != 0)
    # Two masks below 1 may be nearly equal: of their difference few digits are left.
    np.testing.assert_allclose(of_x, found / X, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("draw", DRAWS)
def test_a_seed_makes_both_reproducible(draw: str) -> None:
    first = gs.grad(unit(draw, "of its gradient only").total)

    def run() -> list[Any]:
        gs.random.manual_seed(7)
        found, pullback = gs.vjp(first, X, 3)
        return [found, pullback(np.ones_like(X))[0]]

    for one, other in zip(run(), run(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("draw", DRAWS)
def test_the_tape_and_a_third_derivative_hold_to_it(draw: str) -> None:
    made = unit(draw, "of its gradient only")
    x = gs.tape.Variable(X, requires_grad=True)
    (first,) = gs.tape.grad(made.total(x, 3), x, create_graph=True)
    (second,) = gs.tape.grad((first * first).sum(), x, create_graph=True)
    mask = first.data / X
    np.testing.assert_allclose(second.data, 2 * mask * mask * X, rtol=1e-12)
    (third,) = gs.tape.grad(second.sum(), x)
    np.testing.assert_allclose(third.data, 2 * mask * mask, rtol=1e-12)

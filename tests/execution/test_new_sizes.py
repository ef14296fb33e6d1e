"""A call with new sizes, of a kind that was met before, compiles nothing, whatever road it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.pipeline import observed

UNIT = gs.CompilationUnit(
    """
def swiglu(x, g):
    s = torch.sigmoid(x)
    def backward(grad):
        return grad * g * s * (1 + x * (1 - s)), grad * x * s
    return x * s * g, backward

def straight(x, g):
    return (swiglu(x, g) * F.softmax(x, -1)).sum()

def looped(x, g):
    a = x
    for i in range(x.size(0)):
        a = torch.tanh(a * g)
    return F.layer_norm(a, g.shape[1:]).sum()

def branched(x, g):
    if x.sum() > 0:
        rows = [row * 2 for row in x]
    else:
        rows = [row + 1 for row in g]
    return torch.stack(rows).mean()
"""
)


def pulled_back(f: Any, *args: Any) -> None:
    _, pullback = gs.vjp(f, *args)
    pullback(1.0)


def taped(f: Any, *args: Any) -> None:
    f(*(gs.tape.Variable(a, requires_grad=True) for a in args)).backward()


def through_torch(f: Any, *args: Any) -> None:
    f(*(torch.tensor(a, requires_grad=True) for a in args)).backward()


ROADS: dict[str, Callable[..., Any]] = {
    "call": lambda f, *args: f(*args),
    "gs.vjp": pulled_back,
    "gs.grad": lambda f, *args: gs.grad(f, (0, 1))(*args),
    "gs.value_and_grad": lambda f, *args: gs.value_and_grad(f)(*args),
    "second order": lambda f, *args: gs.vjp(gs.grad(f), *args),
    "tape": taped,
    "torch": through_torch,
}


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", ["straight", "looped", "branched"])
def test_new_sizes_compile_nothing(name: str, road: str) -> None:
    ran: list[str] = []

    def call(rows: int, columns: int) -> None:
        generator = np.random.default_rng(rows)
        x, g = generator.uniform(0.1, 1, (2, rows, columns))
        with observed(lambda seen: ran.append(seen.pass_name)):
            ROADS[road](getattr(UNIT, name), x, g)

    call(3, 4)
    assert ran
    call(3, 4)
    ran.clear()
    for rows, columns in ((5, 4), (2, 9), (7, 7), (3, 4)):
        call(rows, columns)
    assert not ran


def test_gradients_stay_with_their_function() -> None:
    f = UNIT.straight
    assert gs.grad(f) is gs.grad(f, 0) is gs.grad(f, argnums=-2)
    assert len({id(made) for made in (gs.grad(f), gs.grad(f, 1), gs.grad(f, (0,)), gs.value_and_grad(f))}) == 4
    before = gs.grad(f)
    remove = gs.compiler_debug.register_pass("fuse", lambda graph: False)
    try:
        assert gs.grad(f) is not before
    finally:
        remove()

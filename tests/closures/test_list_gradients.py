"""The gradient that a backward gives for a list fits the list, or there is one failure that says what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

ITEMS = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
WRONG = {
    "[grad * t for t in ts][:1]": "the gradient of 'ts' has 1 element, and 'ts' has 2",
    "[grad * t for t in ts] + [grad]": "the gradient of 'ts' has 3 elements, and 'ts' has 2",
    "[grad * t for t in ts[:0]]": "the gradient of 'ts' has 0 elements, and 'ts' has 2",
    "[grad for t in ts]": "an element has shape [], where that of 'ts' has [2]",
    "[t[:0] for t in ts]": "an element has shape [0], where that of 'ts' has [2]",
    "[torch.ones([5]) for t in ts]": "an element has shape [5], where that of 'ts' has [2]",
}


def unit(gradient: str) -> gs.CompilationUnit:
    return gs.CompilationUnit(f"""
def own(ts: List[Tensor]):
    def backward(grad):
        return {gradient}
    return (ts[0] * ts[0] + ts[1] * ts[1]).sum() / 2, backward


def caller(ts: List[Tensor]):
    return own([t * 3 for t in ts]) * 2
""")


def on_tensors(f: gs.Function) -> Any:
    tensors = [torch.from_numpy(item).requires_grad_() for item in ITEMS]
    return [gradient.numpy() for gradient in torch.autograd.grad(f(tensors), tensors)]


def on_tape(f: gs.Function) -> Any:
    variables = [gs.tape.Variable(item, requires_grad=True) for item in ITEMS]
    f(variables).backward()
    return [variable.grad.data for variable in variables]


ROADS: dict[str, Callable[[gs.Function], Any]] = {
    "vjp": lambda f: gs.vjp(f, ITEMS)[1](1.0)[0],
    "grad": lambda f: gs.grad(f)(ITEMS),
    "second order": lambda f: gs.vjp(gs.grad(f), ITEMS)[0],
    "min_cut": lambda f: gs.vjp(f, ITEMS, policy="min_cut")[1](1.0)[0],
    "recompute_all": lambda f: gs.grad(f, policy="recompute_all")(ITEMS),
    "tensors": on_tensors,
    "tape": on_tape,
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", ["own", "caller"])
def test_one_failure_on_every_road(name: str, road: str) -> None:
    for gradient, message in WRONG.items():
        with pytest.raises(gs.RuntimeFailure) as caught:
            ROADS[road](unit(gradient)[name])
        failure = caught.value
        assert (failure.code, failure.op, failure.argument) == ("R105", "the backward of own", "ts")
        assert message in failure.message
        assert failure.span.line == 4


@pytest.mark.parametrize("road", ROADS)
def test_right_ones_pass_and_broadcast_ones_are_summed(road: str) -> None:
    f = unit("[grad * t for t in ts]")
    for mine, item in zip(ROADS[road](f.own), ITEMS, strict=True):
        np.testing.assert_allclose(mine, item)
    for mine, item in zip(ROADS[road](f.caller), ITEMS, strict=True):
        np.testing.assert_allclose(mine, item * 18)
    summed = unit("[torch.stack([grad * t, grad * t]) for t in ts]")
    for mine, item in zip(ROADS[road](summed.own), ITEMS, strict=True):
        np.testing.assert_allclose(mine, item * 2)


def test_second_derivatives_pass_through_the_fit() -> None:
    f = unit("[torch.stack([grad * t, grad * t * t]) for t in ts]").own
    weights = [np.array([0.5, 2.0]), np.array([-1.0, 3.0])]
    found = gs.vjp(gs.grad(f), ITEMS)[1](weights)[0]
    for mine, item, weight in zip(found, ITEMS, weights, strict=True):
        np.testing.assert_allclose(mine, weight * (1 + 2 * item))


NESTED = """
def total(rows: List[List[Tensor]]):
    found = torch.zeros([], dtype=torch.float64)
    for row in rows:
        for t in row:
            found = found + t.sum()
    return found


def ones(row: List[Tensor], grad):
    return [grad * torch.ones_like(t) for t in row]


def f(rows: List[List[Tensor]]):
    def backward(grad):
        return GRADIENT

    return total(rows), backward
"""


def test_lists_of_lists() -> None:
    rows = [[np.ones(2), np.ones(3)], [], [np.ones(1)]]
    f = gs.CompilationUnit(NESTED.replace("GRADIENT", "[ones(row, grad) for row in rows]")).f
    assert [[t.shape for t in row] for row in gs.grad(f)(rows)] == [[(2,), (3,)], [], [(1,)]]
    f = gs.CompilationUnit(NESTED.replace("GRADIENT", "[ones(row, grad)[:1] for row in rows]")).f
    with pytest.raises(gs.RuntimeFailure, match="the gradient of 'rows' has 1 element, and 'rows' has 2"):
        gs.grad(f)(rows)

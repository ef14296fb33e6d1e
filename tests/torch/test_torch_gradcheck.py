"""torch's own checks: gradcheck and gradgradcheck, on arguments of any layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch_programs import CASES, UNIT, draw, leaves

STOPPED = "gradients that stop"
"""Finite differences see through `detach`."""
TWICE = "one value returned twice"
"""The two gradients that gradgradcheck asks for are of one tensor, and meet there."""


def _floating(name: str) -> Any:
    case = CASES[name]
    return lambda *tensors: tuple(t for t in leaves(case.ours(*tensors, *case.extra)) if t.requires_grad)


@pytest.mark.parametrize("name", [name for name in CASES if name != STOPPED])
def test_gradcheck(name: str) -> None:
    assert gradcheck(_floating(name), CASES[name].tensors())


@pytest.mark.parametrize("name", [name for name in CASES if name not in (STOPPED, TWICE)])
def test_gradgradcheck(name: str) -> None:
    assert gradgradcheck(_floating(name), CASES[name].tensors())


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.t(),
        lambda x: x[::2, 1:],
        lambda x: x[0].expand(4, -1),
        lambda x: x.unfold(0, 2, 1),
        lambda x: x.diagonal(),
        lambda x: x[:0],
        lambda x: x[1, 1],
    ],
    ids=["transposed", "sliced", "expanded", "overlapping", "diagonal", "empty", "no dimensions"],
)
def test_arguments_of_any_layout(layout: Any) -> None:
    def ours(x: Any) -> Any:
        return UNIT.arithmetic(layout(x), layout(x) + 1)

    assert gradcheck(ours, (draw(4, 6),))
    assert gradgradcheck(ours, (draw(4, 6),))


@pytest.mark.parametrize(
    "gradient",
    [
        lambda shape: torch.ones((), dtype=torch.float64).expand(shape),
        lambda shape: torch.linspace(1, 2, shape[0], dtype=torch.float64).unsqueeze(1).expand(shape),
        lambda shape: draw(*shape[::-1], grad=False).t(),
        lambda shape: draw(shape[0], 2 * shape[1], grad=False)[:, ::2],
        lambda shape: torch._neg_view(draw(*shape, grad=False)),
    ],
    ids=["one number", "rows expanded", "transposed", "strided", "negation put off"],
)
@pytest.mark.parametrize("name", ["arithmetic", "own backward", "views of an input", "an input returned"])
def test_gradients_of_any_stride(name: str, gradient: Any) -> None:
    case = CASES[name]
    ours, theirs = case.tensors(), case.tensors()
    result, expected = leaves(case.ours(*ours))[0], leaves(case.eager(*theirs))[0]
    cotangent = gradient(result.shape)
    found = torch.autograd.grad(result, ours, cotangent, create_graph=True)
    wanted = torch.autograd.grad(expected, theirs, cotangent, create_graph=True)
    for gradient_, eager in zip(found, wanted, strict=True):
        torch.testing.assert_close(gradient_, eager, rtol=1e-12, atol=1e-12)

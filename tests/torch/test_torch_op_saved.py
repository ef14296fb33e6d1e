"""What an op hands from its forward to its backward: not what elements of the rest tell; derivatives stay the same."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch
from op_cases import positive
from torch.autograd import gradcheck, gradgradcheck
from torch.utils.flop_counter import FlopCounterMode

UNIT = gs.CompilationUnit("""
def gated(x, w, scale: float = 0.5):
    a = torch.sigmoid(x * scale)
    b = torch.tanh(a * w)
    return (a * b + b.exp()).sum(1)

def normed(x, w):
    h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return torch.tanh(h * w) * h.sigmoid()

def projected(x, w):
    y = x @ w
    z = y.sin()
    return z * z.exp(), y

def square(x):
    s = torch.tanh(x)
    def backward(grad):
        return grad * s * 3.0
    return s * x, backward

def helped(x, w):
    return square(x * w).exp()

def branched(x, w, positive: bool):
    y = torch.sigmoid(x)
    if positive:
        y = y * w
    return y.exp() * y
""")
SAVED = {"gated": 1, "normed": 1, "projected": 0, "square": 1, "branched": None, "helped": None}
GIVEN: dict[str, Any] = {
    "gated": lambda: [positive(3, 4), positive(4)],
    "normed": lambda: [positive(3, 4), positive(4)],
    "projected": lambda: [positive(3, 4), positive(4, 2)],
    "square": lambda: [positive(3, 4)],
    "helped": lambda: [positive(3, 4), positive(4)],
    "branched": lambda: [positive(3, 4), positive(3, 4), True],
}
OPS = {name: gs.torch_op(UNIT[name], f"op_saved::{name}") for name in GIVEN}


@pytest.mark.parametrize("name", [name for name, count in SAVED.items() if count is not None])
def test_what_single_elements_tell_is_not_handed_on(name: str) -> None:
    op, given = OPS[name], GIVEN[name]()
    results = op.forward(*given)
    real = len(op.op._schema.returns)
    assert (len(results) if isinstance(results, tuple) else 1) - real == SAVED[name]


@pytest.mark.parametrize("name", list(GIVEN))
def test_derivatives_are_those_of_the_function(name: str) -> None:
    op, function = OPS[name], UNIT[name]
    given = [v.requires_grad_() if isinstance(v, torch.Tensor) else v for v in GIVEN[name]()]
    inputs = [v for v in given if isinstance(v, torch.Tensor)]
    real = len(op.op._schema.returns)

    def through_halves(*values: Any) -> Any:
        row = iter(values)
        results = op.forward(*[next(row) if isinstance(v, torch.Tensor) else v for v in given])
        return results[:real] if isinstance(results, tuple) else (results,)

    found, wanted = through_halves(*inputs), function(*given)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for _ in range(3):
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours, theirs)
        there = [i for i, ours in enumerate(found) if ours.requires_grad]
        totals = [sum((row[i] * row[i]).sum() for i in there) for row in (found, wanted)]
        found, wanted = (torch.autograd.grad(total, inputs, create_graph=True) for total in totals)
    if name not in ("square", "helped"):
        assert gradcheck(through_halves, inputs) and gradgradcheck(through_halves, inputs)


GATED = gs.CompilationUnit("""
def gate(a, b):
    s = torch.sigmoid(a)
    def backward(grad):
        return (grad * b * s * (1 - s)).sum_to_size(a.size()), (grad * s).sum_to_size(b.size())
    return s * b, backward

def mixed(x, w, v):
    return gate(x @ w, x @ v)
""")


def test_sizes_that_a_backward_asks_for_are_no_work() -> None:
    """Of the products of the forward, none is counted again: their sizes follow from those of the arguments."""
    op = gs.torch_op(GATED.mixed, "op_saved::mixed")
    x, w, v = (positive(*shape).requires_grad_() for shape in ((6, 4), (4, 3), (4, 3)))
    with FlopCounterMode(display=False) as counter:
        result = op(x, w, v)
        forward = counter.get_total_flops()
        result.sum().backward()
    assert forward == 2 * 2 * 6 * 4 * 3
    assert counter.get_total_flops() == 3 * forward


def test_a_list_that_requires_no_gradient_gets_none() -> None:
    """Torch takes None for a tensor that an op leaves out, and for no list."""
    unit = gs.CompilationUnit("""
def summed(x, xs: List[Tensor]):
    for y in xs:
        x = x + y
    return [x * x, x * 2]
""")
    op = gs.torch_op(unit.summed, "op_saved::summed")
    for count, required in ((0, ()), (1, ()), (2, (1,)), (2, (0, 1))):
        x, xs = positive(3).requires_grad_(), [positive(3).requires_grad_(i in required) for i in range(count)]
        wanted = [x, *(y for y in xs if y.requires_grad)]
        for create_graph in (False, True):
            found = torch.autograd.grad(op(x, xs)[0].exp().sum(), wanted, create_graph=create_graph)
            expected = torch.autograd.grad(((x + sum(xs)) ** 2).exp().sum(), wanted, create_graph=create_graph)
            torch.testing.assert_close(found, expected)
        found, expected = [torch.autograd.grad([g.sum() for g in first], wanted) for first in (found, expected)]
        torch.testing.assert_close(found, expected)

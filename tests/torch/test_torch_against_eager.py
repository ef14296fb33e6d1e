"""Functions in torch's autograd against the same functions in eager torch: every mask of gradients, to third order."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch_programs import CASES, Case, leaves

MASKS = [(name, mask) for name, case in CASES.items() for mask in product((False, True), repeat=len(case.shapes))]


def _assert_equal(ours: Any, theirs: Any, tolerance: float = 1e-11) -> None:
    assert (ours is None) == (theirs is None), (ours, theirs)
    if ours is not None:
        assert type(ours) is torch.Tensor
        assert (ours.dtype, ours.device, ours.shape) == (theirs.dtype, theirs.device, theirs.shape)
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


Pairs = list[tuple[Any, Any]]
"""Tensors of ours, each with that of eager torch; either may be None."""


def _compare_gradients(outputs: Pairs, inputs: Pairs, order: int) -> None:
    """First derivatives, then those of a number made of these, and so on. None is as good as zeros."""
    ours, eager = zip(*inputs, strict=True)
    for level in range(order):
        active = [(i, pair) for i, pair in enumerate(outputs) if pair[1] is not None and pair[1].requires_grad]
        if not active:
            return
        create_graph = level < order - 1
        wanted = torch.autograd.grad(
            _weighted([(i, pair[1]) for i, pair in active]), eager, create_graph=create_graph, allow_unused=True
        )
        mine = [(i, pair[0]) for i, pair in active if pair[0] is not None and pair[0].requires_grad]
        found: tuple[Any, ...] = (None,) * len(ours)
        if mine:
            found = torch.autograd.grad(_weighted(mine), ours, create_graph=create_graph, allow_unused=True)
        outputs = list(zip(found, wanted, strict=True))
        for gradient, expected in outputs:
            _assert_equal(*(torch.zeros(()) if g is None or not g.any() else g.detach() for g in (gradient, expected)))


def _weighted(numbered: list[tuple[int, Any]]) -> Any:
    """A number that depends on every tensor in a way that is not linear."""
    return sum((tensor * tensor * (i + 1.5)).sum() for i, tensor in numbered)


def _run(case: Case, mask: tuple[bool, ...]) -> tuple[Pairs, Pairs]:
    """The outputs, compared, and the inputs that require a gradient."""
    inputs = list(zip(case.tensors(mask), case.tensors(mask), strict=True))
    ours = leaves(case.ours(*[pair[0] for pair in inputs], *case.extra))
    eager = leaves(case.eager(*[pair[1] for pair in inputs], *case.extra))
    outputs = list(zip(ours, eager, strict=True))
    for found, expected in outputs:
        _assert_equal(found.detach(), expected.detach())
    return outputs, [pair for pair in inputs if pair[0].requires_grad]


@pytest.mark.parametrize(("name", "mask"), MASKS, ids=lambda part: part if isinstance(part, str) else None)
def test_every_mask_to_second_order(name: str, mask: tuple[bool, ...]) -> None:
    outputs, inputs = _run(CASES[name], mask)
    if inputs:
        _compare_gradients(outputs, inputs, 2)
    else:
        assert not any(ours.requires_grad for ours, _ in outputs)


@pytest.mark.parametrize("name", CASES)
def test_third_order(name: str) -> None:
    outputs, inputs = _run(CASES[name], (True,) * len(CASES[name].shapes))
    _compare_gradients(outputs, inputs, 3)


@pytest.mark.parametrize("name", CASES)
def test_each_output_alone(name: str) -> None:
    """The gradients of all other outputs are undefined then."""
    mask = (True,) * len(CASES[name].shapes)
    for i in range(len(_run(CASES[name], mask)[0])):
        outputs, inputs = _run(CASES[name], mask)
        _compare_gradients([outputs[i]], inputs, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["arithmetic", "mlp", "lists", "own backward", "several outputs"])
def test_smaller_dtypes(name: str, dtype: Any) -> None:
    """Values and gradients have the dtypes of torch, and its values to a few roundings."""
    case = CASES[name]
    ours, theirs = case.tensors(dtype=dtype), case.tensors(dtype=dtype)
    results, expected = leaves(case.ours(*ours, *case.extra)), leaves(case.eager(*theirs, *case.extra))
    tolerance = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}[dtype]
    for result, wanted in zip(results, expected, strict=True):
        assert result.requires_grad == wanted.requires_grad
        _assert_equal(result, wanted, tolerance)
    sums = [sum(t.sum() for t in outs if t.is_floating_point()) for outs in (results, expected)]
    for gradient, wanted in zip(torch.autograd.grad(sums[0], ours), torch.autograd.grad(sums[1], theirs), strict=True):
        _assert_equal(gradient, wanted, tolerance)

"""Gradients on the tape against torch's eager autograd: without gradients first, then for each mask, to third order."""

from __future__ import annotations

from itertools import product
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from programs import CASES, Case, leaves

MASKS = [(name, mask) for name, case in CASES.items() for mask in product((False, True), repeat=len(case.shapes))]


def _loss(outputs: list[Any], weights: list[Any]) -> Any:
    """A number that depends on every differentiable output in a way that is not linear."""
    terms = [(o * o * w).sum() for o, w in zip(outputs, weights, strict=True)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _floating(outputs: list[Any]) -> list[Any]:
    return [o for o in outputs if str(o.dtype).removeprefix("torch.").startswith("float")]


def _run(case: Case, function: Any, inputs: list[Any], make: Any) -> tuple[list[Any], list[Any]]:
    outputs = leaves(function(*inputs, *case.extra))
    active = [o for o in _floating(outputs) if o.requires_grad]
    draw = np.random.default_rng(8)
    weights = [make(draw.uniform(0.5, 1.5, tuple(o.shape))) for o in active]
    return outputs, [_loss(active, weights)] if active else []


def _assert_close(ours: Any, theirs: Any, tolerance: float = 1e-11) -> None:
    assert (ours is None) == (theirs is None), (ours, theirs)
    if ours is None:
        return
    expected = theirs.detach().numpy()
    assert ours.data.shape == expected.shape
    assert ours.data.dtype == expected.dtype
    scale = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(ours.data, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("name", CASES)
def test_forward_without_gradients(name: str) -> None:
    case = CASES[name]
    with gs.tape.no_grad():
        outputs = leaves(case.ours(*map(gs.tape.Variable, case.arrays()), *case.extra))
    expected = leaves(case.torch(*map(torch.from_numpy, case.arrays()), *case.extra))
    assert len(outputs) == len(expected)
    for ours, theirs in zip(outputs, expected, strict=True):
        assert not ours.requires_grad
        assert ours.grad_fn is None
        _assert_close(ours, theirs)


@pytest.mark.parametrize(("name", "mask"), MASKS, ids=[f"{n}-{''.join('01'[b] for b in m)}" for n, m in MASKS])
def test_gradients(name: str, mask: tuple[bool, ...]) -> None:
    case = CASES[name]
    ours = [gs.tape.Variable(a, requires_grad=m) for a, m in zip(case.arrays(), mask, strict=True)]
    theirs = [torch.tensor(a, requires_grad=m) for a, m in zip(case.arrays(), mask, strict=True)]
    outputs, loss = _run(case, case.ours, ours, lambda a: a)
    expected, torch_loss = _run(case, case.torch, theirs, torch.tensor)
    assert [o.requires_grad for o in outputs] == [e.requires_grad for e in expected]
    if not loss:
        return
    loss[0].backward()
    torch_loss[0].backward()
    for variable, tensor in zip(ours, theirs, strict=True):
        _assert_close(variable.grad, tensor.grad)


@pytest.mark.parametrize("name", CASES)
def test_higher_derivatives(name: str) -> None:
    case = CASES[name]
    ours = [gs.tape.Variable(a) for a in case.arrays()]
    theirs = [torch.tensor(a, requires_grad=True) for a in case.arrays()]
    _, (loss,) = _run(case, case.ours, ours, lambda a: a)
    _, (torch_loss,) = _run(case, case.torch, theirs, torch.tensor)
    for _ in range(2):
        found = gs.tape.grad(loss, ours, create_graph=True, allow_unused=True)
        expected = torch.autograd.grad(torch_loss, theirs, create_graph=True, allow_unused=True)
        for gradient, reference in zip(found, expected, strict=True):
            if gradient is None or reference is None:
                assert reference is None or not reference.any()
            else:
                _assert_close(gradient, reference, 1e-10)
        live = [(g, e) for g, e in zip(found, expected, strict=True) if g is not None and e is not None]
        loss = _loss([g for g, _ in live], [1.0] * len(live))
        torch_loss = _loss([e for _, e in live], [1.0] * len(live))
        if not (loss.requires_grad and torch_loss.requires_grad):
            return
    found = gs.tape.grad(loss, ours, allow_unused=True)
    expected = torch.autograd.grad(torch_loss, theirs, allow_unused=True)
    for gradient, reference in zip(found, expected, strict=True):
        if gradient is not None and reference is not None:
            _assert_close(gradient, reference, 1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gradients_have_the_dtype_of_their_leaf(dtype: str) -> None:
    x, w = (a.astype(dtype) for a in CASES["own backward"].arrays())
    v, scale = gs.tape.Variable(x), gs.tape.Variable(np.float64(3.0) * np.ones(3))
    (v * w * scale).sum().backward()
    assert v.grad.dtype == np.dtype(dtype)
    assert scale.grad.dtype == np.float64


def test_accumulation_over_calls() -> None:
    v = gs.tape.Variable(np.array([1.0, 2.0]))
    for _ in range(3):
        (v * v).sum().backward()
    np.testing.assert_array_equal(v.grad.data, 3 * 2 * v.data)
    v.grad = None
    (v * v).sum().backward()
    np.testing.assert_array_equal(v.grad.data, 2 * v.data)

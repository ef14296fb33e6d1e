"""torch's tracers, collectives and random state around a call: what they see of it, and what it leaves of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import pytest
import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

UNIT = gs.CompilationUnit(
    """
def mul(x, y):
    return x * y

def pair(x, y):
    def backward(grad):
        return grad * y, grad * x
    return x * y, backward

def noisy(x):
    return F.dropout(x * 1.0, 0.5, True)
"""
)
TRACERS: dict[str, Callable[[Callable[..., Any], Any], Any]] = {
    "jit": lambda f, x: torch.jit.trace(f, (x, x)),
    "real": lambda f, x: make_fx(f)(x, x),
    "fake": lambda f, x: make_fx(f, tracing_mode="fake")(x, x),
    "symbolic": lambda f, x: make_fx(f, tracing_mode="symbolic")(x, x),
    "fx": lambda f, x: torch.fx.symbolic_trace(lambda x: f(x, x)),
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "call": UNIT.mul,
    "recorded": lambda x, y: UNIT.pair(x * torch.ones(3, requires_grad=True), y),
    "vjp": lambda x, y: gs.vjp(UNIT.mul, x, y)[0],
    "grad": lambda x, y: gs.grad(UNIT.pair)(x, y),
    "forward": lambda x, y: UNIT.pair.forward(x, y)[0],
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.filterwarnings("ignore:`torch.jit.trace`")
def test_a_call_is_no_constant_of_a_trace(tracer: str, call: str) -> None:
    with pytest.raises(gs.RuntimeFailure) as caught:
        TRACERS[tracer](CALLS[call], torch.ones(3))
    assert caught.value.notes


def test_a_storage_can_be_resized_after_a_call() -> None:
    for dtype in (torch.float64, torch.bfloat16, torch.bool):
        x, y = torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype)
        UNIT.mul(x, y)
        gs.vjp(UNIT.mul, y, x)
        x.resize_(100)
        y.untyped_storage().resize_(0)


def test_what_a_collective_returns_is_waited_for() -> None:
    x = torch.arange(3.0, requires_grad=True)
    pending = AsyncCollectiveTensor(x * 2)
    pending.completed = True
    torch.testing.assert_close(UNIT.mul(pending, x.detach()), 2 * x.detach() ** 2)
    torch.testing.assert_close(gs.vjp(UNIT.mul, pending, x)[0], 2 * x.detach() ** 2)

    parameter = torch.ones(3)
    pending = AsyncCollectiveTensor(parameter)
    pending.completed = True
    pending.requires_grad_()
    (found,) = torch.autograd.grad(UNIT.pair(pending, x.detach()).sum(), pending)
    torch.testing.assert_close(found, x.detach())


def test_torch_seeds_what_is_drawn_on_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscript.runtime.settings.random._seeded", False)
    x = torch.ones(64, requires_grad=True)
    torch.manual_seed(3)
    first, second = UNIT.noisy(x), UNIT.noisy(x)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(UNIT.noisy(x), first)
    kept = checkpoint(UNIT.noisy, x, use_reentrant=False)
    (gradient,) = torch.autograd.grad(kept.sum(), x)
    assert torch.equal(gradient, kept.detach())


def test_a_seed_of_ours_comes_before_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscript.runtime.settings.random._seeded", False)
    x = torch.ones(64)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        with gs.random.local_seed(5):
            found.append(UNIT.noisy(x))
    assert torch.equal(*found)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        gs.random.manual_seed(5)
        found.append(UNIT.noisy(x))
    assert torch.equal(*found)

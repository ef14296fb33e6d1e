"""Calls with lists of tensors on a device, prepared: every kind of call gives what eager torch does, time and again."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.runtime.torch import calls
from gradscript.runtime.torch.prepared import fixed_calls
from graph_recording import graph_device

TEXT = """
def net(x, ws: List[Tensor], bs: List[Tensor]):
    for i in range(len(ws)):
        x = torch.tanh(x @ ws[i] + bs[i]) + x
    return x, x.sum()
"""
UNIT = gs.CompilationUnit(TEXT)


def net(x: Any, ws: list[Any], bs: list[Any]) -> Any:
    for w, b in zip(ws, bs, strict=True):
        x = torch.tanh(x @ w + b) + x
    return x, x.sum()


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    with graph_device(monkeypatch) as found:
        yield found


def draw(*shape: int, seed: int = 0, grad: bool = True) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_(grad)


def arguments(seed: int, layers: int = 3, rows: int = 5, grads: tuple[bool, bool, bool] = (True, True, True)) -> Any:
    ws = [draw(4, 4, seed=seed + i, grad=grads[1]) for i in range(layers)]
    return draw(rows, 4, seed=seed, grad=grads[0]), ws, [draw(4, seed=seed + i, grad=grads[2]) for i in range(layers)]


def gradients(function: Any, given: Any, seeds: tuple[bool, bool], order: int = 1) -> list[Any]:
    """Of what is asked for of both results; of the second order, those of the squares of these."""
    x, ws, bs = given
    results = function(x, ws, bs)
    leaves = [tensor for tensor in (x, *ws, *bs) if tensor.requires_grad]
    total = sum((result**2).sum() for result, wanted in zip(results, seeds, strict=True) if wanted)
    found = torch.autograd.grad(total, leaves, create_graph=order > 1, allow_unused=True)
    if order > 1:
        found = torch.autograd.grad(sum((g**2).sum() for g in found), leaves, allow_unused=True)
    return [*[result.detach() for result in results], *found]


KINDS = (
    {},
    {"layers": 2},
    {"rows": 7},
    {"grads": (False, True, True)},
    {"grads": (True, False, True)},
    {"grads": (True, True, False)},
)


@pytest.mark.parametrize("order", [1, 2])
def test_kinds_of_calls_by_turns(order: int) -> None:
    for turn in range(4):
        for kind in KINDS:
            for seeds in ((True, True), (True, False), (False, True)):
                given = arguments(turn, **kind)
                found, wanted = (gradients(f, given, seeds, order) for f in (UNIT.net, net))
                for have, want in zip(found, wanted, strict=True):
                    assert (have is None) == (want is None)
                    if want is not None:
                        torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-10)


def test_they_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    given, bound = arguments(0), []
    call = calls.TorchCalls._call
    monkeypatch.setattr(calls.TorchCalls, "_call", lambda self, *rest: (bound.append(1), call(self, *rest))[1])
    made = []
    make = fixed_calls.ListCall._backward
    monkeypatch.setattr(fixed_calls.ListCall, "_backward", lambda self, *rest: (made.append(1), make(self, *rest))[1])
    unit = gs.CompilationUnit(TEXT)
    for _ in range(6):
        gradients(unit.net, given, (True, True))
    assert len(bound) == 2 and len(made) == 1


def test_what_was_written_into_since_is_told() -> None:
    for _ in range(4):
        given = arguments(1)
        _, total = UNIT.net(*given)
        with torch.no_grad():
            given[1][0].mul_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            total.backward()


def test_nothing_is_recorded_where_nothing_is_asked_for() -> None:
    for turn in range(4):
        given = arguments(turn, grads=(False, False, False))
        for result, want in zip(UNIT.net(*given), net(*given), strict=True):
            assert not result.requires_grad
            torch.testing.assert_close(result, want, rtol=1e-10, atol=1e-12)
        given = arguments(turn)
        with torch.no_grad():
            for result, want in zip(UNIT.net(*given), net(*given), strict=True):
                torch.testing.assert_close(result.detach(), want, rtol=1e-10, atol=1e-12)


def test_a_list_of_other_things_is_refused_as_ever() -> None:
    given = arguments(1)
    for _ in range(3):
        UNIT.net(*given)
    with pytest.raises(gs.RuntimeFailure, match="R101"):
        UNIT.net(given[0], given[1], [*given[2][:2], draw(5)])

"""What fails inside a loop of the user's is told with the round that it fails in, on every road and through calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from graph_recording import graph_device

NET = """
def net(x, ws: List[Tensor]):
    for w in ws:
        x = torch.tanh(x @ w)
    return x.sum()
"""
NESTED = """
def inner(x, n: int):
    for j in range(n):
        x = x * torch.ones([j + 3])
    return x

def outer(x, n: int):
    while n > 0:
        x = torch.stack([inner(x, 1) for k in range(2)])[0]
        x = inner(x, 6 - n)
        n -= 1
    return x
"""


def _arrays() -> tuple[np.ndarray[Any, Any], list[np.ndarray[Any, Any]]]:
    return np.ones((2, 3)), [np.ones((3, 3)), np.ones((3, 3)), np.ones((4, 3)), np.ones((3, 3))]


def _in_c(function: Any) -> Any:
    with gs.settings.backend("c"):
        return function(*_arrays())


ROADS: dict[str, Callable[[Any], Any]] = {
    "call": lambda f: f(*_arrays()),
    "in c": _in_c,
    "vjp": lambda f: gs.vjp(f, *_arrays()),
    "grad": lambda f: gs.grad(f)(*_arrays()),
    "grad under a policy": lambda f: gs.grad(f, policy="recompute_all")(*_arrays()),
    "tape": lambda f: f(gs.tape.Variable(_arrays()[0]), _arrays()[1]),
    "torch": lambda f: f(torch.ones(2, 3, requires_grad=True), [torch.ones(w.shape) for w in _arrays()[1]]),
}


@pytest.mark.parametrize("name", ROADS)
def test_the_round_is_told_on_every_road(name: str) -> None:
    with pytest.raises(gs.RuntimeFailure) as caught:
        ROADS[name](gs.CompilationUnit(NET).net)
    message = str(caught.value)
    assert "in round 3 of the loop at <string>:3:5" in message
    assert "4 |         x = torch.tanh(x @ w)" in message
    assert "[2, 3]" in message and "[4, 3]" in message


def test_each_loop_on_the_way_tells_its_round() -> None:
    with pytest.raises(gs.RuntimeFailure) as caught:
        gs.CompilationUnit(NESTED).outer(np.ones(3), 5)
    notes = [note for note in caught.value.notes if "round" in note]
    assert notes == ["in round 2 of the loop at <string>:3:5", "in round 2 of the loop at <string>:8:5"]


def test_a_group_on_a_device_tells_the_rounds_and_calls_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
def scaled(x, ws: List[Tensor]):
    for w in ws:
        if float(x.sum()) > -1e9:
            x = torch.tanh(x * w) * 2 + 1
    return x
"""
    x, ws = torch.ones(3, 4), [torch.ones(3, 4), torch.ones(3, 4), torch.ones(3, 5)]
    with graph_device(monkeypatch), pytest.raises(gs.RuntimeFailure) as caught:
        gs.CompilationUnit(source).scaled(x, ws)
    assert caught.value.span.line == 5
    assert list(caught.value.notes) == [
        "self: float32[3, 4], other: float32[3, 5]",
        "in round 3 of the loop at <string>:3:5",
    ]


def test_a_loop_that_is_over_tells_nothing() -> None:
    source = "def f(x, y):\n    for i in range(3):\n        x = x + i\n    return x + y\n"
    with pytest.raises(gs.RuntimeFailure) as caught:
        gs.CompilationUnit(source).f(np.ones(3), np.ones(4))
    assert "round" not in str(caught.value)

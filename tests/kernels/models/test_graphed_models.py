"""Models and programs that go by their data as graphs: captured and right on other data, or refused at the line."""

from __future__ import annotations

from typing import Any

import data_programs
import gradscript as gs
import pytest
import torch
import whole_models
from amounts import some_of
from data_programs import compare
from graph_recording import graph_device

DECIDED_BY_THE_HOST = (
    *((data_programs, name) for name in ("tbptt", "lengths_gru")),
    *((whole_models, name) for name in ("transformer", "translation", "wavenet", "chain", "truncated")),
)
DECIDED_BY_DATA = {
    **{(data_programs, name): line for name, line in (("nested", 9), ("beam", 52), ("greedy", 119), ("cached", 198))},
    **{(whole_models, name): line for name, line in (("early_exit", 70), ("search", 79), ("experts", 92))},
}


def arguments(programs: Any, name: str) -> list[Any]:
    if programs is data_programs:
        return data_programs.arguments(name, 0)
    return whole_models.tensors(whole_models.arguments(name))


def other(value: Any, turn: int) -> Any:
    """Of the same kind, with other elements."""
    if isinstance(value, list):
        return [other(item, turn) for item in value]
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return (value.detach() * (1 + 0.05 * turn) + 0.01 * turn).requires_grad_(value.requires_grad)


@pytest.mark.parametrize(("programs", "name"), some_of(DECIDED_BY_THE_HOST))
def test_what_the_host_decides_is_captured(programs: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = arguments(programs, name)
    with graph_device(monkeypatch):
        step = gs.graphed(programs.UNIT[name], *given)
        for turn in (1, 2):
            values = [other(value, turn) for value in given]
            leaves = [tensor for tensor in whole_models.flat(values) if tensor.requires_grad]
            found, wanted = step(*values), programs.eager(name)(*values)
            gradients = [torch.autograd.grad(result, leaves, allow_unused=True) for result in (found, wanted)]
            compare([found, *gradients[0]], [wanted, *gradients[1]])
        assert step.count == 1


@pytest.mark.parametrize(("programs", "name"), some_of(tuple(DECIDED_BY_DATA)))
def test_what_data_decide_is_refused_at_its_line(programs: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with graph_device(monkeypatch), pytest.raises(gs.RuntimeFailure, match=r"R106\]: .*the host waits") as caught:
        gs.graphed(programs.UNIT[name], *arguments(programs, name))
    assert caught.value.span.line == DECIDED_BY_DATA[programs, name]

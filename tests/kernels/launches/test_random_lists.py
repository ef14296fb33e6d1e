"""Random programs of loops run again by lists of launches that know addresses alone, beside eager torch.

What calls gave is held until the last one has run, and compared then: nothing is anybody else's.
"""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch
from amounts import some
from gradscript.runtime.kernels.launches import native
from graph_recording import graph_device
from round_programs import random_function

CALLS, ROUNDS = 5, 4


def arguments(seed: int) -> list[Any]:
    draw = torch.Generator().manual_seed(seed)

    def tensor(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=draw, dtype=torch.float64) * 0.3).requires_grad_()

    return [tensor(ROUNDS, 3, 4), tensor(4, 4), [tensor(4, 4) for _ in range(ROUNDS)], ROUNDS]


def in_torch(text: str) -> Any:
    names: dict[str, Any] = {"torch": torch, "List": list, "Tensor": torch.Tensor}
    exec(text, names)
    return names["f"]


def results_of(f: Any, given: list[Any], order: int) -> list[Any]:
    """What it gives, the gradients of its squares, and of the second order those of the squares of these."""
    leaves = [given[0], given[1], *given[2]]
    results = [one for one in f(*given) if one.requires_grad]
    if not results:
        return [*f(*given)]
    total = sum((one**2).sum() for one in results)
    found = torch.autograd.grad(total, leaves, create_graph=order > 1, allow_unused=True)
    row = [*results, *found]
    if order > 1:
        squares = [(g**2).sum() for g in found if g is not None and g.requires_grad]
        row += torch.autograd.grad(sum(squares), leaves, allow_unused=True) if squares else []
    return row


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad:UserWarning")
@pytest.mark.parametrize("seed", range(some(60)))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if native._steps_type() is None:
        pytest.skip("needs a compiler of C, and Python's headers")
    text = random_function(seed)
    unit, plain, order = gs.CompilationUnit(text), in_torch(text), 1 + seed % 3 // 2
    with graph_device(monkeypatch, by_address=True) as device:
        pairs = []
        for turn in range(CALLS):
            try:
                want = results_of(plain, arguments(turn), order)
            except (RuntimeError, IndexError, ZeroDivisionError, TypeError):
                pytest.skip("torch refuses it too")
            pairs.append((results_of(unit.f, arguments(turn), order), want))
    for found, want in pairs:
        assert len(found) == len(want), text
        for have, wanted in zip(found, want, strict=True):
            if have is None or wanted is None:
                # A gradient that is zero may be none.
                assert all(one is None or not one.any() for one in (have, wanted)), text
            else:
                torch.testing.assert_close(
                    have.detach(), wanted.detach(), rtol=1e-9, atol=1e-11, msg=lambda m: m + text
                )
    if "float(h.sum())" not in text:
        assert device.at_addresses, text

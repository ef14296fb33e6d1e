"""Integers that change from call to call: what is computed with them is planned once."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.runtime.kernels.c.planned import PlannedProgram
from kernel_device import kernel_device

UNIT = gs.CompilationUnit("""
def corrected(x, beta: float, step: int):
    return x / (1 - beta ** step)

def scaled(x, step: int):
    return torch.tanh(x) * step + (step * 2 - 1)

def halved(n: int):
    return n // 2 + 1

def helped(x, step: int):
    return x * halved(step) - x ** 2

def added(x, step: int):
    return x + torch.exp(x) * step, step + 1

def in_rounds(x, step: int):
    for i in range(3):
        if float(x.detach().sum()) < 1000.0:
            x = torch.sin(x) * step + i
    return x

def of_whole_numbers(x, step: int):
    return x * step

def weighted(x, step: int):
    return torch.sub(torch.add(x, torch.exp(x), alpha=step), x, alpha=step - 1)

def bounded(x, step: int):
    return torch.clamp(x * 3.0, -step, step) + torch.clamp(x, max=step)
""")
DECIDING = gs.CompilationUnit("""
def sized(x, step: int):
    return x[:, :step] * 2.0

def along(x, step: int):
    return F.softmax(x, step % 2)

def chosen(x, step: int):
    return x * step if step > 3 else x - step

def told(x, step: int):
    if step > 2:
        step = step * 2
    return x * step
""")
X = np.linspace(-1.0, 2.0, 24).reshape(4, 6)
MORE: dict[str, tuple[Any, ...]] = {"corrected": (0.9,)}


def arguments(name: str, step: int) -> list[Any]:
    x = X.astype(np.int64) if name == "of_whole_numbers" else X
    return [x, *MORE.get(name, ()), step]


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []
    init = PlannedProgram.__init__
    monkeypatch.setattr(PlannedProgram, "__init__", lambda self, *given: found.append(1) or init(self, *given))
    return found


@pytest.mark.parametrize("name", [name for name in UNIT.functions if name != "halved"])
def test_a_number_that_changes_makes_nothing_anew(name: str, planned: list[object]) -> None:
    counts = []
    for step in (1, 2, 3, 7, 100):
        want, wanted = results_of(name, step)
        with gs.settings.backend("c"):
            for _ in range(2):
                have, found = results_of(name, step)
                for a, b in zip([*flat(have), *found], [*flat(want), *wanted], strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-12)
                    assert np.asarray(a).dtype == np.asarray(b).dtype
        counts.append(len(planned))
    assert len(set(counts)) == 1, counts


def results_of(name: str, step: int) -> tuple[Any, list[Any]]:
    """What a function gives for a step, and its gradient."""
    given = arguments(name, step)
    result = UNIT[name](*given)
    if name == "of_whole_numbers":
        return result, []
    _, pull_back = gs.vjp(UNIT[name], *given)
    return result, [pull_back((np.ones_like(X), None) if name == "added" else np.ones_like(X))[0]]


def test_a_number_that_may_be_missing_makes_nothing_anew_where_it_is_there(planned: list[object]) -> None:
    unit = gs.CompilationUnit("""
def given(x, scale: Optional[float] = None):
    return torch.tanh(x) * scale if scale is not None else x * 2.0
""")
    counts = []
    with gs.settings.backend("c"):
        for scale in (0.5, 2.0, 0.0, -1.0):
            np.testing.assert_allclose(unit.given(X, scale), np.tanh(X) * scale, rtol=1e-12)
            gradient = gs.vjp(unit.given, X, scale)[1](np.ones_like(X))[0]
            np.testing.assert_allclose(gradient, scale / np.cosh(X) ** 2, rtol=1e-12)
            counts.append(len(planned))
        assert len(set(counts)) == 1, counts
        np.testing.assert_allclose(unit.given(X), X * 2.0)


@pytest.mark.parametrize("name", list(DECIDING.functions))
def test_what_a_number_decides_follows_it(name: str) -> None:
    for step in (1, 2, 3, 4, 5):
        want = DECIDING[name](X, step)
        with gs.settings.backend("c"):
            np.testing.assert_allclose(DECIDING[name](X, step), want, rtol=1e-12)


def test_on_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    with kernel_device(monkeypatch) as runs:
        for step in (1, 2, 5):
            x = torch.tensor(X, requires_grad=True)
            result = UNIT.corrected(x, 0.9, step)
            (gradient,) = torch.autograd.grad(result.sum(), x)
            assert torch.allclose(result, x / (1 - 0.9**step))
            assert torch.allclose(gradient, torch.full_like(x, 1 / (1 - 0.9**step)))
    assert runs.kernels

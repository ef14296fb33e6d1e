"""Scatters of a few slices are parts of kernels: each element asks whether one is meant for it."""

from __future__ import annotations

from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
from array_programs import check_fused, fused
from gradscript.compiler.fusion.program import KernelStep

UNIT = gs.CompilationUnit("""
def written(x, index, source):
    return torch.tanh(x).scatter(1, index, source) * 2

def marked(x, index, source):
    return torch.zeros_like(x).scatter(1, index, 1.5) * x

def added(x, index, source):
    return x.scatter_add(1, index, source).exp()

def down(x, index, source):
    return (x * x).t().scatter(0, index.t(), source.t())

def largest(x, index, source):
    return torch.zeros_like(x).scatter(1, x.argmax(1, keepdim=True), 1.0) * x

def routed(x, index, source):
    shares = torch.softmax(x, -1).gather(1, index)
    return shares / shares.sum(-1, keepdim=True)
""")
X = np.random.default_rng(0).normal(size=(5, 7))


def _given(count: int) -> list[np.ndarray]:
    """Several slices for one element among them: the last is written."""
    generator = np.random.default_rng(count)
    return [X, generator.integers(0, 7, (5, count)), generator.normal(size=(5, count))]


@pytest.mark.parametrize("name", list(UNIT.functions))
@pytest.mark.parametrize("count", [1, 3, 8])
def test_few_slices_are_scattered_by_kernels(name: str, count: int) -> None:
    check_fused(UNIT[name], _given(count))
    pair = fused(UNIT[name], _given(count))
    steps = [*pair.forward.steps, *pair.backward(pair.usual_seeds()).steps]
    assert all(isinstance(step, KernelStep) for step in steps)


def test_many_are_scattered_by_the_library() -> None:
    steps = fused(UNIT.written, _given(9)).forward.steps
    assert not all(isinstance(step, KernelStep) for step in steps)
    check_fused(UNIT.written, _given(9))


@pytest.mark.parametrize("name", ["written", "added"])
def test_a_place_outside_is_refused_as_by_the_op(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    for bad in (7, -1):
        given = _given(2)
        given[1][2, 1] = bad
        told = []
        for backend in ("numpy", "c"):
            with gs.settings.backend(backend), pytest.raises(gs.RuntimeFailure, match="out of range") as failure:
                UNIT[name](*given)
            told.append(str(failure.value))
        assert told[0] == told[1]

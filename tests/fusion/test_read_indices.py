"""Elements that are read by index: outside of a tensor nothing is read, and what is no index is not fused."""

from __future__ import annotations

from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
from array_programs import check_fused, fused
from gradscript.compiler.fusion.program import KernelStep
from gradscript.compiler.kernel_ir.verifier import verify_kernel
from gradscript.compiler.shapes.propagate import ShapeError
from kernel_reference import run_program

UNIT = gs.CompilationUnit("""
def gathered(x, index):
    return torch.gather(x, 1, index) * 2

def selected(x, index):
    return torch.index_select(x, 0, index).exp()

def embedded(x, index):
    return F.embedding(index, x).sum(-1)

def scored(x, index):
    return F.cross_entropy(x, index, reduction="none")

def counted(x, index):
    return (F.one_hot(index, 7) * x).sum(-1)
""")
X = np.random.default_rng(0).normal(size=(5, 7))
INDICES = {
    "gathered": np.array([[0], [6], [3], [3], [1]]),
    "selected": np.array([4, 0, 0]),
    "embedded": np.array([[1, 4], [0, 0]]),
    "scored": np.array([0, 6, 2, -100, 5]),
    "counted": np.array([0, 6, 2, 2, 5]),
}


@pytest.mark.parametrize("name", INDICES)
def test_indices_within(name: str) -> None:
    check_fused(UNIT[name], [X, INDICES[name]])


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("bad", [10**6, -1, -(10**9)])
def test_outside_nothing_is_read(name: str, bad: int) -> None:
    index = INDICES[name].copy()
    index.flat[0] = bad
    pair = fused(UNIT[name], [X, index])
    for kernel in pair.forward.kernels:
        verify_kernel(kernel)
    # The interpreter of kernels reads where it is told to: outside of memory it fails.
    (found, *_) = run_program(pair.forward, [X, index])
    (wanted, *_) = run_program(pair.forward, [X, INDICES[name]])
    untouched = np.arange(len(found)) != 0
    np.testing.assert_allclose(found[untouched], wanted[untouched])


def test_in_c_a_class_outside_is_refused_as_by_the_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    for bad in (7, -1, 10**9):
        index = INDICES["counted"].copy()
        index[3] = bad
        told = []
        for backend in ("numpy", "c"):
            with gs.settings.backend(backend), pytest.raises(gs.RuntimeFailure, match="class values") as failure:
                UNIT.counted(X, index)
            told.append(str(failure.value))
        assert told[0] == told[1]


@pytest.mark.parametrize("name", ["gathered", "selected", "embedded"])
@pytest.mark.parametrize("dtype", [np.float64, np.bool_, np.uint8])
def test_what_is_no_index_is_not_fused(name: str, dtype: type) -> None:
    """The op refuses it, or is left to read by it."""
    index = np.zeros(INDICES[name].shape, dtype)
    try:
        steps = fused(UNIT[name], [X, index]).forward.steps
    except ShapeError as error:
        assert "ind" in str(error)
        return
    assert "index" not in {name for step in steps if isinstance(step, KernelStep) for name in step.arguments.values()}

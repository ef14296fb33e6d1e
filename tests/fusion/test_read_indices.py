"""Elements that are read by index: outside of a tensor nothing is read, and what is no index is not fused."""

from __future__ import annotations

from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
from array_programs import check_fused, fused
from gradscript.compiler.codegen.triton.module import supports
from gradscript.compiler.fusion.fuse import fuse
from gradscript.compiler.fusion.program import KernelStep
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.kernel_ir.verifier import verify_kernel
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.shapes.propagate import ShapeError
from gradscript.compiler.types.dtypes import FLOAT64, INT64
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
SUBSCRIPTS = gs.CompilationUnit("""
def rows(x, i, j):
    return x[i] * 2

def columns(x, i, j):
    return x[:, j].exp()

def both(x, i, j):
    return x[i, j] * x.sum()

def apart(x, i, j):
    return (x[:, :, None] * torch.ones([1, 1, 7]))[i, :, j] + 1

def grid(x, i, j):
    return torch.tanh(x[i[:, None], j[None, :]])

def of_ones(x, i, j):
    return torch.ones_like(x)[i] + x.sum()

def weighed(x, i, j):
    return (x[i] * x[j % 5, :]).sum(-1)
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


DOWN, ALONG = np.array([4, 0, 0, -1, -5, 2]), np.array([6, -7, 0, 3, -1, 2])


@pytest.mark.parametrize("name", list(SUBSCRIPTS.functions))
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_subscripts_are_read_by_kernels(name: str, dtype: type) -> None:
    """Numbers below 0 count from the end."""
    given = [X, DOWN.astype(dtype), ALONG.astype(dtype)]
    check_fused(SUBSCRIPTS[name], given)
    pair = fused(SUBSCRIPTS[name], given)
    assert all(isinstance(step, KernelStep) for step in pair.forward.steps)


def test_a_backward_knows_the_places_without_an_index() -> None:
    """Where both the forward and the backward read at an index, that is captured, rather than the list with it."""
    unit = gs.CompilationUnit("def f(x, i):\n    return x[:, i] * x[0, i] * 2")
    check_fused(unit.f, [X, ALONG])
    pair = fused(unit.f, [X, ALONG])
    assert pair.backward(pair.usual_seeds()).inputs[1:] == ("x", "i")


def test_a_list_with_places_without_an_index_is_given_to_the_op() -> None:
    """It is in no memory, so that a kernel that is given it could not read it."""
    graph = parse_ir("""
    graph f(%x : Tensor[float64, rank=2], %l : List[Optional[Tensor[int64, rank=1]]]):
      %1 : Tensor[float64, rank=2] = aten::index.Tensor(%x, %l)
      %2 : Tensor[float64, rank=2] = aten::exp(%1)
      return (%2)
    """)
    x, i = Layout.contiguous(Meta((5, 7), FLOAT64)), Layout.contiguous(Meta((6,), INT64))
    steps = fuse(graph, [x, [None, i]], supports).steps
    assert [isinstance(step, KernelStep) for step in steps] == [False, True]


@pytest.mark.parametrize("name", ["both", "apart", "of_ones"])
def test_subscripts_outside_are_refused_as_by_the_op(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    for bad, which in ((7, 1), (-8, 2), (10**9, 1)):
        given = [X, DOWN.copy(), ALONG.copy()]
        given[which][3] = bad
        told = []
        for backend in ("numpy", "c"):
            with gs.settings.backend(backend):
                try:
                    told.append(str(SUBSCRIPTS[name](*given)))
                except gs.RuntimeFailure as failure:
                    told.append(str(failure))
        assert told[0] == told[1]


@pytest.mark.parametrize("chosen", ["m", "i[0]"])
def test_masks_and_numbers_are_left_to_the_op(chosen: str) -> None:
    unit = gs.CompilationUnit(f"def f(x, i, m):\n    return torch.tanh(x * 2)[{chosen}] * 2")
    x, mask = np.arange(6.0), np.arange(6) % 2 == 0
    with gs.settings.backend("c"):
        found = unit.f(x, DOWN, mask)
    np.testing.assert_allclose(found, np.tanh(x * 2)[mask if chosen == "m" else DOWN[0]] * 2)


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

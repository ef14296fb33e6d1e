"""What lies across a kernel's loops is laid side by side for several rows at once, with the results of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.kernels.c.compiler import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no compiler of C")
UNIT = """
def normed(x, w):
    return torch.layer_norm(x, [x.size(-1)], w, None)

def gated(x, w):
    return (torch.sigmoid(x) * x.sin() * w).contiguous()

def shares(x, w):
    return torch.softmax(x, -1) + (x * w).sum(-1, True)

def counted(x, w):
    return (x > 0).sum(-1), x.amax(-1), (x * w).argmax(-1)
"""
ACROSS: dict[str, Callable[[tuple[int, ...], Any], Any]] = {
    "transposed": lambda shape, make: make((*shape[:-2], shape[-1], shape[-2])).swapaxes(-1, -2),
    "outermost": lambda shape, make: np.moveaxis(make((shape[-1], *shape[:-1])), 0, -1),
    "every other": lambda shape, make: make((*shape[:-2], shape[-1], 2 * shape[-2])).swapaxes(-1, -2)[..., ::2, :],
    "backwards": lambda shape, make: make((*shape[:-2], shape[-1], shape[-2])).swapaxes(-1, -2)[..., ::-1],
}


@pytest.fixture(autouse=True)
def in_c() -> Iterator[None]:
    with gs.settings.backend("c"):
        yield


def results_of(f: Any, x: Any, w: Any) -> list[Any]:
    y, pull_back = gs.vjp(f, x, w)
    found = y if isinstance(y, tuple) else (y,)
    seeds = [np.cos(np.arange(o.size, dtype=o.dtype)).reshape(o.shape) if o.dtype.kind == "f" else None for o in found]
    return [*found, *(g for g in pull_back(*seeds) if g is not None)]


@pytest.mark.parametrize("name", ["normed", "gated", "shares", "counted"])
@pytest.mark.parametrize("shape", [(70, 48), (33, 130), (2, 5, 64), (3, 40, 17)], ids=str)
def test_results_are_those_of_what_lies_along(name: str, shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(0)
    f, w = gs.CompilationUnit(UNIT)[name], draw.standard_normal(shape[-1]).astype(np.float32)
    for lies in ACROSS.values():
        x = lies(shape, lambda sizes: draw.standard_normal(sizes).astype(np.float32))
        found, expected = results_of(f, x, w), results_of(f, np.ascontiguousarray(x), w)
        with gs.settings.backend("numpy"):
            meant = results_of(f, x.astype(np.float64), w.astype(np.float64))
        for one, other, exact in zip(found, expected, meant, strict=True):
            np.testing.assert_allclose(one, exact, rtol=2e-5, atol=2e-5)
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "bool"])
def test_of_any_dtype(dtype: str) -> None:
    draw, shape = np.random.default_rng(1), (37, 70)
    f = gs.CompilationUnit("def f(x):\n    return (x * 2).sum(-1), x * 3, (x == 1).sum(-1)\n").f
    for lies in ACROSS.values():
        x = lies(shape, lambda sizes: draw.integers(0, 2, sizes).astype(dtype))
        for one, other in zip(f(x), f(np.ascontiguousarray(x)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_threads_begin_between_the_rows_that_share_lines() -> None:
    """A program is a row, and threads take as many as they like; what they lay side by side is their own."""
    x = np.random.default_rng(2).standard_normal((257, 1003)).T
    f = gs.CompilationUnit("def f(x):\n    return torch.softmax(x, -1)\n").f
    found = {}
    for threads in (1, 2, 3):
        with gs.settings.num_threads(threads):
            found[threads] = f(x)
    plain = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(found[1], plain / plain.sum(-1, keepdims=True), rtol=1e-12)
    assert found[1].tobytes() == found[2].tobytes() == found[3].tobytes()


def test_each_line_of_memory_is_read_once() -> None:
    """By row, what lies across is in an array of so many rows, by tile in one of its own; results are written along."""
    x = np.zeros((64, 96), np.float32).T
    normed, gated = (gs.CompilationUnit(UNIT)[name] for name in ("normed", "gated"))
    text = normed.kernels(x, np.zeros(64, np.float32)).c.forward
    assert "x_ptr[" not in text and "gs_turn_over_32(x_rows" in text and "x_rows[" in text
    text = gated.kernels(x, np.zeros(64, np.float32)).c.forward
    assert "x_ptr[" not in text and "gs_turn_over_32(x_tile" in text and "x_tile[" in text
    assert "result_tile" not in text


def test_what_lies_in_a_tile_has_neighbours_there() -> None:
    """So that results of a loop over it go to memory by whole lines."""
    f = gs.CompilationUnit("def f(x, y):\n    return y * x + torch.exp(x)\n").f
    x = np.zeros((2048, 1024), np.float32)
    text = f.kernels(np.zeros((1024, 2048), np.float32).T, x).c.forward
    assert "gs_put(" in text and "gs_fetch(y_ptr" in text

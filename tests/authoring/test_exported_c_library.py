"""What stands between kernels in exported C: products, running sums, indices, views and copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradscript as gs
import pytest
import torch
from called_c import CalledC, held_to_torch

SOURCE = """
def attention(q, k, v, mask, scale: float):
    scores = torch.matmul(q, k.transpose(-2, -1)) * scale
    return torch.matmul(torch.softmax(scores.masked_fill(mask, -1e9), -1), v)

def layers(x, w1, b1, w2):
    return F.gelu(x @ w1 + b1) @ w2

def linear(x, weight, bias):
    return F.linear(x, weight, bias).relu()

def affine(bias, a, b):
    return torch.addmm(bias, a, b)

def of_vectors(x, v, w):
    return (x @ v) * torch.tanh(x @ w)

def in_own_words(x, w):
    def backward(g):
        return g @ w.mT, x.mT @ g

    return x @ w, backward

def running(x):
    return torch.cumsum(x * x, -1), torch.cumsum(x, 0)

def rows_of(table, index):
    return table[index] * 2

def element_of(x, i, j):
    return x[i, j] ** 2

def gathered(x, index):
    return torch.gather(x.exp(), 1, index)

def scattered(x, index, source):
    return torch.scatter(x, 1, index, source).exp()

def added(x, index, source):
    return torch.index_add(x, 0, index, source).tanh()

def selected(x, index):
    return torch.index_select(x, -1, index) * 3

def turned(x, y):
    return (x @ y).t(), x.t()

def named(columns, lines, w):
    blocks = torch.exp(columns) * lines
    return (blocks @ w) / (1 + blocks.sum(-1, keepdim=True) ** 2)
"""


def _unit() -> Any:
    return gs.CompilationUnit(SOURCE)


def _r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def _i(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape)


def _attention(q: Any, k: Any, v: Any, mask: Any, scale: float) -> Any:
    return torch.softmax((q @ k.mT * scale).masked_fill(mask, -1e9), -1) @ v


def _masked(batch: int, heads: int, rows: int, keys: int, width: int) -> dict[str, Any]:
    q, k, v = (_r(batch, heads, count, width) for count in (rows, keys, keys))
    return {"q": q, "k": k, "v": v, "mask": torch.rand(batch, 1, rows, keys) < 0.3, "scale": 0.4}


Eager = Callable[..., Any]
CASES: list[tuple[str, Callable[[], dict[str, Any]], Callable[[], dict[str, Any]], Eager]] = [
    ("attention", lambda: _masked(2, 4, 16, 12, 8), lambda: _masked(3, 2, 5, 6, 7), _attention),
    (
        "layers",
        lambda: {"x": _r(2, 7, 8), "w1": _r(8, 32), "b1": _r(32), "w2": _r(32, 5)},
        lambda: {"x": _r(5, 3, 4), "w1": _r(4, 6), "b1": _r(6), "w2": _r(6, 2)},
        lambda x, w1, b1, w2: torch.nn.functional.gelu(x @ w1 + b1) @ w2,
    ),
    (
        "linear",
        lambda: {"x": _r(7, 8), "weight": _r(5, 8), "bias": _r(5)},
        lambda: {"x": _r(3, 4), "weight": _r(6, 4), "bias": _r(6)},
        lambda x, weight, bias: (x @ weight.t() + bias).relu(),
    ),
    (
        "affine",
        lambda: {"bias": _r(5), "a": _r(7, 8), "b": _r(8, 5)},
        lambda: {"bias": _r(6), "a": _r(3, 4), "b": _r(4, 6)},
        lambda bias, a, b: torch.addmm(bias, a, b),
    ),
    (
        "of_vectors",
        lambda: {"x": _r(7, 8), "v": _r(8), "w": _r(8)},
        lambda: {"x": _r(3, 5), "v": _r(5), "w": _r(5)},
        lambda x, v, w: (x @ v) * torch.tanh(x @ w),
    ),
    (
        "in_own_words",
        lambda: {"x": _r(7, 8), "w": _r(8, 5)},
        lambda: {"x": _r(3, 4), "w": _r(4, 6)},
        lambda x, w: x @ w,
    ),
    (
        "running",
        lambda: {"x": _r(7, 8)},
        lambda: {"x": _r(3, 5)},
        lambda x: (torch.cumsum(x * x, -1), torch.cumsum(x, 0)),
    ),
    (
        "rows_of",
        lambda: {"table": _r(30, 8), "index": _i(30, 5, 6)},
        lambda: {"table": _r(9, 3), "index": _i(9, 7, 2) - 9 * (torch.arange(14).reshape(7, 2) % 2)},
        lambda table, index: table[index] * 2,
    ),
    (
        "element_of",
        lambda: {"x": _r(7, 8), "i": _i(7, 5), "j": _i(8, 5)},
        lambda: {"x": _r(3, 4), "i": _i(3, 9), "j": _i(4, 9)},
        lambda x, i, j: x[i, j] ** 2,
    ),
    (
        "gathered",
        lambda: {"x": _r(7, 8), "index": _i(8, 7, 3)},
        lambda: {"x": _r(3, 4), "index": _i(4, 3, 3)},
        lambda x, index: torch.gather(x.exp(), 1, index),
    ),
    (
        # Few slices are part of a kernel, many are not: the text is for the sizes given.
        "scattered",
        lambda: {"x": _r(6, 5), "index": _i(5, 6, 1), "source": _r(6, 1)},
        lambda: {"x": _r(6, 5), "index": _i(5, 6, 1), "source": _r(6, 1)},
        lambda x, index, source: torch.scatter(x, 1, index, source).exp(),
    ),
    (
        "added",
        lambda: {"x": _r(7, 8), "index": _i(7, 11), "source": _r(11, 8)},
        lambda: {"x": _r(3, 5), "index": _i(3, 4), "source": _r(4, 5)},
        lambda x, index, source: torch.index_add(x, 0, index, source).tanh(),
    ),
    (
        "selected",
        lambda: {"x": _r(7, 8), "index": _i(8, 11)},
        lambda: {"x": _r(3, 5), "index": _i(5, 4)},
        lambda x, index: torch.index_select(x, -1, index) * 3,
    ),
    (
        "turned",
        lambda: {"x": _r(7, 8), "y": _r(8, 5)},
        lambda: {"x": _r(3, 4), "y": _r(4, 6)},
        lambda x, y: ((x @ y).t(), x.t()),
    ),
    (
        "named",
        lambda: {"columns": _r(7, 8), "lines": _r(7, 8), "w": _r(8, 5)},
        lambda: {"columns": _r(3, 4), "lines": _r(3, 4), "w": _r(4, 6)},
        lambda columns, lines, w: (columns.exp() * lines @ w) / (1 + (columns.exp() * lines).sum(-1, True) ** 2),
    ),
]


@pytest.mark.parametrize(("name", "like", "values", "eager"), CASES, ids=[case[0] for case in CASES])
def test_what_libraries_compute_are_loops(
    name: str,
    like: Callable[[], dict[str, Any]],
    values: Callable[[], dict[str, Any]],
    eager: Callable[..., Any],
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    called = CalledC(getattr(_unit(), name), like(), tmp_path)
    held_to_torch(called, values(), eager)


def test_an_index_out_of_range_is_told_by_the_result(tmp_path: Path) -> None:
    called = CalledC(_unit().rows_of, {"table": _r(30, 8), "index": _i(30, 5)}, tmp_path)
    for index, code in ((-4, 0), (3, 0), (4, 1), (-5, 1)):
        given = {"table": _r(4, 2), "index": torch.tensor([0, index, 1]), "result": torch.zeros(3, 2)}
        assert called.call("forward", given, called.sizes(given)) == code


HOOK = """
#include <stdint.h>
int64_t calls = 0;
void product(float *out, const float *left, const float *right, int64_t rows, int64_t inner, int64_t columns,
    int64_t left_row, int64_t left_inner, int64_t right_inner, int64_t right_column)
{
    ++calls;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
            for (int64_t k = 0; k < inner; ++k)
                out[i * columns + j] +=
                    left[i * left_row + k * left_inner] * right[k * right_inner + j * right_column];
}
"""


def test_products_may_be_those_of_a_library(tmp_path: Path) -> None:
    import ctypes

    (tmp_path / "hook.c").write_text(HOOK, encoding="utf-8")
    more = [str(tmp_path / "hook.c"), "-DGRADSCRIPT_PRODUCT=product"]
    torch.manual_seed(0)
    called = CalledC(_unit().in_own_words, {"x": _r(7, 8), "w": _r(8, 5)}, tmp_path, more)
    held_to_torch(called, {"x": _r(3, 4), "w": _r(4, 6)}, lambda x, w: x @ w)
    assert ctypes.c_int64.in_dll(called.library, "calls").value == 3

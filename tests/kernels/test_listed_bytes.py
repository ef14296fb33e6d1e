"""What a listing says is moved: the elements that a kernel asks for, not the tensors that they are part of."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest

FLOAT = 4


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def of(source: str) -> gs.Function:
    return next(iter(gs.CompilationUnit(source).functions.values()))


def test_rows_of_a_table() -> None:
    function = of("def f(table, rows: Tensor):\n    return F.embedding(rows, table.detach())\n")
    listing = function.kernels(zeros(50_000, 64), np.zeros(10, np.int64))
    (kernel,) = listing.forward
    assert kernel.bytes_read == 10 * 8 + 10 * 64 * FLOAT and kernel.bytes_written == 10 * 64 * FLOAT
    assert listing.least_bytes[0] == kernel.bytes_read + kernel.bytes_written
    (whole,) = function.kernels(zeros(3, 64), np.zeros(10, np.int64)).forward
    assert whole.bytes_read == 10 * 8 + 3 * 64 * FLOAT


def test_a_slice() -> None:
    (kernel,) = of("def f(x):\n    return x[5:10, ::2].exp()\n").kernels(zeros(1000, 8)).forward
    assert kernel.bytes_read == kernel.bytes_written == 5 * 4 * FLOAT


def test_parts_of_a_result() -> None:
    function = of("def f(x, y):\n    return torch.cat([x.exp(), y.sin()], 0)\n")
    listing = function.kernels(zeros(30, 8), zeros(5, 8))
    assert [kernel.bytes_written for kernel in listing.forward] == [30 * 8 * FLOAT, 5 * 8 * FLOAT]
    assert sum(kernel.bytes_read for kernel in listing.backward) == 2 * 35 * 8 * FLOAT


def test_the_least_of_lists_is_that_of_their_tensors() -> None:
    function = of("def f(xs: List[Tensor]):\n    return xs[0] * xs[1].sin(), [xs[0] + 1]\n")
    listing = function.kernels([zeros(6, 5), zeros(6, 5), zeros(6, 5)])
    (kernel,) = listing.forward
    assert kernel.bytes_read == 2 * 30 * FLOAT and kernel.bytes_written == 2 * 30 * FLOAT
    assert listing.least_bytes[0] == 4 * 30 * FLOAT


def test_an_argument_that_is_returned_counts_once() -> None:
    listing = of("def f(x):\n    return x, x * 2\n").kernels(zeros(6, 5))
    assert listing.least_bytes[0] == 2 * 30 * FLOAT


def test_a_view_that_is_kept_is_no_result() -> None:
    function = of(
        "def f(x):\n    parts = x.reshape([x.size(0), 2, -1])\n"
        "    return (parts - parts.mean(-1, keepdim=True)).reshape(x.size()).exp()\n"
    )
    listing = function.kernels(zeros(8, 64))
    assert listing.least_bytes[0] == 2 * 8 * 64 * FLOAT


@pytest.mark.parametrize(
    ("source", "moved"),
    [
        ("def f(x, w):\n    return torch.relu(x @ w)\n", 2),
        ("def f(x, w):\n    return torch.relu(x) @ w\n", 2),
        ("def f(x, w):\n    return torch.relu(torch.relu(x) @ w)\n", 4),
        ("def f(x, w):\n    return torch.relu(x) @ w, x * 2\n", 3),
        ("def f(x, w):\n    return (x @ w).t() @ w\n", 0),
    ],
)
def test_what_the_library_gives_and_takes_is_among_the_least(source: str, moved: int) -> None:
    listing = of(source).kernels(zeros(64, 64), zeros(64, 64))
    assert listing.least_bytes[0] == moved * 64 * 64 * FLOAT
    assert sum(info.bytes_read + info.bytes_written for info in listing.forward) == listing.least_bytes[0]


def test_what_is_held_at_once_is_its_allocations_replayed() -> None:
    unit = gs.CompilationUnit("""
def plain(x):
    return torch.exp(x) * 2

def total(x):
    return x.sum()

def twice(x, w):
    return x @ w.t() + x @ w
""")
    x, w = np.zeros((64, 32), np.float32), np.zeros((32, 32), np.float32)
    product = 64 * 32 * 4
    assert unit.plain.kernels(x).peak_bytes == (0, 0)
    listing = unit.total.kernels(np.zeros((4096, 1024), np.float32))
    assert listing.peak_bytes == (listing.forward[0].bytes_written, 0), "the sums of chunks"
    assert unit.twice.kernels(x, w).peak_bytes[0] in (product, 2 * product), "the sum may lie where a product did"


def test_what_loops_hold_no_listing_says() -> None:
    unit = gs.CompilationUnit("""
def loop(x, w, rounds: int):
    for _ in range(rounds):
        x = torch.tanh(x @ w)
    return x
""")
    listing = unit.loop.kernels(np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32), 40)
    assert listing.peak_bytes == (None, None)

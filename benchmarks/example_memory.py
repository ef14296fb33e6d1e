"""What the chunked functions of examples/kernels hold at once in C, beyond arguments and results.

python benchmarks/example_memory.py            prints the table
python benchmarks/example_memory.py --keep     writes it into docs/kernels.md

Python's own trace of allocations, in which NumPy's are, is read while a forward and its pullback run: nothing is
estimated. Results of kernels come from NumPy meanwhile, and not out of memory that is kept for them.
"""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import gradscript as gs
import numpy as np
from gradscript.runtime.values import arena
from harness import markdown, print_or_keep
from inputs.example_shapes import arguments

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "kernels.md"
FOLDER = ROOT / "examples" / "kernels"
MARKS = ("<!-- measured by `make examples-memory` -->", "<!-- end of what they hold -->")
ROWS, COLUMNS, CHUNKS = 1024, 4096, 4
CHUNKED = {"linear_cross_entropy": 1, "linear_jsd": 2, "linear_dpo": 1, "tiled_mlp": 2}
"""By name: the products of one chunk, as large as its rows times the columns each."""
HEADINGS = ["function", "all products", "one chunk's", "forward", "kept", "backward"]


@dataclass(frozen=True)
class Held:
    """Bytes: of all chunks' products, of one's; beyond arguments and results, the most of each pass and between."""

    whole: int
    chunk: int
    forward: int
    kept: int
    backward: int


def measure(name: str, rows: int = ROWS, columns: int = COLUMNS) -> Held:
    """What a function holds. It has run before, so that it is planned and its kernels are built."""
    function = next(unit[name] for unit in map(gs.load, sorted(FOLDER.glob("*.grad"))) if name in unit.functions)
    given = arguments(name, rows, columns)
    least, arena.LEAST = arena.LEAST, sys.maxsize
    try:
        with gs.settings.backend("c"):
            result, pullback = gs.vjp(function, *given)
            seed = np.ones_like(result)
            pullback(seed)
            del result, pullback
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            result, pullback = gs.vjp(function, *given)
            kept, forward = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            gradients = pullback(seed)
            _, backward = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        arena.LEAST = least
    own = before + np.asarray(result).nbytes
    results = own + sum(gradient.nbytes for gradient in gradients if gradient is not None)
    whole = CHUNKED[name] * rows * columns * 8
    return Held(whole, whole // CHUNKS, forward - own, kept - own, backward - results)


def table() -> str:
    """Markdown."""
    rows = [_row(name, measure(name)) for name in CHUNKED]
    return markdown(HEADINGS, rows)


def _row(name: str, held: Held) -> list[str]:
    mebibytes = [f"{number / 2**20:.0f} MiB" for number in (held.whole, held.chunk)]
    return [f"`{name}`", *mebibytes, *(f"{n / held.chunk:.2f}" for n in (held.forward, held.kept, held.backward))]


if __name__ == "__main__":
    print_or_keep(__doc__, DOCUMENT, MARKS, table)

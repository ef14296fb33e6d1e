"""What the suite's kernels move: how many there are, bytes beside the least there could be, and what is saved.

python benchmarks/kernel_table.py            prints the table
python benchmarks/kernel_table.py --keep     writes it into docs/kernels.md

All of it follows from `f.kernels(…)`; neither a GPU nor Triton is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
from gradscript.runtime.kernels.listing import KernelInfo, KernelListing
from gradscript.runtime.values.text_tables import bytes_text
from harness import markdown, print_or_keep
from inputs.suite_shapes import ARGUMENTS, NO_BACKWARD, Classes

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "kernels.md"
MARKS = ("<!-- listed by `make kernels-table` -->", "<!-- end of what was listed -->")
ROWS, COLUMNS = 4096, 1024
SIZES = {"cross_entropy": (512, 32_000)}
HEADINGS = ["function", "forward", "moved", "÷ least", "backward", "moved", "÷ least", "saved"]


def arguments(name: str) -> list[Any]:
    return [_array(given) for given in ARGUMENTS[name](*SIZES.get(name, (ROWS, COLUMNS)))]


def _array(given: Any) -> Any:
    if isinstance(given, Classes):
        return np.zeros(given.rows, np.int64)
    return np.zeros(given, np.float32) if isinstance(given, tuple) else given


def table() -> str:
    """Markdown."""
    unit = gs.CompilationUnit((ROOT / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad")
    rows = [_row(name, unit[name].kernels(*arguments(name))) for name in ARGUMENTS]
    return markdown(HEADINGS, rows)


def _row(name: str, listing: KernelListing) -> list[str]:
    forward, backward = listing.least_bytes
    there = name not in NO_BACKWARD
    later = _cells(listing.backward, backward) if there else ["", "", ""]
    return [f"`{name}`", *_cells(listing.forward, forward), *later, bytes_text(listing.saved_bytes) if there else ""]


def _cells(kernels: Sequence[KernelInfo], least: int) -> list[str]:
    moved = sum(info.bytes_read + info.bytes_written for info in kernels)
    return [str(len(kernels)), bytes_text(moved), f"{moved / least:.2f}"]


if __name__ == "__main__":
    print_or_keep(__doc__, DOCUMENT, MARKS, table)

"""What the kernels of examples/kernels move: how many there are, bytes beside the least there could be, what they hold.

python benchmarks/example_table.py            prints the table
python benchmarks/example_table.py --keep     writes it into docs/kernels.md

All of it follows from `f.kernels(…)`; neither a GPU nor Triton is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
from gradscript.runtime.kernels.listing import KernelInfo, KernelListing
from gradscript.runtime.values.text_tables import bytes_text
from harness import markdown, print_or_keep
from inputs.example_shapes import ARGUMENTS, Classes, Drawn

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "kernels.md"
FOLDER = ROOT / "examples" / "kernels"
MARKS = ("<!-- listed by `make examples-table` -->", "<!-- end of what the examples move -->")
ROWS, COLUMNS = 4096, 1024
HEADINGS = ["function", "forward", "÷ least", "peak", "backward", "÷ least", "peak", "saved", "library"]


def table() -> str:
    """Markdown."""
    units = [gs.load(path) for path in sorted(FOLDER.glob("*.grad"))]
    functions = {name: unit[name] for unit in units for name in unit.functions}
    return markdown(HEADINGS, [_row(name, listing_of(functions[name])) for name in ARGUMENTS])


def listing_of(function: gs.Function) -> KernelListing:
    """The kernels of a function of the folder."""
    return function.kernels(*_arguments(function.name))


def _arguments(name: str) -> list[Any]:
    return [_array(given) for given in ARGUMENTS[name](ROWS, COLUMNS)]


def _array(given: Drawn | Classes) -> Any:
    """Zeros that take no memory: the layout is what counts."""
    return np.zeros(given.shape, np.int64 if isinstance(given, Classes) else np.float32)


def _row(name: str, listing: KernelListing) -> list[str]:
    passes = zip((listing.forward, listing.backward), listing.least_bytes, listing.peak_bytes, strict=True)
    forward, backward = (_cells(*found) for found in passes)
    return [f"`{name}`", *forward, *backward, bytes_text(listing.saved_bytes), str(len(listing.library) or "")]


def _cells(kernels: tuple[KernelInfo, ...], least: int, peak: int | None) -> list[str]:
    moved = sum(info.bytes_read + info.bytes_written for info in kernels)
    return [str(len(kernels)), f"{moved / least:.2f}" if least else "", "" if peak is None else bytes_text(peak)]


if __name__ == "__main__":
    print_or_keep(__doc__, DOCUMENT, MARKS, table)

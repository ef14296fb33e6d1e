"""What the kernels of examples/kernels compile to for GPUs that are not here: registers, and bytes that are spilled.

python benchmarks/example_binaries.py                  prints a line for each function
python benchmarks/example_binaries.py --keep           writes the table into docs/kernels.md

Triton is needed, a GPU is not; it takes a quarter of an hour.
"""

from __future__ import annotations

import gradscript as gs
from example_table import ARGUMENTS, DOCUMENT, FOLDER, listing_of
from gradscript.runtime.kernels.triton.compile import TARGETS
from harness import markdown, print_or_keep

MARKS = ("<!-- compiled by `make examples-binaries` -->", "<!-- end of what the examples compile to -->")


def table() -> str:
    """Markdown: for each target the most registers of a function's kernels, and the bytes that they spill."""
    units = [gs.load(path) for path in sorted(FOLDER.glob("*.grad"))]
    functions = {name: unit[name] for unit in units for name in unit.functions}
    return markdown(["function", "kernels", *TARGETS], [_row(functions[name]) for name in ARGUMENTS])


def _row(function: gs.Function) -> list[str]:
    listing = listing_of(function)
    kernels = (*listing.forward, *listing.backward)
    cells = []
    for target in TARGETS:
        binaries = [info.compile(target) for info in kernels]
        registers = max((binary.registers for binary in binaries), default=0)
        cells.append(f"{registers}, {sum(binary.spills for binary in binaries)} B")
    row = [f"`{function.name}`", str(len(kernels)), *cells]
    print(" | ".join(row), flush=True)
    return row


if __name__ == "__main__":
    print_or_keep(__doc__, DOCUMENT, MARKS, table)

"""How times of kernels in C grow with sizes, and what compilers take.

python benchmarks/cpu_growth.py, or `make bench-cpu ARGS=--keep`, which writes docs/benchmarks.md
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cpu import ROWS, arguments_of, by_us, our_functions

GROWING = ("swiglu", "chain")
POINTS = [10**power for power in range(3, 9)]
ROWS_OF = {"softmax": [61, 64, 100, 512, 1000, 1024, 4096, 4097, 8192, 16_384, 65_536, 100_000]}
"""Columns of 4M elements."""
COMPILED = ("swiglu", "layer_norm", "cross_entropy", "dropout_add_layer_norm")


# --- sizes ---


def growth() -> list[str]:
    """Nanoseconds of an element, forward and gradients, by how many there are."""
    from harness import medians

    found: dict[str, dict[int, float]] = {}
    for name in GROWING:
        found[name] = {}
        for count in POINTS:
            work = by_us(our_functions()[name], _ones_like_data((count,), 2), (0, 1))
            turns = max(3, min(200, 10**7 // count))
            found[name][count] = 1e9 * medians({name: work}, turns)[name] / count
    lines = ["## Elements", "", "Nanoseconds of an element, forward and gradients.", ""]
    lines += _table("elements", POINTS, found)
    lines += ["", *_chart(found), "", "## Columns", "", "The same for 4M elements in rows of so many columns.", ""]
    rows: dict[str, dict[int, float]] = {}
    for name, columns in ROWS_OF.items():
        rows[name] = {}
        for count in columns:
            height = (1 << 22) // count
            work = by_us(our_functions()[name], _ones_like_data((height, count), 1), (0,))
            rows[name][count] = 1e9 * medians({name: work}, 9)[name] / (height * count)
    return [*lines, *_table("columns", ROWS_OF["softmax"], rows)]


def _ones_like_data(shape: tuple[int, ...], count: int) -> list[Any]:
    import numpy as np

    return [np.random.default_rng(i).standard_normal(shape, np.float32) for i in range(count)]


def _table(what: str, points: Sequence[int], found: Mapping[str, Mapping[int, float]]) -> list[str]:
    lines = [f"| {what} | {' | '.join(f'`{name}`' for name in found)} |", "|---" * (len(found) + 1) + "|"]
    return lines + [f"| {n:,} | {' | '.join(f'{times[n]:.3g}' for times in found.values())} |" for n in points]


def _chart(found: Mapping[str, Mapping[int, float]]) -> list[str]:
    """A chart that pages of Markdown draw."""
    lines = ["```mermaid", "xychart-beta", f'    title "ns of an element: {", ".join(found)}"']
    lines.append(f"    x-axis [{', '.join(f'{n:.0e}' for n in POINTS)}]")
    lines.append('    y-axis "ns"')
    for times in found.values():
        lines.append(f"    line [{', '.join(f'{times[n]:.3g}' for n in POINTS)}]")
    return [*lines, "```"]


# --- compilers ---


def compilers() -> list[str]:
    """What each compiler takes to build both passes, and what these take."""
    from gradscript.runtime.kernels.c.compiler import find_compiler

    chosen = {name: find_compiler(os.environ.get("PATH"), name) for name in ("gcc", "clang")}
    chosen["zig"] = find_compiler("", None)
    lines = ["## Compilers", "", "Milliseconds to build the C of both passes, nothing cached, by `$CC`.", ""]
    available = {name: made_by for name, made_by in chosen.items() if made_by is not None}
    lines += [f"| function | {' | '.join(available)} |", "|---" * (len(available) + 1) + "|"]
    functions = our_functions()
    for name in COMPILED:
        row = next(row for row in ROWS.values() if row.name == name)
        texts = functions[name].kernels(*arguments_of(row)).c
        cells = []
        for made_by in available.values():
            taken = []
            for turn in range(3):
                started = time.perf_counter()
                for text in (texts.forward, texts.backward):
                    made_by.build(f"{text}\n/* {turn} */\n")
                taken.append(time.perf_counter() - started)
            cells.append(f"{1e3 * min(taken):.0f}")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def main() -> None:
    os.environ["GRADSCRIPT_BACKEND"] = "c"
    print("\n".join([*growth(), "", *compilers()]))


if __name__ == "__main__":
    main()

"""How many texts the suite's kernels have over many batch sizes: each one is a compilation.

python benchmarks/batch_texts.py                  22 sizes between 1 and 8,192
python benchmarks/batch_texts.py --sizes=1000     so many, drawn at random
python benchmarks/batch_texts.py --columns=61     of rows of another length

A kernel of Triton's counts with its block sizes and options, for which it is built; a module of C is compiled whole.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
from inputs.suite_shapes import ARGUMENTS, COLUMNS, Classes

ROOT = Path(__file__).parents[1]
_FUNCTION = re.compile(r"^int (\w+)\(", re.MULTILINE)
MOST = 8192
SIZES = (
    *(1, 2, 3, 7, 16, 17, 31, 64, 100, 127, 128, 129, 500, 512, 1000, 1024, 1025, 2048, 4095, 4096, 8191),
    MOST,
)
"""Around what schedules and chunks change at."""


@dataclass
class Texts:
    """What was met, by kernel: texts of Triton, what is built of them, functions of C; and by pass, modules of C."""

    triton: dict[str, set[str]] = field(default_factory=dict)
    built: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    functions: dict[str, set[str]] = field(default_factory=dict)
    modules: dict[str, set[str]] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """The most that any kernel, or any pass, has of anything."""
        found = (self.triton, self.built, self.functions, self.modules)
        return max(len(texts) for each in found for texts in each.values())


def _rope_of_sequences(rows: int, columns: int) -> list[Any]:
    return [(4, 8, rows, columns), (rows, columns), (rows, columns)]


def _rope_of_batches(rows: int, columns: int) -> list[Any]:
    return [(rows, 8, 16, columns), (16, columns), (16, columns)]


CASES: dict[str, tuple[str, Callable[[int, int], Sequence[Any]]]] = {
    **{name: (name, shapes) for name, shapes in ARGUMENTS.items() if name != "rope"},
    "rope, sequences": ("rope", _rope_of_sequences),
    "rope, batches": ("rope", _rope_of_batches),
}
"""The suite's functions, and shapes for so many rows of so many columns."""


def unit() -> gs.CompilationUnit:
    return gs.CompilationUnit((ROOT / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad")


def texts_of(suite: gs.CompilationUnit, case: str, sizes: Iterable[int], columns: int) -> Texts:
    """The texts of a case over numbers of rows."""
    name, shapes = CASES[case]
    return texts_over(suite[name], [shapes(rows, columns) for rows in sizes])


def texts_over(function: gs.Function, calls: Iterable[Sequence[Any]]) -> Texts:
    """The texts of a function over shapes of its arguments."""
    found = Texts()
    for call in calls:
        listing = function.kernels(*map(_array, call))
        for info in (*listing.forward, *listing.backward):
            found.triton.setdefault(info.name, set()).add(info.text)
            built = (info.text, repr(info.constants), repr(info.options))
            found.built.setdefault(info.name, set()).add(built)
        for text in listing.c.functions:
            (name_in_c,) = _FUNCTION.findall(text)
            found.functions.setdefault(name_in_c, set()).add(text)
        for half, text in (("forward", listing.c.forward), ("backward", listing.c.backward)):
            found.modules.setdefault(half, set()).add(text)
    return found


def _array(given: Any) -> Any:
    """Only shapes are looked at: nothing touches the memory."""
    if isinstance(given, Classes):
        return np.empty(given.rows, np.int64)
    return np.empty(given, np.float32) if isinstance(given, tuple) else given


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, default=0, help="how many sizes to draw")
    parser.add_argument("--columns", type=int, default=0, help="the length of rows; by default what is met in practice")
    parser.add_argument("cases", nargs="*", help="which functions; by default all of them")
    given = parser.parse_args()
    drawn = random.Random(1).sample(range(1, MOST + 1), min(given.sizes, MOST)) if given.sizes else SIZES
    suite, worst = unit(), 0
    print(f"texts of a kernel at most, {len(drawn)} batch sizes: of Triton, built of them, of C, modules of C")
    for case in given.cases or CASES:
        columns = given.columns or (64 if case.startswith("rope") else COLUMNS.get(case, 1024))
        found = texts_of(suite, case, drawn, columns)
        counts = [max(map(len, each.values())) for each in (found.triton, found.built, found.functions, found.modules)]
        worst = max(worst, *counts)
        print(f"{case:26}" + "".join(f"{count:4}" for count in counts), flush=True)
    return int(worst > 4)


if __name__ == "__main__":
    raise SystemExit(main())

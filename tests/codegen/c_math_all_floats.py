"""Holds the C functions to their references over all floats, and over a million doubles; `make c-math`.

With --keep the results go into the table of docs/vector_math.md. Names of functions run these alone.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import re
import subprocess
from pathlib import Path

import numpy as np
from c_math import BINARY, COMPILER, SUFFIXES, UNARY, Functions, Report, build, doubles, pairs

PAGE = Path(__file__).parents[2] / "docs" / "vector_math.md"
MARKS = ("<!-- measured by `make c-math` -->", "<!-- end of what was measured -->")
_HEAD = "| function | float32 | at | float64 | at |\n|---|---|---|---|---|"
_ROW = re.compile(r"^\| `(\w+)` \|.*$", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[*UNARY, *BINARY])
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    functions = build(tuple(given.names))
    if functions is None:
        raise SystemExit("this needs gcc with libquadmath")
    for name in given.names:
        row = _row(functions, name)
        print(row, flush=True)
        if given.keep:
            _keep(name, row)


def _row(functions: Functions, name: str) -> str:
    random = np.random.default_rng(1)
    if name in BINARY:
        found = [functions.check(f"{name}_{s}", *pairs(random, _DTYPES[s], 1 << 20)) for s in SUFFIXES]
    else:
        found = [functions.sweep(name, 0, 1, 1 << 32), functions.check(f"{name}_f64", doubles(random, 1 << 18))]
    return f"| `{name}` | {' | '.join(_cell(report, name in BINARY) for report in found)} |"


_DTYPES = {"f32": np.dtype("float32"), "f64": np.dtype("float64")}


def _cell(found: Report, of_two: bool) -> str:
    worst = f"{found.worst:.2f}" if not found.wrong else f"wrong {found.wrong} times"
    where = list(found.wrong_at if found.wrong else found.worst_at)[: 2 if of_two else 1]
    return f"{worst} | {', '.join(f'{x:.9g}' for x in where)}"


def _keep(name: str, row: str) -> None:
    """Puts a row into the table, or in place of its older one."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    table, _, after = rest.partition(MARKS[1])
    rows = {match[1]: match[0] for match in _ROW.finditer(table)} | {name: row}
    listed = "\n".join(rows[known] for known in (*UNARY, *BINARY) if known in rows)
    compiler = subprocess.run([str(COMPILER), "--version"], capture_output=True, text=True, check=True).stdout
    said = f"Measured on {datetime.date.today()} with {compiler.splitlines()[0]} on {platform.machine()}."
    table = f"{MARKS[0]}\n{said}\n\n{_HEAD}\n{listed}\n{MARKS[1]}"
    PAGE.write_text(before + table + after, encoding="utf-8")


if __name__ == "__main__":
    main()

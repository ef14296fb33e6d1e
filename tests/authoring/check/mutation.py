"""`make mutate`: how many mutants of the library's formulas and of the examples the check catches and places.

ARGS="--limit=300 --seed=1 --match=norm --minutes=5 --jobs=2", of which none is needed; --right checks the formulas as
they are, --keep writes the table to docs/mutants.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "support")]

import gradscript as gs  # noqa: E402
from gradscript.authoring.check import Checker  # noqa: E402
from gradscript.authoring.trials.leaves import floating_leaves  # noqa: E402
from gradscript.authoring.trials.report import CheckReport  # noqa: E402
from gradscript.compiler.formulas.library import compile_formula, definition_of, formula_name  # noqa: E402
from gradscript.compiler.ops import OPS  # noqa: E402
from gradscript.compiler.ops.registry import Trait  # noqa: E402
from gradscript.compiler.types.dtypes import FLOAT64  # noqa: E402
from gradscript.runtime.face.function import Function  # noqa: E402
from mutants import Change, changes, mutant  # noqa: E402
from samples.table import LAYOUTS, calls  # noqa: E402

EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "mutants.md"
BEGIN, END = "<!-- table -->", "<!-- end -->"
MAX_CALLS = 6
EQUIVALENT = {
    "sinc: 3.141592653589793 of `mul` as -3.141592653589793": "it goes into a cosine",
    **dict.fromkeys(
        (
            *("loop_saved: `y` as `x` in `mul`", "loop_saved: 1 of `add` as -1", "loop_saved: `mul` as `div`"),
            *("loop_saved: 1 of `add` as 2", "loop_saved: `add` as `sub`"),
        ),
        "of a term that is multiplied by zero",
    ),
    **dict.fromkeys(
        ("copysign: `div` the other way round", "copysign_1: `div` the other way round"), "the ratio is 1 or -1"
    ),
    **dict.fromkeys(
        ("pow: `exponent` as `self` in `ge`", "pow: `exponent` as `result` in `ge`"),
        "where the one is negative and the other is not, at 0, the result is infinite",
    ),
    **dict.fromkeys(
        tuple(f"special_xlog1py_1: {what}" for what in ("`eq` as `ne`", "-1 of `gt` as -2", "`gt` as `ge`")),
        "for such a number the result is finite at 0 alone, where there is no derivative",
    ),
    **dict.fromkeys(
        ("insert: `gt` as `ge`", "insert: `lt` as `le`", "insert: 0 of `lt` as 1"),
        "at the border both sides give the border",
    ),
    **dict.fromkeys(
        ("smooth_l1_loss: `ge` as `gt`", "huber_loss: `gt` as `ge`", "huber_loss: `le` as `lt`"),
        "the two slopes meet at the border",
    ),
    **dict.fromkeys(
        (f"{name}: `self` as `result` in `eq`" for name in ("special_i1", "special_i1e", "copysign", "copysign_1")),
        "one is zero where the other is",
    ),
    "acosh: without `abs`": "where the argument is negative the result is no number",
    "linalg_qr: `ge` as `gt`": "of a square matrix nothing stands beside the square that is cut off",
    "power: `gt` as `ge`": "no power is multiplied by zero",
    **dict.fromkeys(
        (f"matmul: {what}" for what in ("`gt` as `lt`", "`gt` as `ge`", *(f"2 of `gt` as {n}" for n in (3, 4, -2)))),
        "both sides compute the same, one of them as one product of all rows",
    ),
    "_prelu_kernel: `gt` as `ge`": "the gradient is a multiple of what is zero there",
    **dict.fromkeys(
        (
            f"{name}: {what}"
            for name in ("convolution", "conv_input", "conv_weight")
            for what in (
                *("`sub` as `add`", "2 of `sub` as 3", "2 of `sub` as -2", "2 of `sub` as 4"),
                "`mul` by a number left out",
            )
        ),
        "it counts zeros that a convolution which is not transposed does not read",
    ),
}
"""By mutant, why it is no change, where no rule proves it."""

Examples = list[tuple[tuple[Any, ...], dict[str, Any]]] | None
Subject = tuple[str, Function, Examples]


def subjects(match: str) -> Iterator[Subject]:
    """Every formula with a backward, with arguments where the library's ops have samples."""
    for path in [*sorted(EXAMPLES.rglob("*.g*s")), *sorted(EXAMPLES.rglob("*.grad")), HERE / "right.gs"]:
        if path.stem.startswith("wrong"):
            continue
        unit = gs.CompilationUnit(path.read_text(encoding="utf-8"), path.name)
        for function in unit.functions.values():
            if function.pair is not None and not function.name.endswith("_examples") and match in function.name:
                yield path.stem, function, None
    for op in OPS.all():
        name = formula_name(op.schema)
        if name is None or match not in name or op.has(Trait.RANDOM):
            continue
        callee = compile_formula(name)
        if callee.pair is None:
            continue
        try:
            samples = calls(op)[:MAX_CALLS]
        except (KeyError, ValueError):
            continue
        given = [s.arguments(op, FLOAT64, i, LAYOUTS["contiguous"]) for i, s in enumerate(samples)]
        given = [arguments for arguments in given if floating_leaves(arguments)]
        if given:
            yield (
                "library",
                Function(callee, definition=definition_of(name)),
                [_call(callee.schema, arguments) for arguments in given],
            )


def _call(schema: Any, arguments: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    pairs = list(zip(schema.arguments, arguments, strict=True))
    return tuple(v for a, v in pairs if not a.keyword_only), {a.name: v for a, v in pairs if a.keyword_only}


def check_right(found: Sequence[Subject], until: float) -> None:
    """The formulas as they are: what fails is a false alarm, or a mistake of theirs."""
    wrong = count = 0
    for where, function, examples in found:
        if time.monotonic() > until:
            break
        report = Checker(function).run(examples)
        count += 1
        wrong += not report.ok
        for failure in report.failures:
            print(f"{where} {function.name}: {failure.kind}: {failure.message}", flush=True)
    print(f"{count} right formulas, {wrong} false alarms")


Work = Sequence[tuple[Subject, Change]]
Rows = dict[str, list[int]]
"""By source: mutants, those caught, those whose argument is named, those whose line is."""


def check_mutants(work: Work, limit: int, until: float, jobs: int = 1) -> list[str]:
    """Check each; what is missed is printed, and the table returned, a line for each source."""
    return _table(_checked(work, limit, until) if jobs < 2 else _in_processes(work, limit, until, jobs))


def _in_processes(work: Work, limit: int, until: float, jobs: int) -> Rows:
    """Each process takes its share, and tells what came of it on a pipe of its own."""
    pipes = []
    for number in range(jobs):
        heard, said = os.pipe()
        if os.fork() == 0:
            found = _checked(work[number::jobs], len(range(number, limit, jobs)), until)
            os.write(said, json.dumps(found).encode())
            sys.stdout.flush()
            os._exit(0)
        os.close(said)
        pipes.append(heard)
    rows: Rows = {}
    for heard in pipes:
        with os.fdopen(heard, "rb") as told:
            for where, row in json.loads(told.read()).items():
                rows[where] = [a + b for a, b in zip(rows.get(where, [0] * 4), row, strict=True)]
    return rows


def _checked(work: Work, limit: int, until: float) -> Rows:
    rows: Rows = {}
    trusted = Trusted()
    for (where, function, examples), change in work:
        if time.monotonic() > until or (limit and sum(row[0] for row in rows.values()) >= limit):
            break
        made = mutant(function, change)
        if made is None or f"{function.name}: {made.what}" in EQUIVALENT:
            continue
        report, tried = CheckReport(function.name), False
        try:
            for given, known in trusted.calls(function, examples):
                tried = True
                report = Checker(made.function).run(given)
                report.warnings = [w for w in report.warnings if (w.argument, w.message) not in known]
                if not report.ok or report.warnings:
                    break
        except Exception as error:  # a mistake of the check's, which is to be seen and to stop nothing
            print(f"crashed: {where} {function.name}:{made.line}: {made.what}: {error!r}", flush=True)
        if not tried:
            continue
        told = [*report.failures, *report.warnings]
        named = [f for f in told if f.argument in made.arguments or f.argument is None]
        spans = [span for f in told for span in (f.span, *f.also) if span is not None]
        lines = [span.line for span in spans]
        placed = any(span.line <= made.end_line and made.line <= span.end_line for span in spans)
        placed |= not made.users.isdisjoint(lines)
        found = (True, bool(told), bool(named), placed)
        rows[where] = [a + b for a, b in zip(rows.get(where, [0] * 4), found, strict=True)]
        if not all(found):
            said = report.failures[0].message if report.failures else ""
            verdict = "missed" if not told else "elsewhere" if named else "not named"
            print(f"{verdict}: {where} {function.name}:{made.line}: {made.what}: {said}{_at(lines)}", flush=True)
    return rows


def _table(rows: Rows) -> list[str]:
    total = [sum(row[i] for row in rows.values()) for i in range(4)]
    return [
        "| Of | Mutants | Caught | Argument named | Line named |",
        "|---|---|---|---|---|",
        *(f"| {name} | {' | '.join(map(str, row))} |" for name, row in [*rows.items(), ("all", total)]),
    ]


class Trusted:
    """On which arguments a function is right as it stands: those of its tests, and those that a search finds."""

    def __init__(self) -> None:
        self._reports: dict[tuple[int, bool], CheckReport] = {}

    def calls(self, function: Function, examples: Examples) -> Iterator[tuple[Examples, set[tuple[str | None, str]]]]:
        """The arguments, by choice of them, and what the function is warned of on them as it stands, which says nothing
        of a change. None where it fails on each, so that it shows nothing."""
        for choice in [examples] if examples is None else [examples, None]:
            key = (id(function), choice is None)
            if key not in self._reports:
                self._reports[key] = Checker(function).run(choice)
            if self._reports[key].ok:
                yield choice, {(warning.argument, warning.message) for warning in self._reports[key].warnings}


def _at(lines: Sequence[int]) -> str:
    return f" [{', '.join(map(str, lines))}]" if lines else ""


def main() -> None:
    """Parse, check and print."""
    parser = argparse.ArgumentParser()
    for name, kind in {"limit": int, "seed": int, "minutes": float, "jobs": int}.items():
        parser.add_argument(f"--{name}", type=kind, default=0)
    parser.add_argument("--match", default="")
    parser.add_argument("--right", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    np.seterr(all="ignore")
    found = list(subjects(options.match))
    draw = random.Random(options.seed)
    until = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    if options.right:
        draw.shuffle(found)
        check_right(found, until)
        return
    work = [(subject, change) for subject in found for change in changes(subject[1])]
    print(f"{len(work)} changes of {len(found)} functions", flush=True)
    draw.shuffle(work)
    gc.freeze()
    gc.set_threshold(100_000)
    table = check_mutants(work, options.limit, until, options.jobs)
    print("\n".join(table))
    if options.keep:
        keep(len(work), options.seed, table)


def keep(count: int, seed: int, table: Sequence[str]) -> None:
    """Put the table where docs/mutants.md has one."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    today = f"{date.today():%-d %B %Y}"
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    drawn = f"these were drawn ({today}, {versions}, `--seed={seed}`)"
    said = f"\nOf {count} changes, those that are provably none among them, {drawn}:\n\n"
    PAGE.write_text(f"{head}{BEGIN}\n{said}" + "\n".join(table) + f"\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()

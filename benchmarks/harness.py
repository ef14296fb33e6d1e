"""Timing: contenders take turns, so that what slows the machine slows them all; a time is the median of its turns.

And tables, printed or put into a document between two marks.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Work = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table. `limit` is what the measure has to stay under; `peer` and `ratio` are of the same run."""

    what: str
    measured: float
    unit: str
    limit: float | None = None
    peer: str = ""
    peer_measured: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.measured / self.peer_measured if self.peer_measured else None

    @property
    def holds(self) -> bool:
        return self.limit is None or self.measured <= self.limit

    def cells(self) -> list[str]:
        peer = f"{self.peer_measured:.3g} {self.unit}" if self.peer_measured is not None else ""
        limit = "" if self.limit is None else f"≤ {self.limit:g}{' ' if self.unit else ''}{self.unit}"
        verdict = "" if self.limit is None else ("holds" if self.holds else "FAILS")
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return [self.what, f"{self.measured:.3g} {self.unit}".strip(), limit, verdict, self.peer, peer, ratio]


HEADINGS = ["what", "measured", "limit", "", "peer", "peer's", "ratio"]


def medians(contenders: Mapping[str, Work], turns: int, warm: int = 2) -> dict[str, float]:
    """Seconds of one call of each contender, by name."""
    for work in contenders.values():
        for _ in range(warm):
            work()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    for _ in range(turns):
        for name, work in contenders.items():
            started = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}


def table(rows: list[Row]) -> str:
    """A Markdown table that also reads well as text."""
    cells = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table as documents have it."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [headings, ["---"] * len(headings), *rows])


def put_between(document: str, marks: tuple[str, str], text: str) -> str:
    """A document with a text between two marks, in place of what stands there. Raises: ValueError without both."""
    before, found, rest = document.partition(marks[0])
    _, closed, after = rest.partition(marks[1])
    if not found or not closed:
        raise ValueError(f"the document lacks {marks[1] if found else marks[0]}")
    return f"{before}{marks[0]}\n\n{text}\n\n{marks[1]}{after}"


def print_or_keep(told: str | None, document: Path, marks: tuple[str, str], made: Callable[[], str]) -> None:
    """What a script of one table does: it prints it, or with --keep puts it into the document. `told` is its help."""
    parser = argparse.ArgumentParser(description=told, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help=f"write the table into docs/{document.name}")
    if parser.parse_args().keep:
        document.write_text(put_between(document.read_text(encoding="utf-8"), marks, made()), encoding="utf-8")
    else:
        print(made())

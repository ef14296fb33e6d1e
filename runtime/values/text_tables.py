"""Tables and amounts as text."""

from __future__ import annotations

from collections.abc import Sequence

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, aligned, two spaces apart."""
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    lines = ["  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in (headings, *rows)]
    rule = "  " + "  ".join("-" * width for width in widths)
    return "\n".join(line.rstrip() for line in (lines[0], rule, *lines[1:]))


def bytes_text(count: float) -> str:
    """Bytes in the largest unit of which there is one: `512 B`, `1.50 MiB`."""
    unit = 0
    while abs(count) >= 1024 and unit < len(UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} B" if not unit else f"{count:.2f} {UNITS[unit]}"

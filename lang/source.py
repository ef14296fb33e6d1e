"""Source text and the spans that point into it."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from .light_dataclasses import dataclass, field

_LINE_BREAK = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, eq=False)
class Source:
    """One piece of source text, with a filename for messages.

    Offsets count code points of `text`. Lines and columns are 1-based; a column counts code points. What goes wrong in
    text of the library is told at the line that calls it.
    """

    text: str
    filename: str = "<string>"
    is_library: bool = field(default=False, kw_only=True)

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset at which each line begins."""
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]

    @property
    def line_end(self) -> str:
        """What ends its first line, and so all that are written into it."""
        found = _LINE_BREAK.search(self.text)
        return found[0] if found is not None else "\n"

    def position(self, offset: int) -> tuple[int, int]:
        """1-based (line, column) of an offset; an offset past the end is the position after the last character."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Text of the 1-based line `number`, without its line break."""
        starts = self.line_starts
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range [start, end) of offsets into a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    @property
    def end_line(self) -> int:
        return self.source.position(self.end)[0]

    @property
    def end_column(self) -> int:
        return self.source.position(self.end)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The range from the start of this span to the end of `other`."""
        return Span(self.source, self.start, max(self.end, other.end))

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.filename}:{line}:{column}"


def span_dict(span: Span | None) -> dict[str, str | int] | None:
    """A span as data, for JSON; None for one of no source."""
    if span is None or not span.source.text:
        return None
    return {
        "file": span.source.filename,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "text": span.text,
    }


NO_SOURCE = Source("", "<generated>")
NO_SPAN = Span(NO_SOURCE, 0, 0)
"""Span of what no source text stands behind, such as nodes a pass makes from nothing."""

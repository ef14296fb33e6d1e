"""Where a user's Python code is: spans of its source."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from ...lang.callers import calling_frame
from ...lang.source import NO_SPAN, Source, Span

_Place = tuple[int | None, int | None, int | None, int | None]
"""First and last line (from 1), first and last column (from 0, in bytes) of an instruction."""


class PythonSource:
    """Spans of Python code that is running: kept, so that a loop asks once for each of its expressions."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._spans: dict[tuple[CodeType, int], Span] = {}
        self._positions: dict[CodeType, list[_Place]] = {}

    def calling(self) -> Span:
        """The expression that the user's code is at; where Python has no source of it, its line, left blank."""
        frame, _ = calling_frame()
        key = (frame.f_code, frame.f_lasti)
        span = self._spans.get(key)
        if span is None:
            span = self._spans[key] = self._expression(frame)
        return span

    def definition(self, function: Callable[..., Any]) -> Span:
        """The first line of a function; NO_SPAN for one that is not written in Python."""
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType):
            return NO_SPAN
        names = getattr(function, "__globals__", {})
        return self._line(self._source(code.co_filename, code.co_firstlineno, names), code.co_firstlineno)

    def _expression(self, frame: FrameType) -> Span:
        code = frame.f_code
        if code not in self._positions:
            self._positions[code] = list(code.co_positions())
        first, last, left, right = self._positions[code][frame.f_lasti // 2]
        source = self._source(code.co_filename, frame.f_lineno, frame.f_globals)
        if first is None or last is None or left is None or right is None or not _reaches(source, last):
            return self._line(source, frame.f_lineno)
        start = source.line_starts[first - 1] + _code_points(source.line(first), left)
        end = source.line_starts[last - 1] + _code_points(source.line(last), right)
        return Span(source, start, max(start, end))

    def _line(self, source: Source, number: int) -> Span:
        if number > len(source.line_starts):
            return NO_SPAN
        text = source.line(number)
        start = source.line_starts[number - 1] + len(text) - len(text.lstrip())
        return Span(source, start, start + len(text.strip()))

    def _source(self, filename: str, line: int, names: dict[str, Any]) -> Source:
        """The text of a file; blank lines where Python has none."""
        source = self._sources.get(filename)
        if source is None:
            text = "".join(linecache.getlines(filename, names))
            source = Source(text, filename)
            if text:
                self._sources[filename] = source
        return source if source.text else Source("\n" * line, filename)


def _reaches(source: Source, line: int) -> bool:
    """Whether a source has text at a line: its file may be another one by now."""
    return not source.text.isspace() and line <= len(source.line_starts)


def _code_points(line: str, count: int) -> int:
    """How many code points the first bytes of a line are."""
    return count if line.isascii() else len(line.encode()[:count].decode(errors="ignore"))

"""Indentation: blocks by the white space at the start of a line, with the checks that Python makes."""

from __future__ import annotations

from collections.abc import Iterator

from ..diagnostics import MAX_DIAGNOSTICS, Diagnostics
from ..source import Source, Span

MAX_LEVELS = 100
"""Indentation levels, the outermost included; CPython has the same limit."""

TAB = 8
"""Columns between tab stops. It decides only which error is reported: see `Indentation`."""


class UnreadableError(Exception):
    """The rest of the text is not worth reading; why has been reported."""


class Indentation:
    """Turns the white space at the start of a line into INDENT and DEDENT.

    A level is the very text that indents it: a deeper line repeats the text of the level around it and adds to
    it, and a shallower line repeats the text of a level left open. What a tab is worth therefore never matters.
    The first line of a file sets the outermost level, so that a uniformly indented file is read as if it were not.
    """

    def __init__(self, source: Source, diagnostics: Diagnostics, base: str) -> None:
        self._source = source
        self._diagnostics = diagnostics
        self._mixes_tabs = False
        """Whether tabs and spaces have been found to mix. Once is enough: the remedy is for the whole file."""
        self._prefixes = [base]
        self._widths = [_width(base)]
        """Of the levels that are open: what the last line made of them."""

    def line(self, end: int, indentation: str) -> Iterator[str]:
        """Kinds of the tokens between two lines: the next line's text is at `end`."""
        width = self._widths[-1] if indentation == self._prefixes[-1] else self._enter(indentation, end)
        yield "NEWLINE"
        yield from self._turn(width)

    def finish(self) -> Iterator[str]:
        """Kinds of the tokens that end the text: a break, and the end of every open level."""
        del self._prefixes[1:]
        yield "NEWLINE"
        yield from self._turn(self._widths[0])

    def _turn(self, width: int) -> Iterator[str]:
        """Open the level of a width, or close those that are deeper."""
        if width > self._widths[-1]:
            self._widths.append(width)
            yield "INDENT"
        while width < self._widths[-1]:
            self._widths.pop()
            yield "DEDENT"

    def _enter(self, indentation: str, offset: int) -> int:
        """Make `indentation` the current level and return its width."""
        if indentation in self._prefixes:
            del self._prefixes[self._prefixes.index(indentation) + 1 :]
        elif indentation.startswith(self._prefixes[-1]):
            self._deepen(indentation, offset)
        else:
            self._mismatch(indentation, offset)
        return _width(indentation)

    def _deepen(self, indentation: str, offset: int) -> None:
        if len(self._prefixes) >= MAX_LEVELS:
            span = Span(self._source, offset, offset + 1)
            note = "move the inner blocks into functions of their own"
            self._diagnostics.report("E004", f"more than {MAX_LEVELS - 1} levels of indentation", span, note)
            raise UnreadableError
        self._prefixes.append(indentation)

    def _mismatch(self, indentation: str, offset: int) -> None:
        """Report an indentation that fits no level, and give it to the nearest level that it can stand for."""
        width = _width(indentation)
        if len(self._diagnostics.found) >= MAX_DIAGNOSTICS:
            raise UnreadableError
        self._report_mismatch(width, Span(self._source, offset - len(indentation), offset))
        if width > self._widths[-1]:
            self._deepen(indentation, offset)
            return
        # The nearest level that is not shallower takes this line in and goes by its indentation from here on.
        level = next(index for index, known in enumerate(self._widths) if known >= width)
        self._widths[level] = width
        self._prefixes[level:] = [indentation]

    def _report_mismatch(self, width: int, span: Span) -> None:
        if width <= self._widths[-1] and width not in self._widths:
            widths = ", ".join(str(level) for level in self._widths)
            note = f"this line is indented by {width}; the blocks open here are indented by {widths}"
            self._diagnostics.report("E002", "unindent does not match any outer indentation level", span, note)
        elif not self._mixes_tabs:
            self._mixes_tabs = True
            note = "indent every line of the file with the same characters; four spaces a level are usual"
            self._diagnostics.report("E002", "inconsistent use of tabs and spaces in the indentation", span, note)


def _width(indentation: str) -> int:
    return len(indentation.expandtabs(TAB))

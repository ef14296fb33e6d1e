"""Findings, their codes, and the `# noqa` that says to leave one out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ...lang.light_dataclasses import dataclass
from ...lang.source import Source, Span

CODES = {
    "L101": "an assigned name that is never read",
    "L102": "a parameter that is never used",
    "L103": "a statement without effect",
    "L104": "a function that computes and returns nothing",
    "L201": "log(1 + x), which loses x where it is small",
    "L202": "exp(x) - 1 or 1 - exp(x), which loses x where it is small",
    "L203": "1 - cos(x), which loses everything where x is small",
    "L204": "the log of a softmax or a sigmoid, which is of 0 where that underflows",
    "L205": "sqrt(x * x), whose gradient at 0 is NaN",
    "L206": "a literal tensor whose dtype makes others float32",
    "L207": "the log of a sum of powers of e, which is inf where one of them is",
    "L301": "a NaN from the side of where() that is not taken",
    "L401": "a backward that ignores a gradient that it is given",
    "L402": "a backward that returns None for an argument on which the result depends",
    "L501": "a tensor that is kept for the backward, which asks for its size alone",
    "L502": "a tensor that is kept for the backward beside another of which it is one cheap operation",
    "L503": "a tensor that is kept for the backward twice",
}
"""Every code with its meaning."""

_SAID = r"noqa\b(?:[^\S\n]*:[^\S\n]*(?P<codes>[A-Z]+\d+(?:(?:[^\S\n]*,[^\S\n]*|[^\S\n]+)[A-Z]+\d+)*))?"
_NOQA = re.compile(rf"#\s*{_SAID}", re.IGNORECASE)
_OF_FILE = re.compile(rf"^[^\S\n]*#\s*gradscript:\s*{_SAID}", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edit:
    """A part of the source and what is to stand there."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What is found at a span, what to do about it, and the edit that does it, if one surely can."""

    code: str
    message: str
    span: Span
    note: str
    edit: Edit | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "file": self.span.source.filename,
            "line": self.span.line,
            "column": self.span.column,
            "end_line": self.span.end_line,
            "end_column": self.span.end_column,
            "note": self.note,
            "fixable": self.edit is not None,
        }

    def __str__(self) -> str:
        line, column = self.span.source.position(self.span.start)
        text = self.span.source.line(line)
        caret = " " * (column - 1) + "^" * max(1, min(self.span.end - self.span.start, len(text) - column + 1))
        place = f"{self.span.source.filename}:{line}:{column}"
        return f"{place}: {self.code} {self.message}\n{line:>4} | {text}\n     | {caret}\n  note: {self.note}"


def stands_in(span: Span, source: Source) -> bool:
    """Whether a span is text of a source."""
    return span.source is source and span.start < span.end


def wanted(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings that no comment says to leave out: `# noqa` on their first line or their last, or in the file."""
    for finding in findings:
        source, span = finding.span.source, finding.span
        comments = [_NOQA.search(source.line(line)) for line in dict.fromkeys((span.line, span.end_line))]
        comments += _OF_FILE.finditer(source.text) if "noqa" in source.text else ()
        if not any(comment is not None and _silences(comment, finding.code) for comment in comments):
            yield finding


def _silences(comment: re.Match[str], code: str) -> bool:
    named = comment["codes"]
    return named is None or code.startswith(tuple(re.split(r"[\s,]+", named.upper())))


def fixed_text(source: Source, findings: Iterable[Finding]) -> str:
    """The text with every edit made that overlaps no earlier one."""
    text, end = source.text, len(source.text) + 1
    for edit in sorted((f.edit for f in findings if f.edit is not None), key=lambda e: (-e.start, e.end)):
        if edit.end <= end:
            text = text[: edit.start] + edit.text + text[edit.end :]
            end = edit.start
    return text

"""Diagnostics: what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .light_dataclasses import dataclass
from .source import Span

MAX_DIAGNOSTICS = 100
"""A file's report stops here; what follows is rarely independent."""

CODES: dict[str, str] = {
    # 0xx: text and tokens
    "E001": "invalid character or encoding",
    "E002": "indentation does not match",
    "E003": "unterminated string or bracket",
    "E004": "nesting too deep",
    "E005": "invalid literal",
    # 1xx: syntax
    "E101": "syntax error",
    "E102": "a construct of Python that the language does not have",
    "E103": "invalid assignment target",
    "E104": "statement outside its place",
    "E105": "duplicate definition or parameter",
    # 2xx: names and calls
    "E201": "undefined name",
    "E202": "unknown operator, method or attribute",
    "E203": "no overload accepts these arguments",
    "E204": "wrong arguments in a call",
    "E205": "name may be undefined here",
    # 3xx: types
    "E301": "type mismatch",
    "E302": "unknown type in an annotation",
    "E303": "value may be None",
    "E304": "branches disagree",
    "E305": "a write that others may see",
    "E306": "function does not return on every path",
    # 4xx: closures and gradients
    "E401": "a function with a backward of its own is called inside another",
    "E402": "a closure is not the last element returned",
    "E403": "a function inside another is defined in a branch or a loop, and used outside of it",
    "E404": "a function inside another refers to itself",
    "E405": "wrong number of gradients returned",
    "E406": "wrong number of gradient parameters",
    "E407": "recursion between functions",
    "E408": "not differentiable",
    "E409": "differentiated with respect to what does not reach the output",
    "E410": "a budget is too small",
    "E411": "no op of torch can have such a signature",
    "E412": "no module of its own can hold the function",
    # 5xx: textual IR
    "E501": "malformed textual IR",
    "E502": "value undefined or defined twice",
    "E503": "unknown kind of node or type",
    "E504": "graph breaks a rule of the IR",
}
"""Every code with its meaning; docs/diagnostics.md is made from this table."""


@dataclass(frozen=True)
class Diagnostic:
    """One finding: a stable code, a message, the span it is about, and notes that say what to do."""

    code: str
    message: str
    span: Span
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return render(self)


class CompileError(Exception):
    """Bad source. The only exception that compiling raises for it.

    `diagnostics` holds every finding in source order; `code`, `message` and `span` are those of the first.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        found = tuple(diagnostics) if isinstance(diagnostics, Iterable) else ()
        if not found or not all(isinstance(diagnostic, Diagnostic) for diagnostic in found):
            raise TypeError(f"a CompileError is made of diagnostics, one or more, not of {diagnostics!r:.80}")
        self.diagnostics: tuple[Diagnostic, ...] = found
        first = self.diagnostics[0]
        self.code = first.code
        self.message = first.message
        self.span = first.span
        super().__init__("\n\n".join(render(diagnostic) for diagnostic in self.diagnostics))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied, and sent from one process to another, as what it was made of."""
        return type(self), (self.diagnostics,)


class Abort(Exception):
    """Leaves the construct that is being compiled once its error has been reported. Never reaches a user."""


class Diagnostics:
    """Collects the findings of one compilation."""

    def __init__(self, found: list[Diagnostic] | None = None) -> None:
        self.found: list[Diagnostic] = [] if found is None else found

    def report(self, code: str, message: str, span: Span, *notes: str) -> None:
        """Record a finding and carry on."""
        assert code in CODES, code
        self.found.append(Diagnostic(code, message, span, notes))

    def fail(self, code: str, message: str, span: Span, *notes: str) -> Abort:
        """Record a finding and return the exception that leaves the current construct: `raise d.fail(…)`."""
        self.report(code, message, span, *notes)
        return Abort(message)

    def raise_if_any(self) -> None:
        """Raise CompileError with everything found, in source order."""
        if self.found:
            ordered = sorted(self.found, key=lambda d: (d.span.start, d.span.end))
            raise CompileError(ordered[:MAX_DIAGNOSTICS])


def did_you_mean(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """A note naming the nearest known spelling, or nothing. Of very many, only those that may be near are compared."""
    from difflib import get_close_matches

    known = tuple(known)
    if name[-1:] == "_" and name[:-1] in known:
        # An in-place spelling, which comes before names that only look like it.
        return (f"did you mean '{name[:-1]}'?",)
    plausible = [k for k in known if abs(len(k) - len(name)) <= 3 and (k[:1] == name[:1] or k[1:3] == name[1:3])]
    near = get_close_matches(name, plausible[:_MAX_COMPARED], n=1, cutoff=0.7)
    return (f"did you mean '{near[0]}'?",) if near else ()


def nearest(name: str, known: Iterable[str]) -> str:
    """The note behind a message of one line, or nothing."""
    return "".join(f"; {note}" for note in did_you_mean(name, known))


_MAX_COMPARED = 300
_WIDTH = 160


def counted(count: int, noun: str) -> str:
    """`1 gradient`, `2 gradients`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def render(diagnostic: Diagnostic) -> str:
    """The finding as text: heading, place, source line with a caret under the span, notes."""
    span = diagnostic.span
    line, column = span.source.position(span.start)
    lines = [f"error[{diagnostic.code}]: {diagnostic.message}"]
    if span.source.text or span.end:
        lines.append(f"  --> {_printable(span.source.filename)}:{line}:{column}")
        lines += _excerpt(span, line, column)
    lines += [f"  note: {note}" for note in diagnostic.notes]
    return "\n".join(_printable(text) for text in lines)


def _excerpt(span: Span, line: int, column: int) -> list[str]:
    text = span.source.line(line)
    width = max(1, min(span.end - span.start, len(text) - column + 1))
    start = max(0, column - 1 - _WIDTH // 2) if len(text) > _WIDTH else 0
    shown = text[start : start + _WIDTH]
    head = "…" if start else ""
    tail = "…" if start + _WIDTH < len(text) else ""
    # A tab before the caret stays a tab, so that the caret stands under its column at any tab width.
    indent = "".join("\t" if c == "\t" else " " for c in head + shown[: column - 1 - start])
    gutter = f"{line:>4} | "
    caret = "^" * max(1, min(width, _WIDTH - (column - 1 - start)))
    return [gutter + head + shown + tail, " " * (len(gutter) - 2) + "| " + indent + caret]


def _printable(text: str) -> str:
    """Replace what a terminal or a UTF-8 stream cannot show: control characters and lone surrogates."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in text)

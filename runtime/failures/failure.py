"""RuntimeFailure: what goes wrong with data, told in terms of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...lang.diagnostics import Diagnostic, render
from ...lang.source import NO_SPAN, Span

CODES: dict[str, str] = {
    # 0xx: before a function runs
    "R001": "wrong arguments in a call",
    "R002": "argument of the wrong type",
    "R003": "array of a kind that is not supported",
    # 1xx: while it runs
    "R101": "an operation does not fit its data",
    "R102": "raised by the source: `raise`, or a failed `assert`",
    "R103": "out of memory",
    "R104": "a kernel cannot be built",
    "R105": "a backward gave a gradient for a list that does not fit that list",
    "R106": "a step cannot be captured as a CUDA graph",
}
"""Every code with its meaning."""


class RuntimeFailure(Exception):
    """Running a function failed: wrong arguments, an operation that does not fit its data, a `raise` in source.

    The only exception that running raises for what is wrong with data; what NumPy raised, if anything, is its
    `__cause__`. `code` is one of CODES. `op` is the full name of the operation, or the name of the function whose
    arguments are wrong. `argument` is the parameter at fault, where one is. `span` is the place in source.
    """

    def __init__(
        self,
        code: str,
        op: str,
        message: str,
        *,
        argument: str | None = None,
        span: Span = NO_SPAN,
        notes: Sequence[str] = (),
    ) -> None:
        if not all(isinstance(part, str) for part in (code, op, message)):
            raise TypeError("a RuntimeFailure is made of a code, the name of an operation and a message, each a str")
        if not isinstance(span, Span) or isinstance(notes, str) or not isinstance(notes, Sequence):
            raise TypeError("of a RuntimeFailure the span is a place in source, and the notes are a list of strings")
        self.code = code
        self.op = op
        self.argument = argument
        self.message = message
        self.span = span
        self.notes = tuple(notes)
        text = f"{op}: {message}" if op else message
        super().__init__(render(Diagnostic(code, text, span, self.notes)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied, and sent from one process to another, as what it was made of."""
        return _made_again, (type(self), (self.code, self.op, self.message), self.argument, self.span, self.notes)

    def with_notes(self, notes: Sequence[str]) -> RuntimeFailure:
        """The same with more to be said."""
        return RuntimeFailure(
            self.code, self.op, self.message, argument=self.argument, span=self.span, notes=[*self.notes, *notes]
        )


def _made_again(
    kind: type[RuntimeFailure], said: tuple[str, str, str], argument: str | None, span: Span, notes: Sequence[str]
) -> RuntimeFailure:
    return kind(*said, argument=argument, span=span, notes=notes)

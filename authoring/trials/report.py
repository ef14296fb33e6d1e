"""What a check has found: trials, failures, and both as text and as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...lang.diagnostics import Diagnostic, counted, render
from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Span, span_dict
from ...runtime.values.text_tables import table
from .coverage import Coverage

ORDERS = {1: "1st", 2: "2nd"}
KINDS: dict[str, str] = {
    "value": "the gradient has the wrong value",
    "shape": "the gradient has another shape than the input",
    "dtype": "the gradient has another dtype than the input",
    "none": "there is no gradient, yet the result depends on the input",
    "nan": "the gradient is not finite where the result is",
    "kink": "the gradient at a kink or tie is not that of docs/conventions.md",
    "error": "the backward raises where the forward runs",
    "second_order": "the derivative of the gradient is wrong, or cannot be had",
    "autodiff": "gs.vjp gives another gradient than the backward run by hand",
    "unreliable": "finite differences do not settle on a value",
    "surrogate": "a gradient that is meant to be another than the derivative is not linear",
    "unreached": "a branch that no arguments reached, so that nothing is known of it",
    "no_inputs": "no arguments were found on which the forward runs",
}
"""Every kind of failure with its meaning."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that is wrong. `span` is the wrong term in the source, as near as it can be named."""

    argument: str | None
    kind: str
    message: str
    span: Span | None = None
    notes: tuple[str, ...] = ()
    order: int = 1
    also: tuple[Span, ...] = ()
    """Where else the mistake may be: what was measured does not tell it from `span`."""

    def __str__(self) -> str:
        return self.text()

    def text(self, severity: str = "error") -> str:
        """The message with its place and the source there."""
        if self.span is None:
            return "\n".join([f"{severity}[{self.kind}]: {self.message}", *(f"  note: {n}" for n in self.notes)])
        return severity + render(Diagnostic(self.kind, self.message, self.span, self.notes)).removeprefix("error")

    def to_dict(self) -> dict[str, Any]:
        return {
            "argument": self.argument,
            "kind": self.kind,
            "order": self.order,
            "message": self.message,
            "span": span_dict(self.span),
            "also": [span_dict(span) for span in self.also],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Case:
    """One trial of one argument. `max_error` is relative, None where nothing could be compared."""

    argument: str
    order: int
    tried: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    max_error: float | None
    verdict: str
    """"ok", a kind of failure, "constant" or "surrogate" (so declared), "skipped" (nothing to compare), or
    "unsupported" (the backward refuses such shapes)."""

    @property
    def ok(self) -> bool:
        return self.verdict in ("ok", "constant", "surrogate", "skipped", "unsupported")

    def to_dict(self) -> dict[str, Any]:
        return {
            "argument": self.argument,
            "order": self.order,
            "tried": self.tried,
            "shapes": [list(shape) for shape in self.shapes],
            "dtype": self.dtype,
            "max_error": self.max_error,
            "verdict": self.verdict,
        }


@dataclass(slots=True)
class CheckReport:
    """The result of `gs.check`. `str()` of it is what the command prints."""

    function: str
    cases: list[Case] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    warnings: list[Failure] = field(default_factory=list)
    """What nobody means: told, and no failure."""
    notes: list[str] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def ok(self) -> bool:
        return not self.failures

    def __bool__(self) -> bool:
        return self.ok

    def rows(self) -> list[tuple[str, ...]]:
        """The table: argument, order, trials, shapes tried, largest relative error, verdict."""
        return [_row(group) for group in _groups(self.cases)]

    def __str__(self) -> str:
        parts = [f"{self.function}: {'ok' if self.ok else counted(len(self.failures), 'failure')}"]
        if self.cases:
            parts.append(table(HEADINGS, self.rows()))
        parts += self.coverage.lines_of_text()
        parts += [f"  note: {note}" for note in self.notes]
        parts += [f"\n{failure}" for failure in self.failures]
        parts += [f"\n{warning.text('warning')}" for warning in self.warnings]
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "function": self.function,
            "ok": self.ok,
            "failures": [failure.to_dict() for failure in self.failures],
            "warnings": [warning.to_dict() for warning in self.warnings],
            "notes": list(self.notes),
            "coverage": self.coverage.to_dict(),
            "cases": [case.to_dict() for case in self.cases],
        }


HEADINGS = ("argument", "order", "trials", "shapes tried", "max error", "verdict")
SHOWN_SHAPES = 4


def _groups(cases: Iterable[Case]) -> list[list[Case]]:
    groups: dict[tuple[int, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.order, case.argument), []).append(case)
    return list(groups.values())


def _row(cases: Sequence[Case]) -> tuple[str, ...]:
    compared = [case for case in cases if case.verdict not in ("skipped", "unsupported")]
    errors = [case.max_error for case in compared if case.max_error is not None]
    wrong = dict.fromkeys(case.verdict for case in cases if not case.ok)
    declared = dict.fromkeys(case.verdict for case in compared if case.verdict in ("constant", "surrogate"))
    verdict = ", ".join(wrong or declared) or ("ok" if compared else "-")
    first = cases[0]
    return (
        first.argument,
        ORDERS[first.order],
        str(len(compared)),
        _shapes_text(compared or cases),
        f"{max(errors):.1e}" if errors else "-",
        verdict,
    )


def _shapes_text(cases: Sequence[Case]) -> str:
    shown = list(dict.fromkeys("·".join(_shape_text(shape) for shape in case.shapes) for case in cases))
    more = len(shown) - SHOWN_SHAPES
    return " ".join(shown[:SHOWN_SHAPES]) + (f" +{more}" if more > 0 else "")


def _shape_text(shape: tuple[int, ...]) -> str:
    return f"({','.join(map(str, shape))}{',' if len(shape) == 1 else ''})"

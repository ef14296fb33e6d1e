"""What a memory report holds, as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...lang.light_dataclasses import dataclass
from ...lang.source import Span, span_dict
from ..values.text_tables import bytes_text, table


@dataclass(frozen=True, slots=True)
class KeptValue:
    """A value of the forward that the backward needs, and what became of it.

    `bytes` of a saved value are measured: what it keeps alive beyond arguments, outputs and the values before it, so
    none for a view of one of those. Of a recomputed value they are what saving it would take.
    """

    name: str
    bytes: int
    span: Span | None
    reason: str

    @property
    def place(self) -> str:
        """The source line that made it, with its number; empty where no source stands behind it."""
        if self.span is None or not self.span.source.text:
            return ""
        line = self.span.line
        return f"{line}: {self.span.source.line(line).strip()}"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "bytes": self.bytes, "span": span_dict(self.span), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class PolicyTotal:
    """What one policy comes to."""

    policy: str
    saved_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Instant:
    """Live bytes while one instruction runs, its operands and its results together, by what they are there for.

    A buffer that is there for several things counts for the first of them. Arguments, with the constants of the
    plan, and outputs are the caller's, and live to the end.
    """

    index: int
    phase: str
    name: str
    span: Span | None
    inputs: int
    outputs: int
    saved: int
    gradients: int
    temporaries: int

    @property
    def live(self) -> int:
        return self.inputs + self.outputs + self.saved + self.gradients + self.temporaries

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "phase": self.phase,
            "name": self.name,
            "line": self.span.line if self.span is not None and self.span.source.text else None,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "saved": self.saved,
            "gradients": self.gradients,
            "temporaries": self.temporaries,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `Function.memory`. `str()` of it is what `gradscript memory` prints.

    `saved_bytes` are live between forward and backward, arguments and outputs left out; `peak_bytes` are all that are
    live at once at the worst moment, the `input_bytes` of arguments and constants among them. `kept_inputs` are the
    arguments that the backward reads. `totals` compares the policies on the same arguments. `in_force` is "save_all"
    where `policy` gains nothing, and else `policy`'s name.
    """

    function: str
    policy: str
    in_force: str
    saved: list[KeptValue]
    recomputed: list[KeptValue]
    kept_inputs: list[str]
    saved_bytes: int
    peak_bytes: int
    input_bytes: int
    timeline: list[Instant]
    totals: list[PolicyTotal]

    def __str__(self) -> str:
        policy = self.policy if self.policy.startswith(self.in_force) else f"{self.policy} (as {self.in_force})"
        parts = [
            f"{self.function}: {policy} saves {bytes_text(self.saved_bytes)}, "
            f"peak {bytes_text(self.peak_bytes)}, of which arguments {bytes_text(self.input_bytes)}",
        ]
        if self.kept_inputs:
            parts.append(f"  arguments that the backward reads: {', '.join(self.kept_inputs)}")
        parts += _section("saved", self.saved)
        parts += _section("recomputed", self.recomputed)
        parts.append(f"\n{table(('policy', 'saved', 'of save_all', 'peak'), self._comparison())}")
        return "\n".join(parts)

    def _comparison(self) -> list[tuple[str, ...]]:
        whole = next(total.saved_bytes for total in self.totals if total.policy == "save_all")
        return [
            (
                total.policy + (" *" if total.policy == self.policy else ""),
                bytes_text(total.saved_bytes),
                f"{total.saved_bytes / whole:.0%}" if whole else "-",
                bytes_text(total.peak_bytes),
            )
            for total in self.totals
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON. Of instants with the same numbers in a row, the first."""
        return {
            "function": self.function,
            "policy": self.policy,
            "in_force": self.in_force,
            "saved_bytes": self.saved_bytes,
            "peak_bytes": self.peak_bytes,
            "input_bytes": self.input_bytes,
            "kept_inputs": list(self.kept_inputs),
            "saved": [kept.to_dict() for kept in self.saved],
            "recomputed": [kept.to_dict() for kept in self.recomputed],
            "totals": [
                {"policy": t.policy, "saved_bytes": t.saved_bytes, "peak_bytes": t.peak_bytes} for t in self.totals
            ],
            "timeline": [instant.to_dict() for instant in changes(self.timeline)],
        }


def changes(timeline: Sequence[Instant]) -> list[Instant]:
    """The first instant, and each that differs from the one before it."""
    found: list[Instant] = []
    last: tuple[int, ...] | None = None
    for instant in timeline:
        numbers = (instant.inputs, instant.outputs, instant.saved, instant.gradients, instant.temporaries)
        if numbers != last:
            found.append(instant)
        last = numbers
    return found


def _section(title: str, values: Sequence[KeptValue]) -> list[str]:
    """A table of values, largest first; those of one name, line and reason, such as a loop's rounds, in one row.

    Values that cost nothing, such as views of arguments, are left out beside any that do.
    """
    if not values:
        return []
    groups: dict[tuple[str, ...], list[int]] = {}
    for kept in values:
        groups.setdefault((kept.name, kept.place, kept.reason), []).append(kept.bytes)
    ordered = sorted(groups.items(), key=lambda item: -sum(item[1]))
    costly = [group for group in ordered if sum(group[1])]
    rows = [
        (name + (f" × {len(sizes)}" if len(sizes) > 1 else ""), bytes_text(sum(sizes)), place, reason)
        for (name, place, reason), sizes in costly or ordered
    ]
    return ["", table((title, "bytes", "made by", "why"), rows)]

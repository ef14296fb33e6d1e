"""What a check has reached, in a few lines: branches, lines of the backward, dtypes, sizes, and what it left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...lang.diagnostics import counted
from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Span, span_dict


@dataclass(slots=True)
class Coverage:
    """Counts, and what is missing from them."""

    branches: int = 0
    branches_taken: int = 0
    never_taken: list[tuple[Span, str]] = field(default_factory=list)
    """A branch or a comparison, and which way it never went."""
    lines: int = 0
    lines_never_run: list[Span] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    sizes: dict[str, list[int]] = field(default_factory=dict)
    """By argument, the sizes that its dimensions had."""
    ranks: dict[str, list[int]] = field(default_factory=dict)
    batch: list[int] = field(default_factory=list)
    """The sizes that the first dimension of the first tensor had."""
    plain: dict[str, list[Any]] = field(default_factory=dict)
    """By argument that is no tensor, or is left out, its values."""
    kinks: int = 0
    unchecked: dict[str, str] = field(default_factory=dict)
    """By argument that was not checked, why."""
    guessed: dict[str, str] = field(default_factory=dict)
    """By argument, what its name alone was taken to say."""
    surrogates: dict[str, str] = field(default_factory=dict)
    """By argument, why its gradient is meant to be another than the derivative."""

    def lines_of_text(self) -> list[str]:
        """For people, one fact a line."""
        shown = [self._reached(), self._tried()]
        shown += [f"{name} was {_values(values)}" for name, values in self.plain.items()]
        shown += [f"{name} was taken for {what}, by its name" for name, what in self.guessed.items()]
        shown += [f"{name} is a surrogate: {why}" for name, why in self.surrogates.items()]
        shown += [f"{name} was not checked: {why}" for name, why in self.unchecked.items()]
        return [f"  {line}" for line in shown if line]

    def _reached(self) -> str:
        parts = []
        if self.branches:
            parts.append(f"{self.branches_taken} of {self.branches} branches")
        if self.lines:
            parts.append(f"{self.lines - len(self.lines_never_run)} of {counted(self.lines, 'line')} of the backward")
        if self.kinks:
            parts.append(counted(self.kinks, "kink"))
        return f"reached: {', '.join(parts)}" if parts else ""

    def _tried(self) -> str:
        parts = [", ".join(self.dtypes)] if self.dtypes else []
        if self.batch:
            parts.append(f"batches of {_values(self.batch)}")
        sizes = sorted({n for found in self.sizes.values() for n in found})
        if sizes:
            parts.append(f"sizes {_values(sizes)}")
        ranks = sorted({n for found in self.ranks.values() for n in found})
        if ranks:
            parts.append(f"{_values(ranks)} dimensions")
        return f"tried: {'; '.join(parts)}" if parts else ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "branches": self.branches,
            "branches_taken": self.branches_taken,
            "never_taken": [{"way": way, "span": span_dict(span)} for span, way in self.never_taken],
            "lines_of_the_backward": self.lines,
            "lines_never_run": [span_dict(span) for span in self.lines_never_run],
            "dtypes": self.dtypes,
            "batch_sizes": self.batch,
            "sizes": self.sizes,
            "ranks": self.ranks,
            "values": {name: [repr(v) for v in values] for name, values in self.plain.items()},
            "kinks": self.kinks,
            "unchecked": self.unchecked,
            "guessed_by_name": self.guessed,
            "surrogates": self.surrogates,
        }


def _values(values: Iterable[Any]) -> str:
    shown = list(dict.fromkeys(v if isinstance(v, str) else repr(v) for v in values))
    more = len(shown) - 8
    return ", ".join(shown[:8]) + (f" and {more} more" if more > 0 else "")

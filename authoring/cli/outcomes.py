"""What came of one file, as the commands that go through files tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...lang.light_dataclasses import dataclass, field
from .checking import diagnostic_dict
from .console import emit_errors

if TYPE_CHECKING:
    from ...lang.diagnostics import Diagnostic


@dataclass(slots=True)
class Outcome:
    """A file, and why nothing came of it: what is wrong with its source, or that it could not be read."""

    path: str
    diagnostics: tuple[Diagnostic, ...] = field(default=(), kw_only=True)
    problem: str = field(default="", kw_only=True)

    def told(self) -> dict[str, Any]:
        """What a command found, by name."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found = {"file": self.path, **self.told()}
        if self.diagnostics:
            found["diagnostics"] = [diagnostic_dict(d) for d in self.diagnostics]
        if self.problem:
            found["error"] = self.problem
        return found


def emit_troubles(found: Sequence[Outcome]) -> None:
    """Print what is wrong with sources, then what could not be read."""
    emit_errors([str(d) for one in found for d in one.diagnostics])
    emit_errors([f"error: {one.problem}" for one in found if one.problem])

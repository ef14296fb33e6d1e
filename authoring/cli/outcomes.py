"""What came of one file, as the commands that go through files tell it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

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

    @property
    def failed(self) -> bool:
        """Whether it was read and is still not as it should be."""
        return bool(self.diagnostics)

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


File = TypeVar("File", bound=Outcome)


def finish(
    ctx: click.Context, found: Sequence[File], show: Callable[[Sequence[File]], None], as_json: bool
) -> NoReturn:
    """Print what came of the files, as JSON or as `show` does, and what is wrong with them, and leave.

    Exit status 2 where something could not be read, 1 where something failed, 0 otherwise.
    """
    if as_json:
        click.echo(json.dumps([one.to_dict() for one in found], indent=2))
    else:
        show(found)
    emit_errors([str(d) for one in found for d in one.diagnostics])
    emit_errors([f"error: {one.problem}" for one in found if one.problem])
    ctx.exit(2 if any(one.problem for one in found) else int(any(one.failed for one in found)))

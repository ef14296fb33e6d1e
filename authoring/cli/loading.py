"""Files and functions named on the command line."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ...runtime.face.function import Function
    from ...runtime.face.unit import CompilationUnit


class CliError(click.ClickException):
    """A command that cannot be carried out as given: exit status 2."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.format_message()}", err=True)


def load_unit(path: str) -> CompilationUnit:
    """The unit in a file; `-` is standard input. CompileError for bad source, CliError for a file not read."""
    from ...runtime.face.files import load
    from ...runtime.face.unit import CompilationUnit

    try:
        if path != "-":
            return load(path)
        source = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CliError(f"cannot read {path}: {reason}") from error
    return CompilationUnit(source, "<stdin>")


def find_function(unit: CompilationUnit, name: str) -> Function:
    """One function of a unit; CliError with the nearest name, or all names, if there is none."""
    from ...lang.diagnostics import did_you_mean

    if name in unit:
        return unit[name]
    hint = "".join(f"; {note}" for note in did_you_mean(name, unit.functions))
    names = ", ".join(unit.functions) or "none"
    raise CliError(f"there is no function '{name}'{hint or f'; there are: {names}'}")

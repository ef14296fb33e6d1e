"""`gradscript fmt`: files in one style."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ....lang.light_dataclasses import dataclass
from ..checking import files_of
from ..console import emit
from ..options import JSON, PATHS
from ..outcomes import Outcome, finish


@dataclass(slots=True)
class Formatted(Outcome):
    """What came of one file."""

    text: str = ""
    changed: bool = False
    checked: bool = False
    """Whether it is wrong to change."""

    @property
    def failed(self) -> bool:
        return bool(self.diagnostics) or (self.checked and self.changed)

    def told(self) -> dict[str, Any]:
        return {"changed": self.changed}


@click.command()
@PATHS
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 where something would change.")
@JSON
@click.pass_context
def fmt(ctx: click.Context, paths: tuple[str, ...], check: bool, as_json: bool) -> None:
    """Write files in one style: white space only, comments stay, and what the source says.

    A PATH is a file, a folder, or - for standard input, whose text is printed. Exit status 0: done, 1: bad source, or a
    file that would change with --check, 2: something could not be read.
    """
    found = [_formatted(path, check) for path in files_of(paths)]
    for one in found:
        if one.changed and not check and one.path != "-":
            Path(one.path).write_bytes(one.text.encode("utf-8"))
    finish(ctx, found, _print, as_json)


def _print(found: Sequence[Formatted]) -> None:
    """The text of standard input, and of files how they fared."""
    for one in found:
        if one.path == "-" and not one.checked and not one.diagnostics:
            click.echo(one.text, nl=False)
    if all(one.path == "-" for one in found):
        return
    changed = [f"{'would change' if one.checked else 'formatted'}: {one.path}" for one in found if one.changed]
    unchanged = sum(not one.changed and not one.diagnostics and not one.problem for one in found)
    emit("\n".join([*changed, f"{unchanged} unchanged"]))


def _formatted(path: str, check: bool) -> Formatted:
    from ....lang.diagnostics import CompileError
    from ....lang.source import Source
    from ...format.formatter import format_source

    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        source = Source(data.decode("utf-8", "surrogateescape"), path)
        text = format_source(source)
    except CompileError as error:
        return Formatted(path, diagnostics=error.diagnostics)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Formatted(path, problem=f"cannot read {path}: {reason}")
    return Formatted(path, text, text != source.text, check)

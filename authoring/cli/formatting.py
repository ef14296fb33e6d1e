"""`gradscript fmt`: files in one style."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from ...lang.light_dataclasses import dataclass
from .checking import files_of
from .console import emit
from .outcomes import Outcome, emit_troubles


@dataclass(slots=True)
class Formatted(Outcome):
    """What came of one file."""

    text: str = ""
    changed: bool = False

    def told(self) -> dict[str, Any]:
        return {"changed": self.changed}


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 where something would change.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def fmt(ctx: click.Context, paths: tuple[str, ...], check: bool, as_json: bool) -> None:
    """Write files in one style: white space only, comments stay, and what the source says.

    A PATH is a file, a folder, or - for standard input, whose text is printed. Exit status 0: done, 1: bad source, or a
    file that would change with --check, 2: something could not be read.
    """
    found = [_formatted(path) for path in files_of(paths)]
    for one in found:
        if one.path == "-" and not as_json and not check and not one.diagnostics:
            click.echo(one.text, nl=False)
        elif one.changed and not check and one.path != "-":
            Path(one.path).write_bytes(one.text.encode("utf-8"))
    changed = [one.path for one in found if one.changed]
    if as_json:
        click.echo(json.dumps([one.to_dict() for one in found], indent=2))
    elif paths != ("-",):
        verb = "would change" if check else "formatted"
        emit("\n".join([*(f"{verb}: {path}" for path in changed), f"{len(found) - len(changed)} unchanged"]))
    emit_troubles(found)
    if any(one.problem for one in found):
        ctx.exit(2)
    ctx.exit(1 if any(one.diagnostics for one in found) or (check and changed) else 0)


def _formatted(path: str) -> Formatted:
    from ...lang.diagnostics import CompileError
    from ...lang.source import Source
    from ..format.formatter import format_source

    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        source = Source(data.decode("utf-8"), path)
        text = format_source(source)
    except CompileError as error:
        return Formatted(path, diagnostics=error.diagnostics)
    except UnicodeDecodeError:
        return Formatted(path, problem=f"{path} is no UTF-8 text")
    except OSError as error:
        return Formatted(path, problem=f"cannot read {path}: {error.strerror}")
    return Formatted(path, text, text != source.text)

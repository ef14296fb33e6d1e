"""`gradscript check`: what it takes, and what it prints of what came of files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..console import emit, emit_errors, installed_version, progress_bar
from ..loading import CliError
from ..options import JSON

if TYPE_CHECKING:
    from ..checking import CheckedFile

FORMATS = ("text", "json", "sarif", "github")


@click.command()
@click.argument("arguments", metavar="PATH... [NAME...]", nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@JSON
@click.option("--jobs", "-j", default=1, show_default=True, type=click.IntRange(1), help="Processes.")
@click.pass_context
def check(ctx: click.Context, arguments: tuple[str, ...], form: str, as_json: bool, jobs: int) -> None:
    """Hold the gradients of every function with a backward against finite differences, to second order.

    A PATH is a file, - for standard input, or a folder, in which every .grad and .gs file is checked. A function named
    behind is checked even if it has no backward of its own. Arguments are found by a search, or taken from a function
    NAME_examples in the same file. Exit status 0: all is right, 1: there are findings, 2: something could not be run.
    """
    _leave_threads()
    from ..checking import CheckedFile, check_files, exit_code, split_arguments

    form = "json" if as_json else form
    paths, names = split_arguments(arguments)
    try:
        with progress_bar(form == "text") as progress:
            files = check_files(paths, names, jobs, lambda total: progress("checking", total))
    except CliError as problem:
        files = [CheckedFile(paths[0], problem=problem.format_message())]
    if form == "json":
        found = [file.to_dict() for file in files]
        click.echo(json.dumps(found[0] if len(found) == 1 else {"ok": exit_code(files) == 0, "files": found}, indent=2))
    elif form == "sarif":
        from ..formats import sarif

        click.echo(json.dumps(sarif(files, installed_version()), indent=2))
    elif form == "github":
        from ..formats import github

        click.echo("".join(f"{line}\n" for line in github(files)), nl=False)
    else:
        _print_checked(files)
    if form in ("text", "json"):
        emit_errors([str(d) for file in files for d in file.diagnostics])
        emit_errors([f"error: {file.problem}" for file in files if file.problem])
    ctx.exit(exit_code(files))


def _leave_threads() -> None:
    """Products of a few elements need no threads, and NumPy takes a quarter longer to load with them."""
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _print_checked(files: Sequence[CheckedFile]) -> None:
    checked = [one for file in files for one in file.checked]
    for file in files:
        if file.could_run and not file.checked and len(files) == 1:
            emit(f"{file.path}: no function has a backward to check")
    if not checked:
        return
    emit("\n\n".join(one.text for one in checked))
    places = [(one, f" ({file.path})" if len(files) > 1 else "") for file in files for one in file.checked]
    wrong = [f"{one.name}{place}" for one, place in places if not one.ok]
    said = f"{len(checked)} function{'s' if len(checked) != 1 else ''} checked"
    emit(f"\n{said}, {'wrong: ' + ', '.join(wrong) if wrong else 'all right'}", style="red" if wrong else "green")

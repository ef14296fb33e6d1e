"""`gradscript stubs` and `gradscript pack`: signatures for editors, and folders of formulas as wheels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ....lang.light_dataclasses import dataclass
from ..checking import files_of
from ..console import emit, emit_errors
from ..loading import CliError, load_functions
from ..options import JSON, PATHS
from ..outcomes import Outcome, finish


@dataclass(slots=True)
class Stubbed(Outcome):
    """What came of one file: the text of its stub, and where it was written."""

    text: str = ""
    written: str = ""

    def told(self) -> dict[str, Any]:
        return {"stub": self.written} if self.written else {"text": self.text}


@click.command()
@PATHS
@click.option("--write", "-w", is_flag=True, help="Write NAME.pyi beside each file.")
@JSON
@click.pass_context
def stubs(ctx: click.Context, paths: tuple[str, ...], write: bool, as_json: bool) -> None:
    """Write the signatures of the functions of files as .pyi, for editors and type checkers.

    A PATH is a file, a folder, or - for standard input. Exit status 0: done, 1: bad source, 2: something could not be
    read or written.
    """
    finish(ctx, [_stubbed(path, write) for path in files_of(paths)], _print, as_json)


def _print(found: Sequence[Stubbed]) -> None:
    """The files that were written, and the stubs that were not."""
    written = [one.written for one in found if one.written]
    if written:
        emit("\n".join(written))
    click.echo("\n".join(one.text for one in found if not one.written), nl=False)


def _stubbed(path: str, write: bool) -> Stubbed:
    from ....lang.diagnostics import CompileError
    from ...packing.stubs import stubs_of

    found = Stubbed(path)
    try:
        found.text = stubs_of(load_functions(path), Path(path).name if path != "-" else "standard input")
        if write and path != "-":
            target = Path(path).with_suffix(".pyi")
            target.write_text(found.text, encoding="utf-8")
            found.written = str(target)
    except CompileError as error:
        found.diagnostics = error.diagnostics
    except CliError as problem:
        found.problem = problem.format_message()
    except OSError as error:
        found.problem = f"cannot write beside {path}: {error.strerror}"
    return found


@click.command()
@click.argument("folder", metavar="FOLDER")
@click.option("--out", "-o", default=".", show_default=True, metavar="DIR", help="Where the wheel goes.")
@click.option("--name", metavar="NAME", help="Of the package. Default: that of the folder.")
@click.option("--version", default="0.1.0", show_default=True, help="Of the package.")
@click.option("--export", "exported", is_flag=True, help="Also the module of each function that can be exported.")
@JSON
@click.pass_context
def pack(
    ctx: click.Context, folder: str, out: str, name: str | None, version: str, exported: bool, as_json: bool
) -> None:
    """Make a wheel of a folder of formulas: a package that pip installs, with a module for each file.

    Exit status 0: written, 1: bad source, 2: something could not be read or written, or is no package.
    """
    from ...packing.wheel import NoPackage
    from ...packing.wheel import pack as pack_folder

    ctx.meta["gradscript.json"] = as_json
    try:
        found = pack_folder(folder, out, name=name, version=version, exported=exported)
    except NoPackage as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(f"{error.filename or folder}: {error.strerror or error}") from error
    if as_json:
        told = {"wheel": str(found.path), "modules": found.modules}
        told |= {"kernels": found.kernels, "without_kernels": found.without_kernels} if exported else {}
        click.echo(json.dumps(told, indent=2))
        return
    emit(str(found.path))
    emit_errors([f"note: {reason}" for reason in found.without_kernels.values()])

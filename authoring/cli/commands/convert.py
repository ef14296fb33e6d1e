"""`gradscript convert`: files of Python with Functions of torch, as files of the language."""

from __future__ import annotations

import io
import os
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....lang.light_dataclasses import dataclass, field
from ..console import emit, emit_errors
from ..loading import CliError
from ..options import JSON, PATHS
from ..outcomes import Outcome, finish

if TYPE_CHECKING:
    from ...convert.converter import Conversion
    from ...trials.report import CheckReport


@dataclass(slots=True)
class Told(Outcome):
    """What came of one file, and what the check says of the gradients."""

    conversion: Conversion | None = None
    wrong: dict[str, CheckReport] = field(default_factory=dict)
    checked: list[str] = field(default_factory=list)
    written: str = ""

    def told(self) -> dict[str, Any]:
        if self.conversion is None:
            return {}
        found = {**self.conversion.to_dict(), "checked": self.checked, "wrong": list(self.wrong)}
        return {**found, "written": self.written} if self.written else found

    @property
    def failed(self) -> bool:
        return bool(self.wrong) or self.conversion is None or not self.conversion.ok


@click.command()
@PATHS
@click.option("--write", "-w", is_flag=True, help="Write FILE.grad beside each FILE.py; one that is there stays.")
@click.option("--check/--no-check", default=True, show_default=True, help="Hold the gradients to finite differences.")
@JSON
@click.pass_context
def convert(ctx: click.Context, paths: tuple[str, ...], write: bool, check: bool, as_json: bool) -> None:
    """Turn torch.autograd.Function classes and torch.jit.script functions into source of the language.

    A PATH is a file of Python, - for standard input, or a folder. Files are read and never run. The text goes to
    standard output; what was guessed, left out or could not be converted to standard error, with its line. Exit status
    0: all is converted and its gradients are right, 1: not all, 2: something could not be read.
    """
    finish(ctx, [_converted(path, write, check) for path in _python_files(paths)], _print, as_json)


def _python_files(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        inside = sorted(map(str, Path(path).rglob("*.py")))
        if not inside:
            raise CliError(f"{path} holds no file that ends in .py")
        yield from inside


def _converted(path: str, write: bool, check: bool) -> Told:
    from ...convert.converter import convert as convert_text

    found = Told(path)
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        found.conversion = convert_text(_decoded(data), "<stdin>" if path == "-" else path)
    except OSError as error:
        found.problem = f"cannot read {path}: {error.strerror}"
    except (UnicodeDecodeError, SyntaxError) as error:
        found.problem = f"{path} is no text of Python: {error}"
    except ValueError as error:
        found.problem = str(error)
    if found.conversion is None or not found.conversion.text:
        return found
    if check:
        _check(found, found.conversion.text)
    if write and path != "-":
        _write(found, found.conversion.text)
    return found


def _decoded(data: bytes) -> str:
    """The text of a file as Python reads it: with a mark at its start, or a line that says how it is encoded."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding)


def _check(found: Told, text: str) -> None:
    from ....runtime.face.units.unit import CompilationUnit
    from ...check import check

    for function in CompilationUnit(text, str(Path(found.path).with_suffix(".grad"))).functions.values():
        if function.pair is None:
            continue
        report = check(function)
        found.checked.append(function.name)
        if not report.ok:
            found.wrong[function.name] = report


def _write(found: Told, text: str) -> None:
    target = Path(found.path).with_suffix(".grad")
    try:
        with target.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        found.written = str(target)
    except FileExistsError:
        found.problem = f"{target} is there already: move it away, or leave --write out"
    except OSError as error:
        found.problem = f"cannot write {target}: {error.strerror}"


def _print(found: Sequence[Told]) -> None:
    texts = [one.conversion.text.rstrip("\n") for one in found if one.conversion is not None and one.conversion.text]
    written = [one.written for one in found if one.written]
    if written:
        emit("\n".join(f"written: {path}" for path in written))
    elif texts:
        emit("\n\n\n".join(texts), "python")
    said: list[str] = []
    for one in found:
        if one.conversion is None:
            continue
        said += [f"note: {one.conversion.told(remark)}" for remark in one.conversion.notes]
        said += [f"error: {one.conversion.told(remark)}" for remark in one.conversion.failures]
        if not one.conversion.names and one.conversion.ok:
            said.append(f"note: {one.path} holds no torch.autograd.Function and no torch.jit.script function")
        said += [f"{one.path}: the check of what was converted says\n{report}" for report in one.wrong.values()]
    emit_errors(said)

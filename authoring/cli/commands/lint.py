"""`gradscript lint` and `gradscript explain`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....lang.light_dataclasses import dataclass, field
from ..checking import files_of
from ..console import emit
from ..loading import CliError, load_functions
from ..options import JSON, PATHS
from ..outcomes import Outcome, finish

if TYPE_CHECKING:
    from ...lint.findings import Finding
    from ...lint.settings import LintSettings

_ROUNDS = 10
"""Of fixing, since what is fixed may show what was inside it."""


@dataclass(slots=True)
class Linted(Outcome):
    """What was found in one file, and how much of it was mended."""

    findings: list[Finding] = field(default_factory=list)
    fixed: int = 0

    @property
    def failed(self) -> bool:
        return bool(self.findings or self.diagnostics)

    def told(self) -> dict[str, Any]:
        return {"findings": [finding.to_dict() for finding in self.findings], "fixed": self.fixed}


@click.command()
@PATHS
@click.option("--fix", is_flag=True, help="Write what surely mends a finding into the file.")
@click.option(
    "--select", "chosen", multiple=True, metavar="CODE", help="Tell these alone: a code, or what codes begin with."
)
@click.option("--ignore", "ignored", multiple=True, metavar="CODE", help="Leave these out.")
@click.option(
    "--exclude", "excluded", multiple=True, metavar="GLOB", help="Files of folders, or folders, not to look at."
)
@JSON
@click.pass_context
def lint(
    ctx: click.Context,
    paths: tuple[str, ...],
    fix: bool,
    chosen: tuple[str, ...],
    ignored: tuple[str, ...],
    excluded: tuple[str, ...],
    as_json: bool,
) -> None:
    """Find what compiles and is still not meant: lost digits, NaN from dead sides, names and gradients without use.

    A PATH is a file, - for standard input, or a folder. `# noqa` behind a line leaves its findings out, `# noqa: L201`
    this one, a line `# gradscript: noqa` those of the file. The table tool.gradscript.lint of the nearest
    pyproject.toml has select, ignore, per-file-ignores and exclude, as ruff's. Exit status 0: nothing is found, or all
    of it is fixed, 1: there are findings, 2: something could not be read.
    """
    options = partial(_settings, chosen, ignored, excluded)
    options(Path.cwd())
    found = (_linted(path, options, fix, path in paths) for path in files_of(paths))
    finish(ctx, [one for one in found if one is not None], _print, as_json)


def _settings(chosen: Sequence[str], ignored: Sequence[str], excluded: Sequence[str], folder: Path) -> LintSettings:
    """What the nearest pyproject.toml says, and what the command line does."""
    from ...lint.settings import configured

    try:
        return configured(folder).with_options(chosen, ignored, excluded)
    except ValueError as error:
        raise CliError(str(error)) from None


def _linted(path: str, options: Callable[[Path], LintSettings], fix: bool, is_named: bool) -> Linted | None:
    """What is found in a file; None for one of a folder that is excluded."""
    from ....lang.diagnostics import CompileError
    from ...lint.findings import fixed_text
    from ...lint.linter import lint as lint_unit

    found = Linted(path)
    try:
        settings = options(Path(path).parent if path != "-" else Path.cwd())
        if not is_named and settings.leaves_out(path):
            return None
        for _ in range(_ROUNDS):
            found.findings = lint_unit(load_functions(path), settings=settings)
            # Of the library each function is read by itself: what its source would become is not the file.
            edits = [one for one in found.findings if one.edit is not None and not one.span.source.is_library]
            if not fix or not edits or path == "-":
                break
            source = edits[0].span.source
            Path(path).write_bytes(fixed_text(source, edits).encode("utf-8", "surrogateescape"))
            found.fixed += len(edits)
    except CompileError as error:
        found.diagnostics = error.diagnostics
    except CliError as problem:
        found.problem = problem.format_message()
    return found


def _print(found: Sequence[Linted]) -> None:
    texts = [str(finding) for one in found for finding in one.findings]
    if texts:
        emit("\n\n".join(texts) + "\n")
    if any(one.diagnostics or one.problem for one in found) and not texts:
        return
    fixed, left = sum(one.fixed for one in found), len(texts)
    fixable = sum(finding.edit is not None for one in found for finding in one.findings)
    said = f"{left} finding{'s' if left != 1 else ''}" if left else "nothing found"
    said += f", {fixed} fixed" if fixed else ""
    emit(said + (f"; `--fix` mends {fixable}" if fixable else ""))


@click.command()
@click.argument("code", metavar="CODE", required=False)
@JSON
def explain(code: str | None, as_json: bool) -> None:
    """Print what a code of the compiler, a failed call or the linter means, with wrong and right code; or list all."""
    from ...explain.page import MEANINGS, PAGES
    from ...explain.page import explain as page_of

    if code is None:
        listed = json.dumps(MEANINGS, indent=2)
        emit(listed if as_json else "\n".join(f"{known}  {meaning}" for known, meaning in MEANINGS.items()))
        return
    try:
        text = page_of(code)
    except KeyError as error:
        raise CliError(str(error.args[0])) from None
    if not as_json:
        emit(text)
        return
    known = code.upper()
    example = PAGES[known]
    page = {"code": known, "meaning": MEANINGS[known], "wrong": example.wrong, "right": example.right}
    click.echo(json.dumps(page, indent=2))

"""Printing: colours on a terminal, plain text elsewhere, and never a failure for what a terminal cannot show."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

THEME = "ansi_dark"


def installed_version() -> str:
    """The version of the package that runs, which its root names."""
    return str(vars(sys.modules[__name__.partition(".")[0]])["__version__"])


def make_output_safe() -> None:
    """Let characters that the output's encoding lacks be printed as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _is_coloured(stream: object) -> bool:
    return bool(getattr(stream, "isatty", lambda: False)()) and not os.environ.get("NO_COLOR")


def emit(text: str, language: str | None = None, *, style: str | None = None) -> None:
    """Print to standard output, in colours where a terminal shows it."""
    if not _is_coloured(sys.stdout):
        click.echo(text)
    elif language is not None:
        from rich.console import Console
        from rich.syntax import Syntax

        Console(soft_wrap=True).print(Syntax(text, language, theme=THEME, background_color="default"))
    else:
        click.echo(click.style(text, fg=style) if style else _coloured_lines(text))


def emit_errors(errors: Sequence[str]) -> None:
    """Print diagnostics to standard error."""
    if not errors:
        return
    text = "\n\n".join(errors)
    click.echo(_coloured_lines(text) if _is_coloured(sys.stderr) else text, err=True)


def _coloured_lines(text: str) -> str:
    """Headings of errors in bold red, carets in red, places and notes dimmed, verdicts in green or red."""
    return "\n".join(_coloured(line) for line in text.split("\n"))


def _coloured(line: str) -> str:
    if line.startswith("error["):
        return click.style(line, fg="red", bold=True)
    if line.startswith(("  --> ", "  note: ")):
        return click.style(line, dim=True)
    bare = line.strip()
    if bare.startswith("|") and set(bare[1:].strip()) == {"^"}:
        return click.style(line, fg="red")
    head, _, verdict = line.rpartition("  ")
    if head and verdict == "ok":
        return f"{head}  {click.style(verdict, fg='green')}"
    return line


Progress = Callable[[int], None]


@contextmanager
def progress_bar(wanted: bool) -> Iterator[Callable[[str, int], Progress | None]]:
    """Gives, for a title and the work in all, what to call with the work done; None unless on a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield lambda title, total: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:

        def start(title: str, total: int) -> Progress:
            line = bar.add_task(title, total=total)
            return lambda done: bar.update(line, completed=done)

        yield start

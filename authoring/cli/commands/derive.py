"""`gradscript derive`: backwards for the functions of files that have none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....lang.light_dataclasses import dataclass, field
from ..checking import files_of, split_arguments
from ..console import emit, emit_errors
from ..loading import CliError, find_function, load_functions
from ..options import JSON
from ..outcomes import Outcome, finish

if TYPE_CHECKING:
    from ....runtime.face.function import Function
    from ...derive.comparison import Comparison

_EXAMPLES = "_examples"


@dataclass(slots=True)
class Derived(Outcome):
    """What came of one file: the text of each function, and why others have none."""

    texts: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    named: Sequence[str] = ()
    """The functions that were asked for."""
    written: bool = False

    @property
    def failed(self) -> bool:
        return bool(self.diagnostics) or any(name in self.named for name in self.reasons)

    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = {"functions": self.texts, "without_gradient": self.reasons}
        if self.comparisons:
            found["compared"] = [one.to_dict() for one in self.comparisons]
        return found


@click.command()
@click.argument("arguments", metavar="PATH... [NAME...]", nargs=-1, required=True)
@click.option("--write", "-w", is_flag=True, help="Put the backwards into the files.")
@click.option(
    "--order",
    type=click.IntRange(1),
    default=1,
    help="How many backwards stand in each other: 2 for second derivatives.",
)
@click.option("--compare", is_flag=True, help="Set the author's backward beside the derived one, where there is one.")
@JSON
@click.pass_context
def derive(
    ctx: click.Context, arguments: tuple[str, ...], write: bool, order: int, compare: bool, as_json: bool
) -> None:
    """Write the backward of every function that has none, in the author's names, ready to paste.

    A PATH is a file, - for standard input, or a folder. Behind it may stand the names of functions. What has as many
    backwards stays. Exit status 0: all is derived, 1: a function that was named, or a file, has no gradient or is
    wrong, 2: something could not be read.
    """
    if compare and (write or order > 1):
        raise CliError(f"{'--write' if write else '--order'} and --compare do not go together")
    paths, names = split_arguments(arguments)
    files = list(files_of(paths))
    found = [_derived(path, names, order, compare, alone=len(files) == 1) for path in files]
    if names and not any(one.texts or one.comparisons or one.reasons or one.failed or one.problem for one in found):
        raise CliError(f"there is no function {' or '.join(map(repr, names))} in these files")
    if write:
        for one in found:
            _write(one)
    finish(ctx, found, _print, as_json)


def _derived(path: str, names: Sequence[str], order: int, compare: bool, *, alone: bool) -> Derived:
    """What is derived of one file: of several, each has some of the functions that are named."""
    from ....lang.diagnostics import CompileError
    from ...derive.comparison import compared
    from ...derive.derivation import derive as derive_text
    from ...derive.derivation import nesting_of_backwards

    found = Derived(path, named=names)
    try:
        unit = load_functions(path)
        there = names if alone else [name for name in names if name in unit]
        functions = [find_function(unit, name) for name in there] if names else list(unit.values())
    except CompileError as error:
        found.diagnostics = error.diagnostics
        return found
    except CliError as problem:
        found.problem = problem.format_message()
        return found
    for function in functions:
        if not _is_wanted(function, nesting_of_backwards(function), 0 if compare else order, bool(names)):
            continue
        try:
            if compare:
                found.comparisons.append(compared(function, measured=True))
            else:
                found.texts[function.name] = derive_text(function, order)
        except ValueError as error:
            found.reasons[function.name] = str(error)
    return found


def _is_wanted(function: Function, has: int, order: int, is_named: bool) -> bool:
    """Whether a function that has backwards to one order is derived to another; to 0, is compared."""
    if not order:
        return has > 0
    return is_named or (has < order and not function.name.endswith(_EXAMPLES))


def _write(found: Derived) -> None:
    """Put the derived texts in the place of the functions, from the last to the first."""
    from ....lang.source import Source
    from ...derive.placing import with_functions

    found.written = True
    if found.path == "-" or not found.texts:
        return
    path = Path(found.path)
    text = path.read_bytes().decode("utf-8")
    path.write_bytes(with_functions(Source(text, found.path), found.texts).encode("utf-8"))


def _print(found: Sequence[Derived]) -> None:
    for one in found:
        if one.written and one.texts:
            emit(f"{one.path}: {', '.join(one.texts)}")
    _print_texts([one for one in found if not one.written])
    emit_errors([f"note: {reason}" for one in found for reason in one.reasons.values()])


def _print_texts(found: Sequence[Derived]) -> None:
    tables = [str(comparison) for one in found for comparison in one.comparisons]
    texts = [text.rstrip("\n") for one in found for text in one.texts.values()]
    if tables:
        emit("\n\n".join(tables))
    if texts:
        emit("\n\n\n".join(texts), "python")

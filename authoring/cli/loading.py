"""Files and functions named on the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ...runtime.face.function import Function
    from ...runtime.face.units.unit import CompilationUnit


class CliError(click.ClickException):
    """A command that cannot be carried out as given: exit status 2."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.format_message()}", err=True)


def load_unit(path: str) -> CompilationUnit:
    """The unit in a file; `-` is standard input. CompileError for bad source, CliError for a file not read."""
    from ...runtime.face.units.files import load
    from ...runtime.face.units.unit import CompilationUnit

    try:
        if path != "-":
            return load(path)
        source = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CliError(f"cannot read {path}: {reason}") from error
    return CompilationUnit(source, "<stdin>")


def load_functions(path: str) -> Mapping[str, Function]:
    """The functions in a file by name. Those of the library call each other wherever they stand, and are compiled as
    the library is."""
    from ...compiler.formulas.library import compile_formula, definition_of, examples_of, formula_names
    from ...compiler.ir.graph import Callee
    from ...runtime.face.function import Function
    from ...stdlib_grads import formula_files, path_of

    name = os.path.basename(path)
    if name not in formula_files() or not os.path.exists(path) or not os.path.samefile(path, path_of(name)):
        return load_unit(path).functions
    found = {}
    for formula in formula_names(name):
        callee, examples = compile_formula(formula), examples_of(formula)
        if examples is not None:
            graph = callee.graph.copy()
            graph.functions = {examples.schema.name: examples}
            callee = Callee(callee.schema, graph, callee.pair)
        found[formula] = Function(callee, definition=definition_of(formula))
    return found


def find_function(unit: Mapping[str, Function] | CompilationUnit, name: str) -> Function:
    """One function of a unit; CliError with the nearest name, or all names, if there is none."""
    from ...lang.diagnostics import nearest

    if name in unit:
        return unit[name]
    hint = nearest(name, unit)
    names = ", ".join(unit) or "none"
    raise CliError(f"there is no function '{name}'{hint or f'; there are: {names}'}")

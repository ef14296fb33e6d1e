"""A unit's functions held against every rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...runtime.face.function import Function
from ...runtime.face.units.unit import CompilationUnit
from .closures import forgotten_arguments, kept_for_nothing
from .findings import Finding, wanted
from .names import idle_statements, ignored_gradients, missing_returns, unused_names, unused_parameters
from .numbers import lost_digits, promoting_literals
from .settings import LintSettings, named_codes
from .sides import dead_sides

_OF_SYNTAX = (unused_names, unused_parameters, ignored_gradients, idle_statements, missing_returns)
_OF_GRAPHS = (lost_digits, dead_sides, promoting_literals, forgotten_arguments, kept_for_nothing)


def lint(
    unit: CompilationUnit | Mapping[str, Function], ignored: Iterable[str] = (), settings: LintSettings | None = None
) -> list[Finding]:
    """What is found in the functions of a unit, or in functions by name, in the order of the source.

    `ignored` are codes, or what they begin with (ValueError for what begins none), beside those of `settings`. A line
    that ends in `# noqa` says that all is meant there, one in `# noqa: L201` that this is; a line `# gradscript: noqa`
    says it of the file.
    """
    chosen = settings or LintSettings()
    left_out = tuple(name.upper() for name in named_codes(ignored, "ignored"))
    told = (
        found
        for found in wanted(_all((unit.functions if isinstance(unit, CompilationUnit) else unit).values()))
        if not found.code.startswith(left_out) and chosen.tells(found.code, found.span.source.filename)
    )
    return list(dict.fromkeys(sorted(told, key=lambda f: (f.span.line, f.span.start, f.span.end, f.code))))


def _all(functions: Iterable[Function]) -> Iterator[Finding]:
    for function in functions:
        definition = function.definition
        if definition is None:
            continue
        for of_syntax in _OF_SYNTAX:
            yield from of_syntax(definition)
        for of_graph in _OF_GRAPHS:
            yield from of_graph(function.callee, definition.span.source)

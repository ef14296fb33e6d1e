"""A unit's functions held against every rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ...runtime.face.unit import CompilationUnit
from .closures import forgotten_arguments, kept_for_nothing
from .findings import Finding, wanted
from .names import idle_statements, ignored_gradients, missing_returns, unused_names, unused_parameters
from .numbers import dead_sides, lost_digits, promoting_literals

_OF_SYNTAX = (unused_names, unused_parameters, ignored_gradients, idle_statements, missing_returns)
_OF_GRAPHS = (lost_digits, dead_sides, promoting_literals, forgotten_arguments, kept_for_nothing)


def lint(unit: CompilationUnit, ignored: Iterable[str] = ()) -> list[Finding]:
    """What is found in the functions of a unit, in the order of the source.

    `ignored` are codes, or what they begin with. A line that ends in `# noqa` says that all is meant there, one in
    `# noqa: L201` that this is.
    """
    found = sorted(wanted(_all(unit), ignored), key=lambda f: (f.span.start, f.span.end, f.code))
    return list(dict.fromkeys(found))


def _all(unit: CompilationUnit) -> Iterator[Finding]:
    for function in unit.functions.values():
        definition = function.definition
        if definition is None:
            continue
        for of_syntax in _OF_SYNTAX:
            yield from of_syntax(definition)
        for of_graph in _OF_GRAPHS:
            yield from of_graph(function.callee, definition.span.source)


def configured(path: str | Path) -> tuple[str, ...]:
    """The codes that the nearest pyproject.toml above a file ignores: `[tool.gradscript.lint] ignore = ["L2"]`.

    ValueError for a table that does not read.
    """
    import tomllib

    folder = Path(path).resolve()
    for parent in (folder, *folder.parents):
        file = parent / "pyproject.toml"
        if not file.is_file():
            continue
        try:
            settings = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("gradscript", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{file}: {error}") from None
        codes = settings.get("lint", {}).get("ignore", [])
        if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
            raise ValueError(f"{file}: tool.gradscript.lint.ignore is a list of codes")
        return tuple(codes)
    return ()

"""CompilationUnit: one source file, compiled, and what is added to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Any

from ....compiler.emit.outside import Environment, OutsideConstant, nothing
from ....compiler.ir.graph import Callee
from ....lang.ast import Name
from ....lang.diagnostics import Diagnostics, nearest
from ....lang.imports import relative_imports
from ....lang.parser import parse
from ....lang.source import Source
from ..function import Function
from .sources import Namespace, functions_of


class CompilationUnit(Namespace):
    """The functions of a source text.

    `cu.functions` is {name: Function} in the order of the text; `cu.mul` and `cu["mul"]` are one of them. A function
    called as an attribute of this class is (`code`, say) is reached by `cu["code"]`. Iteration gives the names.

    `scope` holds what the source may use beside its own functions: functions, other units (`lib.mul(x, y)`), modules,
    numbers, strings, bools and tuples of them, by name. `globals()` is one.

        lib = gs.CompilationUnit(text)
        cu = gs.CompilationUnit("def f(x):\\n    return lib.square(x) * HALF", scope={"lib": lib, "HALF": 0.5})

    `gs.load(path)` compiles a file, `cu.define(text)` adds to a unit. CompileError is all that bad source raises.
    """

    functions: dict[str, Function]

    def __init__(
        self, source: str = "", filename: str | PathLike[str] = "<string>", *, scope: Mapping[str, Any] | None = None
    ) -> None:
        if scope is not None and not isinstance(scope, Mapping):
            raise TypeError(f"scope is a dict of names, not {type(scope).__name__}")
        self._scope = scope
        self._functions: dict[str, Function] = {}
        self.functions = {}
        self.define(source, filename)

    def define(self, source: str, filename: str | PathLike[str] = "<string>") -> None:
        """Add the functions of another source. They may use those that the unit has, and its scope.

        CompileError for bad source, also for a function of a name that the unit has (E105); nothing is added then.
        """
        if not isinstance(source, str):
            raise TypeError(f"source is a str, not {type(source).__name__}")
        if not isinstance(filename, str | PathLike):
            raise TypeError(f"filename is a str for messages, not {type(filename).__name__}")
        names = self._functions if self._scope is None else {**self._scope, **self._functions}
        text = Source(source, fspath(filename))
        _require_imported(text, names)
        added = functions_of(text, _environment(names) if names else nothing)
        diagnostics = Diagnostics()
        for name, function in added.items():
            if name in self._functions and function.definition is not None:
                message, note = f"the unit has a function '{name}' already", "rename one, or make another unit"
                diagnostics.report("E105", message, function.definition.name_span, note)
        diagnostics.raise_if_any()
        self._functions.update(added)
        self.functions.update(added)

    @property
    def code(self) -> str:
        """The unit as canonical source, with what it calls of other units behind it. Compiling it again, which needs
        no scope, prints the same text."""
        from ....compiler.unparse import unparse_program, unparse_unit

        callees = self._callees()
        alone = all(function.calls_own_source for function in self._functions.values())
        docstrings = {name: function.__doc__ for name, function in self._functions.items()}
        return unparse_unit(callees, docstrings) if alone else unparse_program(*callees.values())

    def _callees(self) -> dict[str, Callee]:
        return {name: function.callee for name, function in self._functions.items()}

    def __getattr__(self, name: str) -> Function:
        try:
            return self.__dict__["_functions"][name]
        except KeyError:
            raise AttributeError(_unknown(name, self.__dict__.get("_functions", ())), name=name, obj=self) from None

    def __getitem__(self, name: str) -> Function:
        if not isinstance(name, str):
            raise TypeError(f"a function goes by its name, not by {type(name).__name__}")
        try:
            return self._functions[name]
        except KeyError:
            raise KeyError(_unknown(name, self._functions)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._functions

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        return f"<CompilationUnit {', '.join(self._functions) or 'without functions'}>"


def _environment(names: Mapping[str, Any]) -> Environment:
    """What the names around a source mean; what finds that out of Python's objects is loaded with the first."""
    from .scope import Scopes
    from .script import script_in

    return Scopes(script_in).given(names)


def constants_of(source: Source, names: Mapping[str, Any] | None) -> dict[str, Any]:
    """The constants of a source that compiles, by name; `names` are those that it may use beside its own."""
    from ....compiler.emit.constants import with_constants

    definitions = parse(source, Diagnostics()).constants if "=" in source.text else ()
    environment = with_constants(definitions, Diagnostics(), _environment(names) if names else nothing)
    found = {target.id: environment(target.id) for d in definitions for target in d.targets if isinstance(target, Name)}
    return {name: constant.value for name, constant in found.items() if isinstance(constant, OutsideConstant)}


def _require_imported(source: Source, names: Mapping[str, Any]) -> None:
    """CompileError for an import from a file beside the source, where nobody has followed it."""
    diagnostics = Diagnostics()
    for line in relative_imports(source):
        if any(imported.called not in names for imported in line.names):
            note = "`gs.load(path)` compiles a file with what it imports; a text takes other units by its scope"
            diagnostics.report("E201", f"'{line.text}' is beside no file: this text is in none", line.span, note)
    diagnostics.raise_if_any()


def _unknown(name: str, known: object) -> str:
    names = [str(item) for item in known] if isinstance(known, dict) else []
    hints = nearest(str(name), names)
    return f"there is no function '{name}'{hints}"

"""CompilationUnit: one source file, compiled."""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.ir.graph import Callee
from ...lang.diagnostics import did_you_mean
from ...lang.source import Source
from ..execution.compiled import compile_source
from ..plans.build import PlanCache
from .function import Function


class CompilationUnit:
    """The functions of a source text.

    `cu.functions` is {name: Function} in the order of the text; `cu.mul` and `cu["mul"]` are one of them. A function
    called as an attribute of this class is (`code`, say) is reached by `cu["code"]`. Iteration gives the names.

    CompileError is all that bad source raises.
    """

    functions: dict[str, Function]

    def __init__(self, source: str, filename: str = "<string>") -> None:
        if not isinstance(source, str):
            raise TypeError(f"source is a str, not {type(source).__name__}")
        self._functions = functions_of(Source(source, filename))
        self.functions = dict(self._functions)

    @property
    def code(self) -> str:
        """The unit as canonical source. Compiling it again prints the same text."""
        from ...compiler.unparse import unparse_unit

        return unparse_unit(self._callees())

    def _callees(self) -> dict[str, Callee]:
        return {name: function.callee for name, function in self._functions.items()}

    def __getattr__(self, name: str) -> Function:
        try:
            return self.__dict__["_functions"][name]
        except KeyError:
            raise AttributeError(_unknown(name, self.__dict__.get("_functions", ())), name=name, obj=self) from None

    def __getitem__(self, name: str) -> Function:
        try:
            return self._functions[name]
        except KeyError:
            raise KeyError(_unknown(name, self._functions)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        return f"<CompilationUnit {', '.join(self._functions) or 'without functions'}>"


def functions_of(source: Source) -> dict[str, Function]:
    """The functions of a source by name, which share the plans of what they call; CompileError as `compile_source`."""
    plans = PlanCache()
    compiled = compile_source(source).items()
    return {name: Function(callee, definition=definition, plans=plans) for name, (callee, definition) in compiled}


def _unknown(name: str, known: object) -> str:
    names = [str(item) for item in known] if isinstance(known, dict) else []
    hints = "".join(f"; {note}" for note in did_you_mean(str(name), names))
    return f"there is no function '{name}'{hints}"

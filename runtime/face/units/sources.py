"""A source text, compiled to functions, and what holds them by name."""

from __future__ import annotations

from ....compiler.emit.outside import Environment, nothing
from ....lang.source import Source
from ...execution.compiled import SharedPlans, compile_source
from ..function import Function


class Namespace:
    """What functions are reached through by name: a CompilationUnit."""

    functions: dict[str, Function]


def functions_of(
    source: Source, environment: Environment = nothing, hints: tuple[str, ...] = ()
) -> dict[str, Function]:
    """The functions of a source by name, which share the plans of what they call; CompileError as `compile_source`."""
    plans = SharedPlans()
    compiled = compile_source(source, environment, hints).items()
    return {name: Function(callee, definition=definition, plans=plans) for name, (callee, definition) in compiled}

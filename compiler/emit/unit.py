"""One source file: its functions, each emitted when first needed, so that order in the file does not matter."""

from __future__ import annotations

from collections.abc import Mapping

from ...lang import ast
from ...lang.diagnostics import Abort, Diagnostics
from ...lang.light_dataclasses import dataclass, field
from ...lang.patterns import pattern
from ...lang.source import Span
from ...lang.trampoline import Walk, run
from ..functionalize import functionalize, has_writes
from ..ir.graph import Callee, GradPair
from ..lift import lift_closures
from ..link import Linker
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..spelling.order import drop_unchanged, order_results
from ..spelling.overloads import Resolver
from .constants import with_constants
from .emitter import Handlers
from .outside import Environment, nothing
from .records import with_records
from .statements.functions import emit_definition
from .statements.grad_modes import mark_recorded
from .table import HANDLERS

_DEF = pattern(r"\bdef\s+(\w+)")


@dataclass(slots=True)
class SourceUnit:
    """The functions of one source file, and what has become of them.

    A function named like a builtin shadows it, as in Python, unless `builtins_first`: in the library of formulas `max`
    is the formula of torch.max, and a call of it in another formula means Python's.
    """

    names: Mapping[str, ast.FunctionDef]
    diagnostics: Diagnostics
    callees: dict[str, Callee] = field(default_factory=dict)
    resolver: Resolver = field(default_factory=Resolver)
    builtins_first: bool = False
    broken: frozenset[str] = frozenset()
    ignored: Mapping[str, str] = field(default_factory=dict)
    """The decorators of the functions that are Python's."""
    handlers: Handlers = HANDLERS
    environment: Environment = nothing
    """What names mean that are none of the unit's."""
    hints: tuple[str, ...] = ()
    """What to do about a name that is not known, beside what it may have been meant for."""
    _linker: Linker | None = None
    _open: dict[str, None] = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)
    _functions: int = 0

    def next_function(self) -> int:
        """A number for a function or closure, by which frames know where one ends."""
        self._functions += 1
        return self._functions

    def import_function(self, callee: Callee) -> Callee:
        """A function from outside as the unit calls it: with what it calls in the unit's table."""
        if self._linker is None:
            self._linker = Linker(self.callees, taken=[*self.names])
        return self.callees[self._linker.enter(callee)]

    def emit(self, name: str, span: Span) -> Walk:
        """The Callee of a function, emitted now unless it has been. Abort if it failed, reported already."""
        if name in self.callees:
            return self.callees[name]
        if name in self._open:
            chain = " → ".join([*list(self._open)[list(self._open).index(name) :], name])
            raise self.diagnostics.fail("E407", f"recursion: {chain}", span, "write a loop instead")
        if name in self._failed:
            raise Abort(name)
        self._open[name] = None
        found = len(self.diagnostics.found)
        try:
            schema, graph = yield emit_definition(self, self.names[name])
            if len(self.diagnostics.found) > found:
                raise Abort(name)
            source = graph if has_writes(graph) else None
            if source is not None:
                graph = functionalize(source, self.diagnostics)
            mark_recorded(graph, self.names)
            eliminate_dead_code(graph)
            if drop_unchanged(graph):
                eliminate_dead_code(graph)
            order_results(graph)
            self.callees[name] = Callee(schema, graph, _tidy(lift_closures(graph, schema, self.diagnostics)))
            self.callees[name].source = source
        except Abort:
            self._failed.add(name)
            raise
        finally:
            del self._open[name]
        return self.callees[name]


def _tidy(pair: GradPair | None) -> GradPair | None:
    """The pair without what its backwards computed for the closures in them alone: those have it in their contexts."""
    current = pair
    while current is not None and current.second is not None:
        eliminate_dead_code(current.backward)
        current = current.second
    return pair


def emit_unit(
    module: ast.Module, diagnostics: Diagnostics, environment: Environment = nothing, hints: tuple[str, ...] = ()
) -> dict[str, Callee]:
    """Emit every function of a file, in file order; what is wrong is in `diagnostics` afterwards.

    `environment` says what names mean that are none of the file's.
    """
    names = {f.name: f for f in module.functions}
    environment = with_constants(module.constants, diagnostics, environment)
    environment = with_records(module.records, diagnostics, environment)
    unit = SourceUnit(names, diagnostics, ignored=dict(module.ignored), environment=environment, hints=hints)
    if diagnostics.found:
        # A function that did not parse is not here; calling it is no error of its own.
        unit.broken = frozenset(_DEF.findall(module.span.source.text)) - unit.names.keys()
    for function in module.functions:
        try:
            run(unit.emit(function.name, function.name_span))
        except Abort:
            continue
    return {f.name: unit.callees[f.name] for f in module.functions if f.name in unit.callees}

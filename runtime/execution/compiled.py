"""Compiled: one function as the rest of the runtime knows it, below `Function`, which users hold."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from ...compiler.emit import emit_unit
from ...compiler.emit.outside import Environment, nothing
from ...compiler.ir.graph import Callee, GradPair, Graph
from ...compiler.lift import callee_of
from ...compiler.types.schema import FunctionSchema
from ...lang.ast import FunctionDef
from ...lang.collection import collection_paused
from ...lang.diagnostics import Diagnostics
from ...lang.parser import parse
from ...lang.source import Source
from ..failures.failure import RuntimeFailure
from ..values.arrays import to_user
from ..values.recorded import RecordedCall
from .binding import Binder

if TYPE_CHECKING:
    from ...compiler.autodiff.unrecorded import Unrecorded
    from ..plans.build import PlanCache
    from .function_executor import FunctionExecutor

_MAKING = RLock()


class SharedPlans:
    """The plans of what several functions call: the cache is made, and what builds them loaded, with the first run."""

    @cached_property
    def cache(self) -> PlanCache:
        from ..plans.build import PlanCache

        return PlanCache()


class Compiled:
    """A function, what binds its arguments, and what runs it. Called, it takes arrays only.

    What else a call may take (tensors of torch, Variables, tracing values) is decided above, by `Function`.
    """

    def __init__(self, callee: Callee, plans: SharedPlans | None = None) -> None:
        self._callee = callee
        self._shared = SharedPlans() if plans is None else plans

    @classmethod
    def of_graph(cls, graph: Graph) -> Self:
        """A graph, such as `gs.parse_ir` reads, as a function. The closure that it returns is its backward.

        CompileError for a closure that is no backward of it.
        """
        if not isinstance(graph, Graph):
            raise TypeError(f"Function.of_graph takes a Graph, as gs.parse_ir reads it, not {type(graph).__name__}")
        return cls(callee_of(graph))

    @property
    def name(self) -> str:
        return self._callee.schema.name

    @property
    def title(self) -> str:
        """What messages call it: the name, or what of a function it is, as "the gradient of f"."""
        return self._callee.graph.title

    @property
    def schema(self) -> FunctionSchema:
        """The parameters with their types and defaults, and the types of the results."""
        return self._callee.schema

    @property
    def graph(self) -> Graph:
        """The IR as emitted, prim::Function included. `str()` of it is the textual IR."""
        return self._callee.graph

    @property
    def pair(self) -> GradPair | None:
        """The function and its own backward as two plain graphs; None where the source gives no backward."""
        return self._callee.pair

    @property
    def callee(self) -> Callee:
        """What graphs that call this function refer to."""
        return self._callee

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The result for arrays, numbers and lists of them; RuntimeFailure for what does not fit."""
        return unwrapped([to_user(result, None) for result in self.executor.run(self.bind(args, kwargs))])

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], binder: Binder | None = None) -> list[Any]:
        """The arguments of a call as the graph takes them, one per parameter; RuntimeFailure where they do not fit.

        A `binder` stands for that of calls. TypeError for what are no arguments.
        """
        if type(args) is not tuple or type(kwargs) is not dict or not (binder is None or type(binder) is Binder):
            args, kwargs = _arguments(args, kwargs, binder)
        try:
            return (binder or self._binder).bind(args, kwargs)
        except RecordedCall as call:
            message = f"a {type(call.taker).__name__} stands where an array is needed"
            note = "only calls of functions are recorded: call what gs.grad gives, or pass its `.data`"
            raise RuntimeFailure("R002", self.title, message, span=self.graph.span, notes=[note]) from None

    @cached_property
    def executor(self) -> FunctionExecutor:
        """What runs the function: made, and loaded, at the first call."""
        from .function_executor import FunctionExecutor

        with _MAKING:
            # Stored here and not behind the lock: threads that meet at the first call share one executor.
            if "executor" not in self.__dict__:
                self.__dict__["executor"] = FunctionExecutor(self.graph, self._shared.cache, self._differentiable)
            made: FunctionExecutor = self.__dict__["executor"]
            return made

    @cached_property
    def unrecorded(self) -> Unrecorded | None:
        """What is true of the function where gradients are not recorded; None if no result keeps one."""
        from ...compiler.autodiff.unrecorded import unrecorded

        return unrecorded(self.graph)

    @cached_property
    def unrecorded_inference(self) -> Unrecorded | None:
        """The same in torch's inference mode, which nothing in it leaves; None in the same functions."""
        from ...compiler.autodiff.unrecorded import Unrecorded, unrecorded

        found = self.unrecorded
        if found is None or not found.enables:
            return found
        return unrecorded(self.graph, enables=False) or Unrecorded(found.graph, {}, decides=False, enables=False)

    @cached_property
    def without_recording(self) -> Compiled | None:
        """What stands for the function where gradients are not recorded and an argument requires one: called as if
        they were, it gives results without gradients, but for arguments that it returns. None if it returns none and
        asks for no `requires_grad`."""
        found = self.unrecorded
        return None if found is None else Compiled(Callee(self.schema, found.graph))

    def _differentiable(self) -> Graph:
        """What a tape records in the place of the graph."""
        from ...compiler.autodiff.differentiable import differentiable_graph

        return differentiable_graph(self._callee)

    @cached_property
    def _binder(self) -> Binder:
        return Binder.of(self.schema, self.graph)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.schema}>"


def unwrapped(results: list[Any]) -> Any:
    """What a call gives for the results of a graph: one as it is, several as a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


def compile_source(
    source: Source, environment: Environment = nothing, hints: tuple[str, ...] = ()
) -> dict[str, tuple[Callee, FunctionDef]]:
    """The functions of a source by name, each with its syntax tree; CompileError with everything that is wrong.

    `environment` says what names mean that are none of the source's, `hints` what to do about one that nothing knows.
    """
    diagnostics = Diagnostics()
    with collection_paused():
        module = parse(source, diagnostics)
        callees = emit_unit(module, diagnostics, environment, hints)
    diagnostics.raise_if_any()
    definitions = {definition.name: definition for definition in module.functions}
    return {name: (callee, definitions[name]) for name, callee in callees.items()}


def _arguments(args: Any, kwargs: Any, binder: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """What is bound, where it is no tuple or no dict."""
    if not isinstance(args, tuple | list):
        raise TypeError(f"the arguments to bind are a tuple, not {type(args).__name__}")
    if not isinstance(kwargs, Mapping):
        raise TypeError(f"the arguments to bind by name are a dict of names, not {type(kwargs).__name__}")
    if not isinstance(binder, Binder | None):
        raise TypeError(f"what binds is a Binder, not {type(binder).__name__}")
    return tuple(args), kwargs

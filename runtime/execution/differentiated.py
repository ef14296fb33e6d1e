"""Compiled graphs, which can be run, and differentiated again and again; what they become is Differentiated.

    CompiledGraph ─ differentiate(key) ─▶ Differentiated ─ backward(pattern) ─▶ CompiledGraph ─ …
       │ executor                            │ forward                            │ executor
       ▼                                     ▼                                    ▼
     graph                                   f                                    df

Each graph there is run by an executor of its own, with every stage of the pipeline. The backward is, for each pattern
of gradients that are there, a program too: so second derivatives are those of `df`, which takes gradients of captured
temporaries as well, and likewise for third ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import RLock
from typing import Any, TypeAlias
from weakref import WeakSet

import numpy as np

from ...compiler.autodiff import Gradient, differentiate
from ...compiler.autodiff.gradient import residuals_of
from ...compiler.autodiff.marked_results import ResultMark, mark_given, mark_results
from ...compiler.autodiff.requires_grad import answer_requires_grad, asks
from ...compiler.ir.graph import Graph, backward_of
from ...compiler.ir.node import Value
from ...compiler.ops.arrays import dtype_of
from ...compiler.ops.meta import UNKNOWN, Abstract
from ...compiler.pipeline import run_recipe
from ...compiler.shapes.propagate import ShapeError, propagate_shapes
from ...compiler.specialize.optionals import specialize_optionals
from ...compiler.types.types import UNDEFINED, ListType, TensorType, Type, strip_optional
from ...lang.diagnostics import CompileError
from ..failures.failure import RuntimeFailure
from ..plans.build import PlanCache
from ..values.arrays import to_array
from .compilation import prepare_gradient
from .executor import GraphExecutor
from .gradients import can_have_gradient, settled, specialized
from .numbered import Executor
from .wiring import Wiring

COMPILING = RLock()
"""Compiling shares tables; what is compiled is used without a lock."""

PatternKey = tuple[bool | None, ...]
"""Per input: whether a gradient is wanted; None where it is absent."""
Flags: TypeAlias = "tuple[bool | Flags, ...]"
"""Per input: whether it requires a gradient; of a list, one for each tensor in it."""
Pattern = tuple[Any, ...]
"""Per gradient that goes in: its dtype, None for an undefined one. Of a list, `list`."""

_PROGRAMS: WeakSet[CompiledGraph] = WeakSet()


class CompiledGraph:
    """A graph without tuples in its signature, compiled as it is needed.

    `whole` says that it is a function's: what is differentiated goes through the stages of a plan with gradients first,
    as the parts of such a plan have. `known` are abstract values of the inputs, for a graph that runs on such alone;
    `exact` is as an executor has it.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        *,
        whole: bool = False,
        temporaries: bool = True,
        known: Sequence[Abstract] | None = None,
        exact: bool = False,
        callees: PlanCache | None = None,
    ) -> None:
        self.graph = graph
        self.name = name
        self.takes_lists = any(is_list_type(value.type) for value in graph.inputs)
        self.has_blocks = any(node.blocks for node in graph.nodes)
        self.whole = whole
        self.marks: Mapping[int, ResultMark] = {}
        """Of results that lack a gradient in spite of how they are differentiated, in this run or in any."""
        self.given: Mapping[int, ResultMark] = {}
        """Of results that are no arguments themselves, in `telling_given`."""
        self._temporaries = temporaries
        self._known = known
        self._exact = exact
        self._callees = callees
        self._executor: GraphExecutor | None = None
        self._differentiated: dict[PatternKey, Differentiated | CompileError] = {}
        self._answered: dict[Flags, CompiledGraph] = {}
        with COMPILING:
            _PROGRAMS.add(self)

    @property
    def executor(self) -> Executor:
        """What runs the graph: made when it first does."""
        return self._executor or self._made()

    def _made(self) -> GraphExecutor:
        with COMPILING:
            if self._executor is None:
                self._executor = GraphExecutor(self.graph, self._callees, known=self._known, exact=self._exact)
            return self._executor

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs, nothing recorded."""
        return (self._executor or self._made()).run(arrays)

    def use_up(self, arrays: list[Any]) -> list[Any]:
        """As `run`, but the list is emptied: an array that nothing else holds is freed after its last use."""
        return (self._executor or self._made()).use_up(arrays)

    @cached_property
    def undefined(self) -> frozenset[int]:
        """The outputs that are gradients of which it is known that they are not there, whatever the arguments are."""
        outputs = settled(self.graph).outputs
        return frozenset(i for i, value in enumerate(outputs) if value.type == UNDEFINED)

    @cached_property
    def asks(self) -> bool:
        """Whether `x.requires_grad` is asked for: then `answered` is what runs."""
        return asks(self.graph)

    @cached_property
    def is_undecided(self) -> bool:
        """Whether which results of a function require a gradient may be for a run to decide, or for what is in lists:
        then `answered` is what runs."""
        if not self.whole:
            return False
        nodes = list(self.graph.nodes)
        has_lists = self.takes_lists or any(is_list_type(value.type) for node in nodes for value in node.outputs)
        return has_lists or any(node.blocks or node.kind == "prim::CallFunction" for node in nodes)

    @property
    def num_results(self) -> int:
        """How many of its outputs are results: marks stand behind them."""
        marks = (*self.marks.values(), *self.given.values())
        return len(self.graph.outputs) - len({mark for mark in marks if type(mark) is int})

    def answered(self, flags: Flags) -> CompiledGraph:
        """The program in which it stands of what `x.requires_grad` is True, and that marks its results."""
        found = self._answered.get(flags)
        if found is None:
            with COMPILING:
                graph = self.graph.copy()
                run_recipe(graph, "before_autodiff")
                asked = dict(zip(graph.inputs, flags, strict=True))
                answer_requires_grad(graph, asked)
                marks = mark_results(graph, asked)
                program = self
                if marks or self.asks:
                    program = self.on(graph)
                    program.marks = marks
                found = self._answered.setdefault(flags, program)
        return found

    @cached_property
    def telling_given(self) -> CompiledGraph:
        """The program, of what is computed where no gradient flows, that tells of its results which are arguments
        themselves."""
        with COMPILING:
            graph = self.graph.copy()
            run_recipe(graph, "before_autodiff")
            given = mark_given(graph)
            program = self.on(graph)
            program.marks, program.given = self.marks, given
            return program

    def on(self, graph: Graph) -> CompiledGraph:
        """The same of a graph that was made of this one's."""
        return CompiledGraph(graph, self.name, whole=self.whole, temporaries=self._temporaries)

    def differentiate(self, key: PatternKey) -> Differentiated | CompileError:
        """The program differentiated for the inputs that want a gradient; the error (E408) where an op has none."""
        found = self._differentiated.get(key)
        if found is None:
            with COMPILING:
                found = self._differentiated.get(key)
                if found is None:
                    found = self._differentiated[key] = self._compiled(key)
        return found

    def _compiled(self, key: PatternKey) -> Differentiated | CompileError:
        absent = [i for i, wanted in enumerate(key) if wanted is None]
        try:
            return Differentiated(self._gradient([bool(wanted) for wanted in key], absent), self.name)
        except CompileError as error:
            return error

    def _gradient(self, wanted: Sequence[bool], absent: Sequence[int]) -> Gradient:
        graph = specialize_optionals(self.graph, absent)
        if self.whole:
            graph = prepare_gradient(graph)
        return differentiate(graph, wanted, temporaries=self._temporaries)

    def forget(self) -> None:
        """Drop what was compiled."""
        self._differentiated.clear()
        self._answered.clear()


class Differentiated:
    """A Gradient, ready to run: f, and df for each pattern of gradients, each by an executor of its own.

    `shapes` are those of the arguments, where it is to run on such alone. `run` and `pull_back` work on arrays with
    tuples taken apart, outputs and residuals of the one being what the other takes; tapes make nodes of it by `wiring`.
    """

    def __init__(self, gradient: Gradient, name: str = "", shapes: Sequence[Abstract] | None = None) -> None:
        self.gradient = gradient
        self.name = name or gradient.f.title
        self.is_active = any(gradient.active_outputs)
        self.takes_lists = any(is_list_type(gradient.f.inputs[i].type) for i in gradient.output_vjps)
        self.pullback: Any = None
        """What second derivatives are made of, where `df` is not to be differentiated: `torch.again.Pullback`."""
        self._shapes = shapes
        self._backward: dict[Pattern, CompiledGraph] = {}

    @cached_property
    def forward(self) -> Executor:
        """What runs f."""
        return GraphExecutor(self.gradient.f, exact=self._shapes is not None)

    @cached_property
    def wiring(self) -> Wiring:
        return Wiring(self.gradient)

    # --- both directions, on arrays ---

    def run(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs, and what the backward needs of the forward."""
        return self.parted(values, self.forward.run(values))

    def parted(self, values: Sequence[Any], results: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs, and what the backward needs, of the results of f."""
        gradient = self.gradient
        return [*results[: gradient.num_real_outputs]], residuals_of(gradient, values, results)

    def pull_back(self, values: Sequence[Any], seeds: Sequence[Any], residuals: Sequence[Any]) -> list[Any]:
        """One gradient per argument, given one per output."""
        vjps = self.vjps(seeds)
        program = self.backward_for(vjps)
        return self.fitted(values, program, program.run([*vjps, *residuals]))

    def pull_back_once(self, values: Sequence[Any], seeds: Sequence[Any], residuals: list[Any]) -> list[Any]:
        """As `pull_back`, but `residuals` is emptied: each is freed after its last use."""
        vjps = self.vjps(seeds)
        program = self.backward_for(vjps)
        given = [*vjps, *residuals]
        residuals.clear()
        return self.fitted(values, program, program.use_up(given))

    @staticmethod
    def can_have_gradient(output: Any) -> bool:
        return can_have_gradient(output)

    @staticmethod
    def seed(given: Any, output: Any) -> Any:
        """The gradient of an output as an array in its dtype; Unsuitable for what is none."""
        return to_array(given).astype(output.dtype, copy=False)

    def vjps(self, seeds: Sequence[Any]) -> list[Any]:
        """What the backward takes first, given one gradient per output: of temporaries it gets none."""
        return [seeds[i] if i < len(seeds) else None for i in self.gradient.input_vjps]

    def fitted(self, values: Sequence[Any], program: CompiledGraph, results: Sequence[Any]) -> list[Any]:
        """One gradient per argument, of the results of a backward; none is another's array.

        One that did not come this time, because of the way that branches and loops went, is one of zeros.
        """
        gradients: list[Any] = [None] * len(values)
        taken: set[int] = set()
        for place, (index, result) in enumerate(zip(self.gradient.output_vjps, results, strict=True)):
            if result is not None or place not in program.undefined:
                gradients[index] = _own(_fitted(lambda: self.gradient, index, result, values[index]), taken)
        return gradients

    def with_zeros(self, values: Sequence[Any], seeds: Sequence[Any], gradients: list[Any]) -> list[Any]:
        """Gradients of a run that did not take every way, with zeros for those that others would have given."""
        for index in self.reached(seeds):
            if gradients[index] is None:
                gradients[index] = _fitted(lambda: self.gradient, index, None, values[index])
        return gradients

    def reached(self, seeds: Sequence[Any]) -> list[int]:
        """The arguments that have a gradient, be it zeros, given one per output."""
        undefined = self.backward_for(self.vjps(seeds)).undefined
        return [index for place, index in enumerate(self.gradient.output_vjps) if place not in undefined]

    # --- df ---

    def backward_for(self, vjps: Sequence[Any]) -> CompiledGraph:
        """`df` for these gradients."""
        return self.backward(tuple([pattern_of(vjp) for vjp in vjps]))

    def backward(self, pattern: Pattern) -> CompiledGraph:
        """`df` for a pattern of gradients."""
        found = self._backward.get(pattern)
        if found is None:
            with COMPILING:
                found = self._backward.get(pattern)
                if found is None:
                    df = specialized(self.gradient.df, self.types_of(pattern))
                    found = CompiledGraph(df, backward_of(self.name), known=self._known, exact=self._shapes is not None)
                    self._backward[pattern] = found
        return found

    def types_of(self, pattern: Pattern) -> list[Type]:
        """What is known of the gradients: their dtypes, and the ranks that f's outputs are known to have."""
        values = [self.gradient.f.outputs[i] for i in self.gradient.input_vjps]
        return [_gradient_type(value, dtype) for value, dtype in zip(values, pattern, strict=True)]

    @cached_property
    def _known(self) -> list[Abstract] | None:
        """What is known of what the backward takes, gradients first; None where that is nothing."""
        if self._shapes is None:
            return None
        gradient = self.gradient
        try:
            known = propagate_shapes(gradient.f, self._shapes)
        except ShapeError:
            return None
        values = [gradient.f.outputs[i] for i in gradient.input_vjps]
        values += residuals_of(gradient, gradient.f.inputs, gradient.f.outputs)
        return [known.get(value, UNKNOWN) for value in values]


def is_list_type(type: Type) -> bool:
    return isinstance(strip_optional(type), ListType)


def pattern_of(vjp: Any) -> Any:
    """The part of a Pattern for one gradient, recorded or not."""
    if vjp is None:
        return None
    return list if isinstance(vjp, list) else vjp.dtype


def forget_gradients() -> None:
    """Drop every gradient that was compiled: what they were compiled by has changed."""
    with COMPILING:
        for program in list(_PROGRAMS):
            program.forget()


def _gradient_type(value: Value, dtype: Any) -> Type:
    if dtype is None:
        return UNDEFINED
    if dtype is list:
        return value.type
    known = strip_optional(value.type)
    return TensorType(dtype_of(np.empty(0, dtype)), known.rank if isinstance(known, TensorType) else None)


def fitted_gradients(
    output_vjps: Sequence[int], values: Sequence[Any], results: Sequence[Any], whole: Callable[[], Gradient]
) -> list[Any]:
    """One gradient per argument, of the results of a backward in which it is settled which of them are undefined.

    `whole` gives what it is the backward of, to be told.
    """
    gradients: list[Any] = [None] * len(values)
    taken: set[int] = set()
    for index, result in zip(output_vjps, results, strict=True):
        if result is not None:
            gradients[index] = _own(_fitted(whole, index, result, values[index]), taken)
    return gradients


def _fitted(whole: Callable[[], Gradient], index: int, gradient: Any, primal: Any) -> Any:
    """A gradient in its argument's dtype; RuntimeFailure where a formula gave it another shape."""
    if isinstance(primal, list):
        gradient = [None] * len(primal) if gradient is None else gradient
        return [_fitted(whole, index, g, p) for g, p in zip(gradient, primal, strict=True)]
    if gradient is None:
        return np.zeros_like(primal)
    if gradient.shape != primal.shape:
        found = whole()
        value = found.f.inputs[index]
        raise RuntimeFailure(
            "R101",
            found.df.title,
            f"the gradient of '{value.name_hint}' has shape {list(gradient.shape)}, the argument {list(primal.shape)}",
            argument=value.name_hint,
            span=found.f.span,
            notes=["a backward returns gradients in the shapes of the inputs: `.sum_to_size(x.size())`"],
        )
    return gradient.astype(primal.dtype, copy=False)


def _own(gradient: Any, taken: set[int]) -> Any:
    """A gradient as an array that no other argument has: a copy, where one gradient is that of two."""
    if isinstance(gradient, list):
        return [_own(item, taken) for item in gradient]
    if gradient is None or id(gradient) not in taken:
        taken.add(id(gradient))
        return gradient
    return gradient.copy()

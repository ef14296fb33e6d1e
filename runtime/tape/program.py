"""Programs: graphs that can be run, and differentiated again and again.

The backward of a program is, for each pattern of gradients that are there, a program of its own. So second
derivatives are those of `df`, which takes gradients of captured temporaries too, and likewise for third ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...compiler.autodiff import Gradient, differentiate
from ...compiler.autodiff.flatten import flatten_signature
from ...compiler.autodiff.wrapper import differentiable_graph
from ...compiler.ir.graph import Graph, backward_of
from ...compiler.ir.node import RETURN, Node, Value
from ...compiler.ops.arrays import dtype_of
from ...compiler.specialize.optionals import specialize_optionals
from ...compiler.types.types import UNDEFINED, ListType, TensorType, Type, strip_optional
from ...lang.diagnostics import CompileError
from ..execution.compiled import Compiled
from ..execution.differentiable import DifferentiableGroup
from ..execution.linearized import aggregated, optimized, settled, specialized
from ..operands.snippets import SNIPPET
from ..plans.build import build_plan
from ..plans.interpreter import execute, run_plan
from ..plans.plan import ExecutionPlan
from .uniform import is_uniform, settled_for_one_shape, sums_broadcasts
from .value import TapeValue, needs_gradient

_COMPILING = RLock()
"""Compiling shares tables; what is compiled is used without a lock."""

Key = tuple[bool | None, ...]
"""Per input: whether a gradient is wanted; None where it is absent."""
Pattern = tuple[Any, ...]
"""Per gradient that goes in: its dtype, None for an undefined one. Of a list, `list`."""


class Program:
    """A graph without tuples in its signature, compiled as it is needed.

    Its values are mixed: Variables, arrays, lists of either, and whatever else ops take.
    """

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        self.takes_lists = any(is_list(value.type) for value in graph.inputs)
        self._plan: ExecutionPlan | None = None
        self._uniform_plan: ExecutionPlan | None = None
        self._sums_broadcasts = sums_broadcasts(graph)
        self._linearizations: dict[Key, Linearization | CompileError] = {}

    def key(self, values: Sequence[Any]) -> Key:
        """What a linearization for these values depends on."""
        if self.takes_lists:
            return tuple([None if v is None else needs_gradient(v) for v in values])
        return tuple([None if v is None else isinstance(v, TapeValue) and v._requires_grad for v in values])

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs, nothing recorded."""
        return run_plan(self._plan_for(arrays), arrays)

    def use_up(self, arrays: list[Any]) -> list[Any]:
        """As `run`, but the list is emptied: an array that nothing else holds is freed after its last use."""
        plan = self._plan_for(arrays)
        arrays += plan.template
        return execute(plan, arrays)

    def _plan_for(self, arrays: Sequence[Any]) -> ExecutionPlan:
        if self._sums_broadcasts and is_uniform(arrays):
            return self._uniform_plan or self._planned_for_one_shape()
        return self._plan or self._planned()

    def _planned(self) -> ExecutionPlan:
        with _COMPILING:
            self._plan = self._plan or build_plan(self._finished(settled(self.graph)))
            return self._plan

    def _planned_for_one_shape(self) -> ExecutionPlan:
        with _COMPILING:
            self._uniform_plan = self._uniform_plan or build_plan(self._finished(settled_for_one_shape(self.graph)))
            return self._uniform_plan

    def _finished(self, graph: Graph) -> Graph:
        """The settled graph as it runs."""
        return graph

    def linearize(self, key: Key) -> Linearization | CompileError:
        """The program differentiated for the inputs that want a gradient; the error (E408) where an op has none."""
        found = self._linearizations.get(key)
        if found is None:
            with _COMPILING:
                found = self._linearizations.get(key)
                if found is None:
                    found = self._linearizations[key] = self._linearize(key)
        return found

    def _linearize(self, key: Key) -> Linearization | CompileError:
        absent = [i for i, wanted in enumerate(key) if wanted is None]
        try:
            return Linearization(self._differentiate([bool(wanted) for wanted in key], absent), self.name)
        except CompileError as error:
            return error

    def _differentiate(self, wanted: Sequence[bool], absent: Sequence[int]) -> Gradient:
        return differentiate(specialize_optionals(self.graph, absent), wanted)


class GroupProgram(Program):
    """A prim::DifferentiableGraph of a plan."""

    def __init__(self, group: DifferentiableGroup, name: str) -> None:
        super().__init__(group.graph, name)
        self._group = group

    def _differentiate(self, wanted: Sequence[bool], absent: Sequence[int]) -> Gradient:
        if not absent and [*wanted] == self._group.requires_grad:
            return self._group.gradient
        return super()._differentiate(wanted, absent)


class GradientProgram(Program):
    """The backward of a program."""

    def _finished(self, graph: Graph) -> Graph:
        return aggregated(graph)


class Linearization:
    """A Gradient, ready to run.

    What a node needs to know of it is in numbers. Places are positions, None where no gradient flows: of captured
    inputs in `gradient.output_vjps`, of captured and of real outputs in `gradient.input_vjps`, where an output that is
    the same value as an earlier one has that one's. `real_vjps` are the outputs at the first of these; those of
    temporaries come after, and `kept_temporaries` has their numbers among the captures, None for one that is not there.
    """

    def __init__(self, gradient: Gradient, name: str) -> None:
        self.gradient = gradient
        self.name = name
        self.forward = build_plan(optimized(gradient.f))
        self.is_active = any(gradient.active_outputs)
        self.takes_lists = any(is_list(gradient.f.inputs[i].type) for i in gradient.output_vjps)
        self.real_vjps = [i for i in gradient.input_vjps if i < gradient.num_real_outputs]
        outputs = gradient.f.outputs
        first = {value: i for i, value in reversed(list(enumerate(outputs)))}
        position = {i: p for p, i in reversed(list(enumerate(gradient.input_vjps)))}
        places = [position.get(first[value]) for value in outputs]
        self.input_places = [_place(gradient.output_vjps, i) for i in gradient.captured_inputs]
        self.output_places = [places[i] for i in gradient.captured_outputs]
        self.real_places = [places[i] if active else None for i, active in enumerate(gradient.active_outputs)]
        kept = [None] * len(gradient.captured_inputs) + [*gradient.captured_outputs]
        self.kept_temporaries = [_place(kept, i) for i in gradient.input_vjps[len(self.real_vjps) :]]
        self._backward: dict[Pattern, Program] = {}

    @cached_property
    def captured_names(self) -> list[str]:
        """What each capture is, inputs first: its name, the op that made or first used it, and where that stands."""
        f = self.gradient.f
        inputs = [f.inputs[i] for i in self.gradient.captured_inputs]
        outputs = [f.outputs[i] for i in self.gradient.captured_outputs]
        return [_operand(value, f.name != SNIPPET) for value in inputs] + [_result(value) for value in outputs]

    def backward(self, pattern: Pattern) -> Program:
        """`df` for a pattern of gradients."""
        found = self._backward.get(pattern)
        if found is None:
            with _COMPILING:
                found = self._backward.get(pattern)
                if found is None:
                    df = specialized(self.gradient.df, self._types(pattern))
                    found = self._backward[pattern] = GradientProgram(df, backward_of(self.name))
        return found

    def _types(self, pattern: Pattern) -> list[Type]:
        """What is known of the gradients: their dtypes, and the ranks that f's outputs are known to have."""
        values = [self.gradient.f.outputs[i] for i in self.gradient.input_vjps]
        return [_gradient_type(value, dtype) for value, dtype in zip(values, pattern, strict=True)]


def _place(numbers: Sequence[int | None], number: int) -> int | None:
    return numbers.index(number) if number in numbers else None


def _operand(value: Value, has_own_name: bool) -> str:
    """A captured input: its name, or else that of the parameter it is passed for, and the op that takes it."""
    name, use = value.name_hint, value.uses[0] if value.use_count else None
    if use is None or use.user.kind == RETURN:
        return f"'{name}'"
    schema = use.user.schema
    if schema is not None and not (has_own_name and name):
        name = schema.arguments[use.index].name
    return f"'{name}' (operand of {_op(use.user)})"


def _result(value: Value) -> str:
    """A captured temporary: its name, and the op that made it."""
    return f"{repr(value.name_hint) if value.name_hint else 'a tensor'} (result of {_op(value.node)})"


def _op(node: Node) -> str:
    return str(node.attrs.get("callee", node.kind))


def is_list(type: Type) -> bool:
    return isinstance(strip_optional(type), ListType)


def pattern_of(vjp: Any) -> Any:
    """The part of a Pattern for one gradient, recorded or not."""
    if vjp is None:
        return None
    return list if isinstance(vjp, list) else vjp.dtype


def _gradient_type(value: Value, dtype: Any) -> Type:
    if dtype is None:
        return UNDEFINED
    if dtype is list:
        return value.type
    known = strip_optional(value.type)
    return TensorType(dtype_of(np.empty(0, dtype)), known.rank if isinstance(known, TensorType) else None)


_PROGRAMS: WeakKeyDictionary[Compiled, tuple[Program, Graph]] = WeakKeyDictionary()


FORGETTING: set[Callable[[], None]] = set()
"""What else drops programs that it holds."""


def program_of(function: Compiled) -> tuple[Program, Graph]:
    """The program of a function, and its graph with the tuples that the program has taken apart."""
    found = _PROGRAMS.get(function)
    if found is None:
        with _COMPILING:
            graph = differentiable_graph(function.callee)
            found = _PROGRAMS.setdefault(function, (Program(flatten_signature(graph), _name(graph)), graph))
    return found


def forget_programs() -> None:
    """Drop every program that was compiled: what they were compiled by has changed."""
    with _COMPILING:
        _PROGRAMS.clear()
        for forget in list(FORGETTING):
            forget()


def _name(graph: Graph) -> str:
    """What nodes of a program are called: the function, or the op that a snippet is of."""
    ops = [node.kind for node in graph.nodes if node.schema is not None]
    return ops[-1] if graph.name == SNIPPET and ops else graph.title

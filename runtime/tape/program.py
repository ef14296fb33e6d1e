"""Programs: graphs that can be run, and differentiated again and again.

The backward of a program is, for each pattern of gradients that are there, a program of its own. So second
derivatives are those of `df`, which takes gradients of captured temporaries too, and likewise for third ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

from ...compiler.autodiff import Gradient, differentiate
from ...compiler.autodiff.flatten import flatten_signature
from ...compiler.autodiff.wrapper import differentiable_graph
from ...compiler.builder import Builder
from ...compiler.dtypes import DType
from ...compiler.ir import Graph
from ...compiler.passes.lower_grad_of import lower_grad_of
from ...compiler.passes.specialize_autograd_zero import specialize_autograd_zero
from ...compiler.specialize import specialize_optionals
from ...compiler.types import UNDEFINED, TensorType, is_tensor
from ..function import Function
from ..interpreter import run_plan
from ..linearized import optimized
from ..plan import ExecutionPlan, build_plan
from ..snippets import SNIPPET

_COMPILING = RLock()
"""Compiling shares tables; what is compiled is used without a lock."""

Pattern = tuple[DType | None, ...]
"""Per gradient that goes in: its dtype, None for an undefined one. Of a list, any dtype."""


class Program:
    """A graph without tuples in its signature, compiled as it is needed."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        self._plan: ExecutionPlan | None = None
        self._linearizations: dict[tuple[tuple[bool, ...], tuple[int, ...]], Linearization] = {}

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs, nothing recorded."""
        if self._plan is None:
            with _COMPILING:
                self._plan = self._plan or self._build()
        return run_plan(self._plan, values)

    def _build(self) -> ExecutionPlan:
        graph = self.graph.copy()
        specialize_autograd_zero(graph)
        lower_grad_of(graph)
        return build_plan(optimized(graph))

    def linearize(self, values: Sequence[Any], requires_grad: tuple[bool, ...]) -> Linearization:
        """The program differentiated for the inputs that require a gradient. CompileError (E408) if an op has none."""
        absent = tuple([i for i, value in enumerate(values) if value is None])
        key = (requires_grad, absent)
        found = self._linearizations.get(key)
        if found is None:
            with _COMPILING:
                found = self._linearizations.get(key)
                if found is None:
                    graph = specialize_optionals(self.graph, absent)
                    found = self._linearizations[key] = Linearization(differentiate(graph, requires_grad), self.name)
        return found


class Linearization:
    """A Gradient, ready to run."""

    def __init__(self, gradient: Gradient, name: str) -> None:
        self.gradient = gradient
        self.name = name
        self._forward = build_plan(optimized(gradient.f))
        self._backward: dict[Pattern, Program] = {}
        outputs = gradient.f.outputs
        first = {value: i for i, value in reversed(list(enumerate(outputs)))}
        self.same_as = tuple(first[value] for value in outputs)
        """Per output of f, temporaries included: the first output that is the same value."""

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs of f: real ones, then temporaries."""
        return run_plan(self._forward, values)

    def backward(self, pattern: Pattern) -> Program:
        """`df` for a pattern of gradients."""
        found = self._backward.get(pattern)
        if found is None:
            with _COMPILING:
                found = self._backward.get(pattern)
                if found is None:
                    found = self._backward[pattern] = Program(self._specialized(pattern), f"{self.name}_gradient")
        return found

    def _specialized(self, pattern: Pattern) -> Graph:
        graph = self.gradient.df.copy()
        first = graph.body.param.next
        assert first is not None
        builder = Builder(graph, before=first)
        for value, dtype in zip(graph.inputs, pattern, strict=False):
            if dtype is None:
                value.replace_uses_with(builder.node("prim::AutogradZero", (), [UNDEFINED]).output)
            elif is_tensor(value.type):
                value.type = TensorType(dtype)
        return graph


_PROGRAMS: WeakKeyDictionary[Function, tuple[Program, Graph]] = WeakKeyDictionary()


def program_of(function: Function) -> tuple[Program, Graph]:
    """The program of a function, and its graph with the tuples that the program has taken apart."""
    found = _PROGRAMS.get(function)
    if found is None:
        with _COMPILING:
            graph = differentiable_graph(function.callee)
            found = _PROGRAMS.setdefault(function, (Program(flatten_signature(graph), _name(graph)), graph))
    return found


def _name(graph: Graph) -> str:
    """What nodes of a program are called: the function, or the op that a snippet is of."""
    ops = [node.kind for node in graph.nodes if node.schema is not None]
    return ops[-1] if graph.name == SNIPPET and ops else graph.name

"""Recording plans: an optimised plan as the tape runs it.

    plan                                         the same plan, recording
      GENERAL  prim::DifferentiableGraph           one node of the tape for the group
      BINARY   aten::mul.Tensor, in no group       one node by the op's formula
      CALL     a function with its own backward    one node by that backward
      BRANCH, NEXT, a list's append, …             as they are

The instructions are those of the plan, and its registers hold a Variable wherever a gradient is wanted, arrays and
numbers elsewhere. So what is recorded is what ran: one side of a branch, each round of a loop. An op that has no
derivative gets arrays, and what it gives has no past.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from ...compiler.analysis.liveness import CONSTANTS
from ...compiler.autodiff import subgraphs
from ...compiler.autodiff.requires_grad import asks
from ...compiler.ir.constants import TensorConstant
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node, Value, copy_node
from ...compiler.ops.registry import OPS, Op, Trait
from ...compiler.types.types import ListType, OptionalType, TensorType, TupleType, Type, VariableType, is_differentiable
from ...lang.light_dataclasses import replace
from ..execution.differentiated import CompiledGraph
from ..execution.groups import DifferentiableGroup
from ..plans.build import PlanBuilder, PlanCache
from ..plans.operations import NodeFunction
from ..plans.plan import ExecutionPlan
from .graph_node import record_on_tape
from .programs import tape_key
from .value import TapeValue, plain, without_past

_MOVES = frozenset(
    (
        *("prim::TupleConstruct", "prim::ListConstruct", "prim::TupleUnpack", "prim::ListUnpack", "prim::TupleIndex"),
        "prim::MaterializeGrad",
    )
)
"""Structural nodes that only move values about."""
_WITHOUT_DERIVATIVE = Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY


class RecordingPlans(PlanCache):
    """The recording plans of what one function calls, and the programs of ops: plans of other specs share them."""

    def __init__(self) -> None:
        super().__init__(lambda graph, plans: RecordingPlanner(graph.without_closure(), self).build())
        self.programs: dict[Hashable, CompiledGraph] = {}

    def of(self, plan: ExecutionPlan) -> ExecutionPlan:
        """A plan, recording. Its groups are those of the plan."""
        steps = zip(plan.nodes, plan.code, strict=True)
        groups = {node: step[1] for node, step in steps if node.kind == subgraphs.KIND}
        return RecordingPlanner(plan.graph, self, groups).build()


class RecordingPlanner(PlanBuilder):
    """Builds a recording plan: a PlanBuilder that evaluates nodes on Variables too, which keep what they have seen."""

    writes = False

    def __init__(
        self, graph: Graph, plans: RecordingPlans, groups: Mapping[Node, DifferentiableGroup] | None = None
    ) -> None:
        super().__init__(graph, plans)
        self._plans = plans
        self._groups = groups or {}
        self._asks = asks(graph)

    def _is_call(self, node: Node) -> bool:
        return super()._is_call(node) and not (self._callee_has_pair(node) and _is_recorded(node))

    def _callee_has_pair(self, node: Node) -> bool:
        return node.kind == "prim::CallFunction" and self._graph.functions[node.attr("callee")].pair is not None

    def _evaluation(self, node: Node) -> tuple[NodeFunction, Sequence[int]]:
        everything = range(len(node.inputs))
        if self._callee_has_pair(node):
            return self._pair(node), everything
        if node.kind == subgraphs.KIND:
            group = self._groups[node]
            return GroupStep(group, group), everything
        evaluate, taken = super()._evaluation(node)
        if _moves(node) or not any(_may_hold_variable(value.type) for value in node.inputs):
            return evaluate, taken
        if node.kind in _VIEWS and not self._asks:
            return plain, everything
        if node.kind in _OWN:
            return _OWN[node.kind], everything
        if not _is_recorded(node):
            return _on_arrays(evaluate), taken
        graph, sources = node_graph(node, self._graph)
        return OpStep(self._program(node, graph), evaluate, taken, sources), everything

    def _pair(self, node: Node) -> NodeFunction:
        graph, sources = node_graph(node, self._graph)
        program = CompiledGraph(graph, graph.title)

        def evaluate(*values: Any) -> Any:
            results = program.run([values[i] for i in sources])
            return results[0] if len(results) == 1 else results

        return OpStep(program, evaluate, range(len(node.inputs)), sources)

    def _program(self, node: Node, graph: Graph) -> CompiledGraph:
        """The program of an op, shared by plans in which it stands in the same place with the same types."""
        constants = [value.node.attrs.get("value") for value in node.inputs if value.node.kind in CONSTANTS]
        if any(isinstance(constant, TensorConstant) for constant in constants):
            return CompiledGraph(graph, node.kind)
        inputs = [repr(v.node.attrs.get("value")) if v.node.kind in CONSTANTS else v.type for v in node.inputs]
        first = [node.inputs.index(value) for value in node.inputs]
        key = (node.schema, node.span, tuple(map(str, inputs)), tuple(first))
        return self._plans.programs.setdefault(key, CompiledGraph(graph, node.kind))


# --- what a plan runs ---


class GroupStep:
    """A group: recorded if a Variable is among what it takes, or evaluated."""

    __slots__ = ("_evaluate", "_program")

    def __init__(self, program: CompiledGraph, evaluate: NodeFunction) -> None:
        self._program = program
        self._evaluate = evaluate

    def __call__(self, *values: Any) -> Any:
        key = tape_key(self._program, values)
        if True not in key:
            return self._evaluate(*values)
        results = record_on_tape(self._program, key, values)
        return results[0] if len(results) == 1 else results


class OpStep(GroupStep):
    """An op or a call. Its program takes the operands `sources`, what evaluates it those of `taken`."""

    __slots__ = ("_sources", "_taken")

    def __init__(
        self, program: CompiledGraph, evaluate: NodeFunction, taken: Sequence[int], sources: Sequence[int]
    ) -> None:
        super().__init__(program, evaluate)
        self._taken = tuple(taken)
        self._sources = tuple(sources)

    def __call__(self, *values: Any) -> Any:
        operands = [values[i] for i in self._sources]
        key = tape_key(self._program, operands)
        if True not in key:
            return self._evaluate(*[values[i] for i in self._taken])
        results = record_on_tape(self._program, key, operands)
        return results[0] if len(results) == 1 else results


def _on_arrays(evaluate: NodeFunction) -> NodeFunction:
    return lambda *values: evaluate(*[plain(value) for value in values])


def _add(left: Any, right: Any) -> Any:
    """The sum of two gradients, of which either may be undefined, as may be their elements if they are lists."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, list):
        return [_add(a, b) for a, b in zip(left, right, strict=True)]
    if isinstance(left, TapeValue) or isinstance(right, TapeValue):
        return left + right
    return OPS.named("aten::add.Tensor").evaluate(left, right)


def _number(kind: str, value: Any) -> Any:
    """A tensor where a number is wanted; refused where its gradient would be lost."""
    kind = f"{kind}.constant" if isinstance(value, TapeValue) and value._requires_grad else kind
    return OPS.named(kind).evaluate(plain(value))


def _view(value: Any) -> Any:
    """A view that requires a gradient, as its base does, which is not recorded."""
    if isinstance(value, list):
        return [*map(_view, value)]
    if not isinstance(value, TapeValue):
        return value
    view = without_past(plain(value))
    view._requires_grad = True
    return view


_VIEWS = ("aten::_unrecorded_view", "aten::_unrecorded_views")
_OWN: dict[str, Callable[..., Any]] = {
    "prim::AutogradAdd": _add,
    "prim::requires_grad": lambda value: isinstance(value, TapeValue),
    **dict.fromkeys(_VIEWS, _view),
    "aten::FloatImplicit": lambda value: _number("aten::FloatImplicit", value),
    "aten::ScalarImplicit": lambda value: _number("aten::ScalarImplicit", value),
}
"""Nodes that are evaluated on Variables themselves."""


# --- what kind of node it is ---


def _is_recorded(node: Node) -> bool:
    """Whether a gradient may flow through a node that computes something."""
    if OPS.has(node.schema, _WITHOUT_DERIVATIVE):
        return False
    flows_in = any(_may_hold_variable(value.type) for value in node.inputs)
    return flows_in and any(is_differentiable(value.type) for value in node.outputs)


def _moves(node: Node) -> bool:
    """Whether a node only moves values about: structure, or an op on lists whatever their elements are."""
    op = OPS.of(node.schema)
    if op is None:
        return node.kind in _MOVES
    return _is_generic(op) and not op.has(_WITHOUT_DERIVATIVE)


def _is_generic(op: Op) -> bool:
    return any(_holds_any(result.type) for result in op.schema.returns)


def _holds_any(type: Type) -> bool:
    """Whether a type variable is in it. Types of schemas are shallow, so this recurses."""
    return isinstance(type, VariableType) or (isinstance(type, ListType) and _holds_any(type.element))


def _may_hold_variable(type: Type) -> bool:
    """Whether a value may be, or have in it, a tensor that needs a gradient. Types are shallow, so this recurses."""
    if isinstance(type, TupleType):
        return any(_may_hold_variable(element) for element in type.elements)
    if isinstance(type, OptionalType | ListType):
        return _may_hold_variable(type.element)
    return is_differentiable(type)


# --- one node as a graph ---


def node_graph(node: Node, graph: Graph) -> tuple[Graph, list[int]]:
    """A node as a graph of its own, with its constants inside; which of its operands are the inputs."""
    callee = graph.functions.get(node.attrs.get("callee", ""))
    title = graph.title if callee is None else callee.graph.title
    single = Graph(node.kind, graph.functions, node.span, title)
    env: dict[Value, Value] = {}
    sources: list[int] = []
    for index, value in enumerate(node.inputs):
        if value in env:
            continue
        if value.node.kind in CONSTANTS:
            copy_node(value.node, env, single.body.append)
        else:
            env[value] = single.body.add_input(_without_promise(value.type), value.name_hint)
            sources.append(index)
    single.body.ret.replace_inputs(copy_node(node, env, single.body.append).outputs)
    return single, sources


def _without_promise(type: Type) -> Type:
    """A type that leaves open whether a gradient is needed: the same program serves plans of any spec."""
    if isinstance(type, TensorType):
        return replace(type, requires_grad=None)
    if isinstance(type, OptionalType):
        return OptionalType(_without_promise(type.element))
    return type

"""A function in which what its source calls a constant stays what it was: detached values, and those under `no_grad`.

Differentiation takes them for constants; a finite difference that let them move would measure something else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Any

from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node, Value
from ...compiler.link import reachable
from ...runtime.plans.build import PlanBuilder, PlanCache
from ...runtime.plans.interpreter import run_plan
from ...runtime.plans.operations import NodeFunction

CONSTANTS = frozenset(
    (
        *(
            "aten::detach",
            "gs::constant",
            "gs::constant.optional",
            "aten::_without_gradient",
            "aten::_unrecorded_view",
            "aten::_unrecorded_views",
        ),
        "aten::_given_or_detached",
    )
)
REPLACED = "aten::_replaced"
"""What is written through a detached view: it has the value of what is written, and moves with what it replaces."""


class HoldingTape:
    """What constants were in one run, and how often each has come up in this one."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Node, int], tuple[Any, Any]] = {}
        """By node, and how often it had run, what it gave and what it was given."""
        self._rounds: dict[Node, int] = {}

    def rewind(self) -> None:
        self._rounds.clear()

    def evaluation(self, node: Node, evaluate: NodeFunction) -> NodeFunction:
        """What evaluates a node the first time, and gives after `rewind` what it gave then."""
        moves = node.kind == REPLACED

        def held(*operands: Any) -> Any:
            number = self._rounds[node] = self._rounds.get(node, -1) + 1
            if (node, number) not in self._kept:
                self._kept[node, number] = (evaluate(*operands), operands[0])
            was, before = self._kept[node, number]
            return was + (operands[0] - before) if moves else was

        return held


class HoldingPlanBuilder(PlanBuilder):
    """Builds the plan of a graph in which constants are held by a tape; `nodes` are those of the graph itself."""

    writes = False

    def __init__(self, graph: Graph, callees: PlanCache, tape: HoldingTape, nodes: Collection[Node] | None) -> None:
        PlanBuilder.__init__(self, graph, callees)
        self._tape = tape
        self._held = nodes

    def _evaluation(self, node: Node) -> tuple[NodeFunction, Sequence[int]]:
        evaluate, taken = PlanBuilder._evaluation(self, node)
        if not _is_constant(node) or (self._held is not None and node not in self._held):
            return evaluate, taken
        return self._tape.evaluation(node, evaluate), taken


class Constants:
    """What a graph, or what it calls, says that it is a constant, where some of its results depend on it."""

    def __init__(self, graph: Graph, results: Sequence[Value]) -> None:
        self._graph = graph
        self._nodes = frozenset(_constants(results, graph))

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def held(self, values: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
        """The graph on other arguments, its constants what they are on these."""
        tape = HoldingTape()
        callees = PlanCache(lambda graph, kept: HoldingPlanBuilder(graph.without_closure(), kept, tape, None).build())
        plan = HoldingPlanBuilder(self._graph, callees, tape, self._nodes).build()

        def run(others: Sequence[Any]) -> list[Any]:
            tape.rewind()
            return list(run_plan(plan, others))

        run(values)
        return run


def _is_constant(node: Node) -> bool:
    return node.kind in CONSTANTS or node.kind == REPLACED


def _constants(results: Sequence[Value], graph: Graph) -> Iterator[Node]:
    """The constants that results depend on: nodes of the graph, and calls of what holds some."""
    pending, seen = list(results), set(results)
    while pending:
        node = pending.pop().node
        if _is_constant(node) or (node.kind == "prim::CallFunction" and _calls_constants(graph, node)):
            yield node
        inside = [inner for block in node.blocks for inner in (*block.nodes, block.ret)]
        following = [v for made in (node, *inside) for v in (*made.inputs, *(made.outputs if made is not node else ()))]
        pending += [v for v in following if v not in seen]
        seen.update(following)


def _calls_constants(graph: Graph, node: Node) -> bool:
    name = node.attr("callee")
    called = (callee.graph.without_closure() for callee in reachable(graph.functions[name], name))
    return any(map(_is_constant, chain.from_iterable(g.all_nodes() for g in called)))

"""Plans of which parts can be differentiated: each prim::DifferentiableGraph, ready to run and to be differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...compiler.autodiff import subgraphs
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node
from ..plans.build import PlanBuilder, PlanCache
from ..plans.operations import NodeFunction
from ..plans.plan import ExecutionPlan
from .differentiated import CompiledGraph


class DifferentiableGroup(CompiledGraph):
    """What a plan runs for a group, and what a tape makes a node of.

    It is differentiated only for inputs that may need a gradient, as the types say, so what it does not need of the
    backward is not there: the product that would give the gradient of a constant weight, for one.
    """

    @cached_property
    def requires_grad(self) -> tuple[bool, ...]:
        """Per input whether a gradient may be asked for: the key of the gradient that is."""
        return tuple(subgraphs.gradients_wanted(self.graph))

    def __call__(self, *values: Any) -> Any:
        """The results: one as it is, several as a sequence."""
        results = self.run(values)
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        return f"<DifferentiableGroup of {sum(1 for _ in self.graph.nodes)} nodes>"


class GroupPlanner(PlanBuilder):
    """Builds the plan of a graph with groups in it."""

    def _evaluation(self, node: Node) -> tuple[NodeFunction, Sequence[int]]:
        if node.kind != subgraphs.KIND:
            return super()._evaluation(node)
        graph = subgraphs.subgraph(node, self._graph)
        return DifferentiableGroup(graph, self._graph.title, callees=self._callees), range(len(node.inputs))


def plan_with_groups(graph: Graph, callees: PlanCache | None = None) -> ExecutionPlan:
    """As `build_plan`, for a graph that may have been sliced; functions that it calls have not been."""
    return GroupPlanner(graph.without_closure(), PlanCache() if callees is None else callees).build()

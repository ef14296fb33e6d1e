"""Plans of which parts can be differentiated: each prim::DifferentiableGraph, ready to run and to be differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...compiler.autodiff import Gradient, differentiate, subgraphs
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node
from ..plans.build import PlanCache, Planner, build_plan
from ..plans.interpreter import run_plan
from ..plans.operations import Evaluate
from ..plans.plan import ExecutionPlan
from .linearized import Linearized


class DifferentiableGroup:
    """What a plan runs for a group, and what a tape makes a node of.

    `gradient` is made when first asked for. It differentiates only for inputs that may need a gradient, as the types
    say, so what it does not need of the backward is not there: the product that would give the gradient of a
    constant weight, for one.
    """

    def __init__(self, graph: Graph, callees: PlanCache) -> None:
        self.graph = graph
        self._callees = callees

    @cached_property
    def requires_grad(self) -> list[bool]:
        """Per input whether a gradient may be asked for."""
        return subgraphs.requires_grad(self.graph)

    @cached_property
    def gradient(self) -> Gradient:
        """f and df, of which df may itself be differentiated."""
        return differentiate(self.graph, self.requires_grad)

    @cached_property
    def linearized(self) -> Linearized:
        """The two as plans: `run` gives outputs and residuals, `pull_back` takes them."""
        return Linearized(self.gradient)

    @cached_property
    def plan(self) -> ExecutionPlan:
        """The group without its backward."""
        return build_plan(self.graph, self._callees)

    def __call__(self, *values: Any) -> Any:
        """The results: one as it is, several as a sequence."""
        results: Sequence[Any] = run_plan(self.plan, values)
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        return f"<DifferentiableGroup of {sum(1 for _ in self.graph.nodes)} nodes>"


class GroupPlanner(Planner):
    """Builds the plan of a graph with groups in it."""

    def _evaluation(self, node: Node) -> tuple[Evaluate, Sequence[int]]:
        if node.kind != subgraphs.KIND:
            return super()._evaluation(node)
        return DifferentiableGroup(subgraphs.subgraph(node, self._graph), self._callees), range(len(node.inputs))


def plan_with_groups(graph: Graph, callees: PlanCache | None = None) -> ExecutionPlan:
    """As `build_plan`, for a graph that may have been sliced; functions that it calls have not been."""
    return GroupPlanner(graph.without_closure(), PlanCache() if callees is None else callees).build()

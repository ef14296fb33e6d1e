"""Plans with fusion groups in them: control flow, lists and numbers by the ordinary loop, each group by kernels.

prim::FusionGroup   ─ group(graph) ─▶   what runs it: it plans kernels for the layouts that it meets, and keeps them
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ...compiler.fusion.groups import KIND, group_graph
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node
from ..plans.build import PlanBuilder, PlanCache
from ..plans.operations import NodeFunction
from ..plans.plan import ExecutionPlan
from .failure import KernelFailure

MAX_PROGRAMS = 128
"""Of one graph; beyond, the one planned first is dropped."""
MAX_SHAPES = 16
"""Programs of a group; what else it meets runs op by op, for shapes that change round by round would be planned anew in
each."""
TOO_MANY_SHAPES = f"it has met more than {MAX_SHAPES} shapes, and those of before have kernels"
GroupRunner = Callable[[Graph], Callable[[Sequence[Any]], list[Any]]]
"""What makes of a group's graph what gives its results, for one value per input."""


def make_room(programs: dict[Hashable, Any], refusals: dict[Hashable, Any]) -> None:
    """Drop the program planned first, and why there is none where that is so, where a graph has as many as it may."""
    if len(programs) >= MAX_PROGRAMS:
        first = next(iter(programs))
        del programs[first]
        refusals.pop(first, None)


class FusionPlanner(PlanBuilder):
    """Builds the plan of a graph with fusion groups in it."""

    passing: tuple[type[Exception], ...] = (KernelFailure,)

    def __init__(self, graph: Graph, callees: PlanCache, group: GroupRunner) -> None:
        super().__init__(graph, callees)
        self._group = group

    def _evaluation(self, node: Node) -> tuple[NodeFunction, Sequence[int]]:
        if node.kind != KIND:
            return super()._evaluation(node)
        return GroupCall(self._group(group_graph(node, self._graph)), len(node.outputs)), range(len(node.inputs))


def plan_with_kernels(graph: Graph, group: GroupRunner) -> ExecutionPlan:
    """The plan of what `fuse_groups` gives; `group` makes what runs each."""
    return FusionPlanner(graph, PlanCache(), group).build()


class GroupCall:
    """A group called with operands one by one; a single result comes as it is."""

    __slots__ = ("_count", "run")

    def __init__(self, run: Callable[[Sequence[Any]], list[Any]], count: int) -> None:
        self.run = run
        self._count = count

    def __call__(self, *values: Any) -> Any:
        """What it gives."""
        return self.spread(self.run(values))

    def spread(self, results: list[Any]) -> Any:
        """Results as a plan takes them."""
        return results[0] if self._count == 1 else results

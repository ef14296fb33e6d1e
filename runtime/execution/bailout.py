"""Plans that leave each other: a special one, behind whose points something is taken for granted, for the general one.

    special plan                               general plan
      0 GENERAL   3 ← masked_select(0, 1)        0 GENERAL   2 ← masked_select(0, 1)
      1 BAIL      2 ← prim::BailOut(3, 0, 3) ─▶  1 GENERAL   …  (registers 0 and 2 hold what lived on)
      2 …

The general plan is that of the graph which the special one was made of. What lives on behind a point of it is taken
over into its registers, and its loop goes on behind the point: inside a branch or a round of a loop too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...compiler.analysis.points import Points
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node
from ...compiler.ops.meta import Meta
from ...compiler.specialize.assume import BAIL_OUT, Seen, may_be_assumed
from ...compiler.types.dtypes import BY_CODE
from ..plans.build import PlanBuilder, PlanCache
from ..plans.operations import NodeFunction, own_copy
from ..plans.plan import BAIL, ExecutionPlan, Gather, Registers, SlotNumbers, gather, without

Entrance = tuple[int, SlotNumbers, tuple[bool, ...]]
"""The address behind a point, the registers of what lives on there, and which of that the plan writes into."""
Entrances = Mapping[int, Entrance]
"""By point."""
SeeValue = Callable[[int, Any], None]
"""Is told what a point gave."""


def seen_in(value: Any) -> Seen | None:
    """What of a value may be taken for granted the next time; None for what is not worth it."""
    if isinstance(value, np.ndarray):
        return Meta.of(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return value if type(value) is int else None


class BailoutExit:
    """The function of a BAIL: what is taken for granted of a value, and how a run leaves where it does not hold."""

    __slots__ = ("_address", "_gather", "_left", "_owned", "_plan", "_seen", "_slots")

    def __init__(
        self, seen: Seen, live: Gather, plan: ExecutionPlan, entrance: Entrance, left: Callable[[], None]
    ) -> None:
        self._seen = seen
        self._gather = live
        self._plan = plan
        self._address, self._slots, self._owned = entrance
        self._left = left

    def holds(self, value: Any) -> bool:
        """Whether the value is what is taken for granted: True is not 1."""
        found = seen_in(value)
        return type(found) is type(self._seen) and found == self._seen

    def leave(self, registers: Registers) -> tuple[ExecutionPlan, Registers, int]:
        """Where to go on: the plan, its registers, and the address. `registers` are used up."""
        entered: Registers = [*[None] * self._plan.input_count, *self._plan.template]
        for slot, owned, value in zip(self._slots, self._owned, self._gather(registers), strict=True):
            entered[slot] = own_copy(value) if owned else value
        registers.clear()
        self._left()
        return self._plan, entered, self._address


def observing_plan(graph: Graph, callees: PlanCache, observe: SeeValue) -> ExecutionPlan:
    """The plan of a graph that tells what its points give."""
    return _ObservingPlanner(graph, callees, observe).build()


def enterable_plan(graph: Graph, callees: PlanCache, points: Iterable[int]) -> tuple[ExecutionPlan, Entrances]:
    """The plan of a graph, and where a run enters it behind points."""
    planner = _EnterablePlanner(graph, callees, points)
    return planner.build(), planner.entrances


def special_plan(graph: Graph, general: Graph, callees: PlanCache, left: Callable[[int], None]) -> ExecutionPlan:
    """The plan of a graph with prim::BailOut in it, made of `general`, which it leaves for. `left` is told where."""
    points = {node.attr("point") for node in graph.all_nodes() if node.kind == BAIL_OUT}
    if not points:
        return PlanBuilder(graph, callees).build()
    plan, entrances = enterable_plan(general, callees, points)
    return _SpecialPlanner(graph, callees, plan, entrances, left).build()


class _ObservingPlanner(PlanBuilder):
    def __init__(self, graph: Graph, callees: PlanCache, observe: SeeValue) -> None:
        super().__init__(graph, callees)
        self._observe = observe
        values = Points(graph).values
        self._numbers = {value: point for point, value in enumerate(values) if may_be_assumed(value)}

    def _evaluation(self, node: Node) -> tuple[NodeFunction, Sequence[int]]:
        evaluate, taken = super()._evaluation(node)
        numbers = [self._numbers.get(value) for value in node.outputs]
        if all(number is None for number in numbers):
            return evaluate, taken
        observe = self._observe

        def observed(*operands: Any) -> Any:
            results = evaluate(*operands)
            for number, result in zip(numbers, [results] if len(numbers) == 1 else results, strict=True):
                if number is not None:
                    observe(number, result)
            return results

        return observed, taken


class _EnterablePlanner(PlanBuilder):
    descends = False

    def __init__(self, graph: Graph, callees: PlanCache, points: Iterable[int]) -> None:
        super().__init__(graph, callees)
        self.entrances: dict[int, Entrance] = {}
        self._points = Points(graph)
        self._wanted: dict[Node, list[int]] = {}
        for point in points:
            self._wanted.setdefault(self._points.values[point].node, []).append(point)

    def _operation(self, node: Node) -> None:
        super()._operation(node)
        for point in self._wanted.get(node, ()):
            live = self._points.live_behind(point)
            owned = tuple([value in self._own.owned for value in live])
            self.entrances[point] = self._next_address(), self._slots_of(live), owned


class _SpecialPlanner(PlanBuilder):
    def __init__(
        self,
        graph: Graph,
        callees: PlanCache,
        general: ExecutionPlan,
        entrances: Entrances,
        left: Callable[[int], None],
    ) -> None:
        super().__init__(graph, callees)
        self._general = general
        self._entrances = entrances
        self._left = left

    def _operation(self, node: Node) -> None:
        if node.kind != BAIL_OUT:
            super()._operation(node)
            return
        inputs, released, targets, unused = self._registers_of(node)
        dead = without(released, targets) + unused
        self._emit(BAIL, self._exit(node, inputs), targets[0], inputs[0], None, dead, inputs)

    def _exit(self, node: Node, inputs: SlotNumbers) -> BailoutExit:
        point = node.attr("point")
        return BailoutExit(
            _told(node), gather(inputs[1:]), self._general, self._entrances[point], lambda: self._left(point)
        )


def _told(node: Node) -> Seen:
    """What a prim::BailOut takes for granted."""
    if "value" in node.attrs:
        value: int | bool = node.attr("value")
        return value
    return Meta(tuple(node.attr("shape")), BY_CODE[node.attr("dtype")])

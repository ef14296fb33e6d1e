"""Points: the values that the nodes of a graph give, by number, and what lives on behind each.

    graph f(%x : Tensor, %m : Tensor):
      %y : Tensor = aten::masked_select(%x, %m)       point 0: %x and %y live on
      %1 : Tensor = aten::sum(%y)                     point 1: %x and %1
      %2 : Tensor = aten::mul.Tensor(%x, %1)
      return (%2)

A run that stands behind a point can go on from there with nothing but what lives on. Copies of a graph have the same
points, in the same order, and the same lives on behind them.
"""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.kinds import is_loop, own_parameters
from ..ir.node import Block, Node, Value
from ..ir.rewrite import program_order
from .liveness import CONSTANTS, analyse


class Points:
    """The points of a graph as it is now."""

    def __init__(self, graph: Graph) -> None:
        self.values = [value for node in graph.all_nodes() for value in node.outputs]
        self._order = {node: place for place, node in enumerate(program_order(graph))}
        self._liveness = analyse(graph)

    def live_behind(self, point: int) -> list[Value]:
        """What is used behind the node that gives a value, in program order of what makes it; no constants.

        Of the loops around it, what ends them and their indices are among these.
        """
        at = self.values[point].node
        found = {value for value in at.outputs if self._is_used(value)}
        while at.owner is not None:
            found |= self._used_behind(at, at.owner)
            around = at.owner.node
            if around is None:
                break
            if is_loop(around):
                found |= self._used_in_rounds(around, at.owner)
            at = around
        return sorted(found, key=self._place)

    def _used_behind(self, node: Node, block: Block) -> set[Value]:
        """What stands in front of a node, and is used behind it in its block."""
        place = self._order[node]
        uses = self._liveness.last.get(block, {})
        return {v for v, user in uses.items() if self._order[user] > place and self._is_there(v, block, place)}

    def _is_there(self, value: Value, block: Block, place: int) -> bool:
        """Whether a value that is used in a block is there when a node of it runs."""
        return value.node.owner is not block or self._order[value.node] < place

    def _is_used(self, value: Value) -> bool:
        return value.node.owner is not None and self._liveness.used_in(value.node.owner, value)

    def _used_in_rounds(self, loop: Node, body: Block) -> set[Value]:
        """What the rounds to come use of what stands around the loop, and what counts them."""
        uses = self._liveness.last.get(body, {})
        found = {value for value in uses if value.node.owner is not body}
        found.update(own_parameters(body))
        trips = self._liveness.resolve(loop.inputs[0])
        return found if trips.node.kind in CONSTANTS else found | {trips}

    def _place(self, value: Value) -> tuple[int, int]:
        return self._order[value.node], value.index

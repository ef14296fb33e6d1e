"""Use what a round starts with for the last time before what the next one starts with is made.

Before:
    graph f(%x : Tensor, %n : int):
      %always : bool = prim::Constant[value=True]()
      %empty : List[Tensor] = prim::ListConstruct()
      %y : Tensor, %ys : List[Tensor] = prim::Loop(%n, %always, %x, %empty)
        block(%i : int, %h : Tensor, %list : List[Tensor]):
          %1 : Tensor = aten::tanh(%h)
          %2 : List[Tensor] = aten::append.t(%list, %h)
          return (%always, %1, %2)
      return (%y, %ys)
After:
    graph f(%x : Tensor, %n : int):
      %always : bool = prim::Constant[value=True]()
      %empty : List[Tensor] = prim::ListConstruct()
      %y : Tensor, %ys : List[Tensor] = prim::Loop(%n, %always, %x, %empty)
        block(%i : int, %h : Tensor, %list : List[Tensor]):
          %1 : List[Tensor] = aten::append.t(%list, %h)
          %2 : Tensor = aten::tanh(%h)
          return (%always, %2, %1)
      return (%y, %ys)

Where a round's value is dead when the next one's is made, both share a register, and nothing is moved at the end.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.kinds import Carried, carried
from ...ir.node import RETURN, Block, Node
from ...ops.registry import OPS, Trait

MAX_MOVED = 8
"""Nodes that move in front of one that makes what the next round starts with."""


def end_rounds_early(graph: Graph) -> bool:
    """Move the last uses of what loops carry in front of what replaces it, where nothing hangs on the order."""
    changed = False
    for loop in [node for node in graph.all_nodes() if node.kind == "prim::Loop"]:
        (body,) = loop.blocks
        order = _order(body)
        for place in carried(loop):
            moved = _late(place, order)
            for node in moved:
                node.unlink().insert_before(place.result.node)
            if moved:
                changed = True
                order = _order(body)
    return changed


def _order(body: Block) -> dict[Node, int]:
    return {node: index for index, node in enumerate(body.nodes)}


def _late(place: Carried, order: dict[Node, int]) -> list[Node]:
    """What of a round's body is to stand in front of the node that makes a result; nothing where something hinders."""
    made = place.result.node
    users = {use.user for use in place.parameter.uses}
    if made not in order or made.blocks or any(user not in order or user.kind == RETURN for user in users):
        return []
    found: set[Node] = set()
    waiting = [user for user in users if order[user] > order[made]]
    while waiting:
        node = waiting.pop()
        if node is made or not _may_move(node) or len(found) == MAX_MOVED:
            return []
        if node not in found:
            found.add(node)
            waiting += [v.node for v in node.inputs if order.get(v.node, -1) >= order[made]]
    return sorted(found, key=order.__getitem__)


def _may_move(node: Node) -> bool:
    """Whether a node of an op only computes."""
    op = OPS.of(node.schema)
    return op is not None and not op.has(Trait.RANDOM | Trait.SIDE_EFFECT)

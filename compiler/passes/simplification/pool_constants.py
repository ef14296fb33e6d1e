"""One constant of each kind, at the top.

Before:
    graph f(%x : Tensor, %c : bool):
      %y : int = prim::If(%c)
        block():
          %1 : int = prim::Constant[value=1]()
          return (%1)
        block():
          %2 : int = prim::Constant[value=1]()
          return (%2)
      return (%y)
After:
    graph f(%x : Tensor, %c : bool):
      %1 : int = prim::Constant[value=1]()
      %y : int = prim::If(%c)
        block():
          return (%1)
        block():
          return (%1)
      return (%y)

A prim::Function keeps constants of its own, so that they do not become captures, and so does a
prim::DifferentiableGraph, which stands for itself.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.kinds import KindTrait, has
from ...ir.node import Block, Node
from ...ir.printer import constant_text
from ...ir.rewrite import CONSTANT
from ...types.types import Type

_Key = tuple[str, Type]


class _Pool:
    """The constants at the head of one function's block."""

    def __init__(self, block: Block) -> None:
        self._last = block.param
        self._nodes: dict[_Key, Node] = {}

    def take(self, node: Node) -> bool:
        """Move a constant here, or replace it by its equal; False if it stood in its place already."""
        key = (constant_text(node.attr("value")), node.output.type)
        equal = self._nodes.get(key)
        if equal is not None:
            equal.output.name_hint = equal.output.name_hint or node.output.name_hint
            node.output.replace_uses_with(equal.output)
            node.destroy()
            return True
        moved = self._last.next is not node
        if moved:
            node.unlink().insert_after(self._last)
        self._last = self._nodes[key] = node
        return moved


def pool_constants(graph: Graph) -> bool:
    """Merge equal constants and gather them at the head of the graph and of each closure."""
    changed = False
    pools = {graph.body: _Pool(graph.body)}
    for node in graph.all_nodes():
        assert node.owner is not None
        pool = pools[node.owner]
        for block in node.blocks:
            pools[block] = _Pool(block) if has(node, KindTrait.CLOSED) else pool
        if node.kind == CONSTANT:
            changed |= pool.take(node)
    return changed

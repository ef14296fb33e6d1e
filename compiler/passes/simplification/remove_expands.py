"""Remove expansions that tracing or the emitter put in where an op broadcasts by itself.

Before:
    graph f(%x : Tensor, %y : Tensor):
      %size : List[int] = aten::size(%y)
      %implicit : bool = prim::Constant[value=True]()
      %1 : Tensor = aten::expand(%x, %size, %implicit)
      %2 : Tensor = aten::mul.Tensor(%1, %y)
      return (%2)
After, dead nodes aside:
    graph f(%x : Tensor, %y : Tensor):
      %1 : Tensor = aten::mul.Tensor(%x, %y)
      return (%1)

An expansion that the source asked for has `implicit=False`, and stays. Sizes that were right for one run need not be
right for the next, and a kernel that broadcasts needs no copy.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.node import Node
from ...ir.rewrite import constant_of, replace_node, rewrite_nodes


def remove_expands(graph: Graph) -> bool:
    """Replace each implicit aten::expand by what it expands."""
    return rewrite_nodes(graph, _remove)


def _remove(node: Node) -> Node | None:
    if node.kind == "aten::expand" and constant_of(node.inputs[2]) is True:
        return replace_node(node, [node.inputs[0]])
    return None

"""Remove sums that undo a broadcast which did not take place.

Before:
    graph f(%g : Tensor, %x : Tensor, %w : Tensor):
      %y : Tensor = aten::mul.Tensor(%x, %w)
      %z : Tensor = aten::mul.Tensor(%y, %x)
      %1 : List[int] = aten::size(%z)
      %no : bool = prim::Constant[value=False]()
      %2 : Tensor = aten::expand(%g, %1, %no)
      %3 : Tensor = aten::mul.Tensor(%2, %x)
      %4 : List[int] = aten::size(%y)
      %5 : Tensor = aten::sum_to_size(%3, %4)
      return (%5)
After, dead nodes aside:
    graph f(%g : Tensor, %x : Tensor, %w : Tensor):
      %y : Tensor = aten::mul.Tensor(%x, %w)
      %z : Tensor = aten::mul.Tensor(%y, %x)
      %1 : List[int] = aten::size(%z)
      %no : bool = prim::Constant[value=False]()
      %2 : Tensor = aten::expand(%g, %1, %no)
      %3 : Tensor = aten::mul.Tensor(%2, %x)
      return (%3)

No sizes are known, but where they come from is (`analysis.same_shapes`): here z, y, and what is summed all have the
shape of x and w broadcast together.
"""

from __future__ import annotations

from ...analysis.same_shapes import SameShapes
from ...ir.graph import Graph
from ...ir.rewrite import CONSTANT, replace_node

_SUMS = ("aten::sum_to_size", "aten::_grad_sum_to_size")


def simplify_broadcasts(graph: Graph) -> bool:
    """Replace each sum to the size of a tensor of the same shape by what is summed."""
    # Whose sizes a constant has is not said: once shapes are settled there is nothing to ask.
    sums = [node for node in graph.all_nodes() if node.kind in _SUMS and node.inputs[1].node.kind != CONSTANT]
    if not sums:
        return False
    shapes = SameShapes(graph)
    shapes.solve()
    undone = [node for node in sums if shapes.asked_for(node.inputs[1]) == shapes.of(node.inputs[0])]
    for node in undone:
        replace_node(node, [node.inputs[0]])
    return bool(undone)

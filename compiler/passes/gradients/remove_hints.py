"""Remove what stands in a graph for the sake of its backward or of the check alone, once that has been decided.

Before:
    graph f(%x : Tensor):
      %y : Tensor = gs::save(%x)
      %z : Tensor = gs::constant(%x)
      %w : Tensor = aten::mul.Tensor(%y, %z)
      return (%w)
After:
    graph f(%x : Tensor):
      %z : Tensor = aten::detach(%x)
      %w : Tensor = aten::mul.Tensor(%x, %z)
      return (%w)
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.rewrite import replace_node

_HINTS = {
    **dict.fromkeys(("gs::save", "gs::recompute", "gs::surrogate", "gs::constant", "gs::constant.optional"), 0),
    "aten::_overwritten": 1,
}
"""Which operand each of them is."""
_DETACHED = {"gs::constant": "aten::detach", "gs::constant.optional": "aten::_without_gradient"}


def remove_hints(graph: Graph) -> bool:
    """Put the value itself in the place of each hint at it, of a constant detached, and of what it is written over."""
    hints = [node for node in graph.all_nodes() if node.kind in _HINTS]
    for node in hints:
        given = node.inputs[_HINTS[node.kind]]
        if node.kind in _DETACHED:
            given = Builder(graph, before=node, span=node.span).op(_DETACHED[node.kind], given)
        replace_node(node, [given])
    return bool(hints)

"""Remove what stands in a graph for the sake of its backward alone, once that has been decided.

Before:
    graph f(%x : Tensor):
      %y : Tensor = gs::save(%x)
      %z : Tensor = aten::tanh(%y)
      return (%z)
After:
    graph f(%x : Tensor):
      %z : Tensor = aten::tanh(%x)
      return (%z)
"""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.rewrite import replace_node

_HINTS = {"gs::save": 0, "gs::recompute": 0, "aten::_overwritten": 1}
"""Which operand each of them is."""


def remove_hints(graph: Graph) -> bool:
    """Put the value itself in the place of each gs::save and gs::recompute of it, and of what it is written over."""
    hints = [node for node in graph.all_nodes() if node.kind in _HINTS]
    for node in hints:
        replace_node(node, [node.inputs[_HINTS[node.kind]]])
    return bool(hints)

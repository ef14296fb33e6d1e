"""Remove what the source says of keeping values for a backward, once that has been decided.

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

_HINTS = frozenset({"gs::save", "gs::recompute"})


def remove_hints(graph: Graph) -> bool:
    """Put the value itself in the place of each gs::save and gs::recompute of it."""
    hints = [node for node in graph.all_nodes() if node.kind in _HINTS]
    for node in hints:
        replace_node(node, node.inputs)
    return bool(hints)

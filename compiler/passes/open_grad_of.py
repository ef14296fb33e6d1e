"""Put the content of every prim::GradOf in its place, whether its gradients are there or not.

Before:
    graph backward(%g : Tensor, %y : Tensor):
      %1 : Tensor = prim::GradOf[name="aten::mul.Tensor"](%g)
        block():
          %2 : Tensor = aten::mul.Tensor(%g, %y)
          return (%2)
      return (%1)
After:
    graph backward(%g : Tensor, %y : Tensor):
      %1 : Tensor = aten::mul.Tensor(%g, %y)
      return (%1)

For a backward that is to be differentiated: whether a gradient is there is known only when it runs, and what is
differentiated is the way that it takes where it is.
"""

from __future__ import annotations

from ..ir import Graph
from ..rewrite import splice


def open_grad_of(graph: Graph) -> bool:
    """Inline every prim::GradOf."""
    nodes = [node for node in graph.all_nodes() if node.kind == "prim::GradOf"]
    for node in nodes:
        splice(node, node.blocks[0])
    return bool(nodes)

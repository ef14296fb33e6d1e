"""Put the content of a prim::GradOf in its place where its gradients are known to be there.

Before:
    graph backward(%g : Tensor[float32], %y : Tensor):
      %1 : Tensor = prim::GradOf[name="aten::mul.Tensor"](%g)
        block():
          %2 : Tensor = aten::mul.Tensor(%g, %y)
          return (%2)
      return (%1)
After:
    graph backward(%g : Tensor[float32], %y : Tensor):
      %1 : Tensor = aten::mul.Tensor(%g, %y)
      return (%1)

A node whose gradients may be undefined stays: it decides when it runs.
"""

from __future__ import annotations

from ...analysis.definedness import Definedness, State, given_to, post_order
from ...ir.graph import Graph
from ...ir.rewrite import splice


def lower_grad_of(graph: Graph) -> bool:
    """Inline each prim::GradOf one of whose inputs is known to be defined."""
    if not any(node.kind == "prim::GradOf" for node in graph.all_nodes()):
        return False
    states = Definedness(graph)
    changed = False
    for node in post_order(graph):
        if node.kind == "prim::GradOf" and given_to(node, states.__getitem__) is State.NONZERO:
            splice(node, node.blocks[0])
            changed = True
        else:
            states.visit(node)
    return changed

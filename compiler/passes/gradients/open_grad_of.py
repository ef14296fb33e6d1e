"""Make every prim::GradOf a branch on whether one of its gradients is there.

Before:
    graph backward(%g : Tensor, %y : Tensor):
      %1 : Tensor = prim::GradOf[name="aten::mul.Tensor"](%g)
        block():
          %2 : Tensor = aten::mul.Tensor(%g, %y)
          return (%2)
      return (%1)
After:
    graph backward(%g : Tensor, %y : Tensor):
      %1 : bool = prim::grad_defined(%g)
      %2 : Tensor = prim::If(%1)
        block():
          %3 : Tensor = aten::mul.Tensor(%g, %y)
          return (%3)
        block():
          %4 : Undefined = prim::AutogradZero()
          return (%4)
      return (%2)

For a backward that is to be differentiated: whether a gradient is there is known only when it runs, and a branch
differentiates as it went.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node
from ...ir.rewrite import replace_node


def open_grad_of(graph: Graph) -> bool:
    """Replace every prim::GradOf."""
    nodes = [node for node in graph.all_nodes() if node.kind == "prim::GradOf"]
    for node in nodes:
        _open(node)
    return bool(nodes)


def _open(node: Node) -> None:
    builder = Builder.in_front_of(node)
    condition = builder.op("prim::grad_defined", node.inputs[0])
    for gradient in node.inputs[1:]:
        condition = builder.op("aten::__or__.bool", condition, builder.op("prim::grad_defined", gradient))
    branch = builder.node("prim::If", [condition], blocks=2)
    then, otherwise = branch.blocks
    (block,) = node.blocks
    results = block.outputs
    for inside in list(block.nodes):
        then.append(inside.unlink())
    then.ret.replace_inputs(results)
    inner = Builder(otherwise, span=node.span)
    inner.returns(*(inner.undefined() for _ in results))
    replace_node(node, [branch.add_output(value.type, value.name_hint) for value in node.outputs])

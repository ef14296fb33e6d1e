"""Put in its place what is computed from lists of gradients of which all are there.

Before:
    graph backward(%grads : List[Tensor[float32]], %y : Tensor, %i : int, %n : int):
      %g : Tensor = aten::__getitem__.t(%grads, %i)
      %1 : Tensor = prim::GradOf[name="aten::mul.Tensor"](%g)
        block():
          %2 : Tensor = aten::mul.Tensor(%g, %y)
          return (%2)
      %total : Tensor = prim::AutogradAdd(%1, %g)
      %taken : List[Tensor] = aten::_set_item.t(%grads, %i, %total)
      %there : bool = prim::grad_defined(%taken)
      return (%taken, %there)
After:
    graph backward(%grads : List[Tensor[float32]], %y : Tensor, %i : int, %n : int):
      %g : Tensor = aten::__getitem__.t(%grads, %i)
      %1 : Tensor = aten::mul.Tensor(%g, %y)
      %2 : int = prim::Constant[value=1]()
      %total : Tensor = aten::add.Tensor(%1, %g, %2)
      %taken : List[Tensor] = aten::_set_item.t(%grads, %i, %total)
      %there : bool = prim::Constant[value=True]()
      return (%taken, %there)

Which are there is what `analysis.present_gradients` says.
"""

from __future__ import annotations

from ...analysis.definedness import post_order
from ...analysis.present_gradients import surely_there
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import SET_ITEM, replace_by_constant, replace_node, splice, with_item_added
from ...types.types import is_tensor


def follow_lists(df: Graph) -> bool:
    """Replace gradients' nodes that are asked of lists that are there, and of what is made of them."""
    there = surely_there(df)
    changed = False
    for node in list(post_order(df)):
        if node.kind == "prim::GradOf" and any(value in there for value in node.inputs):
            splice(node, node.blocks[0])
            changed = True
        elif node.kind == "prim::grad_defined" and node.inputs[0] in there:
            replace_by_constant(node, True)
            changed = True
        elif node.kind == "prim::AutogradAdd":
            total = _sum(node, there)
            changed = changed or total is not None
            if total is not None:
                replace_node(node, [total])
    return changed


def _sum(node: Node, there: set[Value]) -> Value | None:
    """The sum of two gradients that are there, or of such a list and one in which one item is."""
    left, right = node.inputs
    if is_tensor(left.type) or is_tensor(right.type):
        are_there = there.issuperset((left, right))
        return Builder.in_front_of(node).op("aten::add.Tensor", left, right) if are_there else None
    for whole, single in ((left, right), (right, left)):
        if whole in there and _single_item(single) is not None:
            return with_item_added(Builder.in_front_of(node), whole, single)
    return None


def _single_item(value: Value) -> Node | None:
    """What sets the one item that is there of a list of gradients."""
    node = value.node
    is_alone = node.kind == SET_ITEM and node.inputs[0].node.kind == "prim::no_grads" and value.use_count == 1
    return node if is_alone else None

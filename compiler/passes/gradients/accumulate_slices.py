"""Add a gradient of one slice, or of one element of a list, to the sum of the others where it belongs.

Before:
    graph backward(%acc : Tensor, %g : Tensor, %size : List[int], %i : int):
      %1 : int = prim::Constant[value=0]()
      %2 : None = prim::Constant[value=None]()
      %3 : Tensor = aten::new_zeros(%g, %size, %2, %2, %2, %2)
      %4 : Tensor = aten::select_scatter(%3, %g, %1, %i)
      %5 : Tensor = prim::AutogradAdd(%acc, %4)
      return (%5)
After, dead nodes aside:
    graph backward(%acc : Tensor, %g : Tensor, %size : List[int], %i : int):
      %1 : int = prim::Constant[value=0]()
      %2 : Tensor = prim::grad_add_select(%acc, %g, %size, %1, %i)
      return (%2)

The gradient of `xs[i]` is zeros but for one slice. A loop over all of them would add as many whole arrays; so it adds
as many slices, which a plan does in place where nobody else sees the sum (`analysis/ownership`). Lists likewise.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.gradient_parts import part_of, uncover
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import constant_of, replace_node


def accumulate_slices(graph: Graph) -> bool:
    """Replace sums with what is zero but for one slice, or missing but for one element, by sums of that alone."""
    changed = False
    pending = [node for node in graph.all_nodes() if _is_sum(node)]
    while pending:
        node = pending.pop()
        if node.owner is None:
            continue
        if _add_part(node):
            changed = True
            continue
        parted = _added_one_by_one(node)
        changed |= bool(parted)
        pending += parted
    return changed


def _is_sum(node: Node) -> bool:
    if node.kind == "prim::AutogradAdd":
        return True
    alpha = constant_of(node.inputs[2]) if node.kind == "aten::add.Tensor" else None
    return type(alpha) is int and alpha == 1


def _added_one_by_one(node: Node) -> list[Node]:
    """acc + (p + q) as (acc + p) + q, where p or q is a slice: the two new sums; none where it is not so."""
    acc, inner = node.inputs[0], node.inputs[1].node
    if not _is_sum(inner) or inner.owner is not node.owner or inner.output.use_count != 1:
        return []
    if not any(part_of(value) for value in inner.inputs[:2]):
        return []
    builder, type = Builder.in_front_of(node), node.output.type
    # What may be undefined in one of the sums may be so in either of the new ones.
    is_sure = "prim::AutogradAdd" not in (node.kind, inner.kind)

    def plus(left: Value, right: Value) -> Value:
        if not is_sure:
            return builder.node("prim::AutogradAdd", [left, right], [type]).output
        added = builder.op("aten::add.Tensor", left, right, inner.inputs[2])
        added.type = type
        return added

    left, right = inner.inputs[:2]
    first = plus(acc, left)
    total = plus(first, right)
    replace_node(node, [total])
    inner.destroy()
    return [total.node, first.node]


def _add_part(node: Node) -> bool:
    """Whether the second operand of a sum is a part, made for it in the same block, and is now added as one."""
    total, value = node.inputs[:2]
    part = part_of(value) if value.node.owner is node.owner and total is not value else None
    if part is None:
        return False
    uncover(value)
    added = Builder.in_front_of(node).op(part.kind, total, part.gradient, *part.where)
    added.type = node.output.type
    replace_node(node, [added])
    return True

"""Make one matrix product of many small ones: of trees of sums, and of those that share a side.

Before:
    graph f(%a : Tensor, %b : Tensor, %c : Tensor, %d : Tensor):
      %1 : int = prim::Constant[value=1]()
      %2 : Tensor = aten::mm(%a, %b)
      %3 : Tensor = aten::mm(%c, %d)
      %4 : Tensor = aten::add.Tensor(%2, %3, %1)
      %5 : Tensor = aten::mm(%a, %d)
      %6 : Tensor = aten::mm(%c, %b)
      %7 : Tensor = aten::add.Tensor(%5, %6, %1)
      %8 : Tensor = aten::add.Tensor(%4, %7, %1)
      return (%8)
After, dead nodes aside:
    graph f(%a : Tensor, %b : Tensor, %c : Tensor, %d : Tensor):
      %1 : List[Tensor] = prim::ListConstruct(%a, %c, %a, %c)
      %2 : List[Tensor] = prim::ListConstruct(%b, %d, %d, %b)
      %3 : Tensor[rank=2] = prim::mm_tree(%1, %2)
      return (%3)

The sum of products is the product of the joined operands, as in the backward of a recurrent net. Products that share
an operand become one with the others joined, where those are there before the first of them. Whether the shapes allow
it is decided when it runs: the ops fall back to products one by one. A float's rounding may differ in the last places.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Block, Node, Value, walk_blocks
from ..ir.rewrite import constant_of, replace_node

MIN_TREE = 4
"""Sums of fewer products are left alone."""
MAX_TREE = 16
"""So many products become one; of a longer sum several are made, so that what they multiply is not held to its end."""
MIN_SIDE = 8
"""Fewer products with one operand in common are left alone."""
_MM, _ADD = "aten::mm", "aten::add.Tensor"


def batch_matmuls(graph: Graph) -> bool:
    """Replace trees of sums of matrix products, then products that share an operand."""
    changed = False
    for block in [graph.body, *walk_blocks(graph.nodes)]:
        for node in list(block.reversed_nodes):
            if node.owner is block and _is_root(node):
                changed |= _batch_tree(node)
        for side in (0, 1):
            changed |= _batch_sides(block, side)
    return changed


# Trees


def _is_sum(node: Node) -> bool:
    return node.kind == _ADD and constant_of(node.inputs[2]) == 1


def _is_root(node: Node) -> bool:
    """A sum that is not itself part of one in the same block."""
    if not _is_sum(node):
        return False
    uses = node.output.uses
    return len(uses) != 1 or not _is_sum(uses[0].user) or uses[0].user.owner is not node.owner


def _batch_tree(root: Node) -> bool:
    leaves: list[Node] = []
    inner: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.kind not in (_MM, _ADD):
            return False
        if node is not root and (node.owner is not root.owner or node.output.use_count != 1):
            return False
        if _is_sum(node):
            inner.append(node)
            stack += [value.node for value in reversed(node.inputs[:2])]
        elif node.kind == _MM:
            leaves.append(node)
        else:
            return False
    if len(leaves) < MIN_TREE:
        return False
    builder = Builder.in_front_of(root)
    assert root.owner is not None
    order = {node: i for i, node in enumerate(root.owner.nodes)}
    leaves.sort(key=order.__getitem__)
    parts = [_product(leaves[i : i + MAX_TREE]) for i in range(0, len(leaves), MAX_TREE)]
    total = parts[0]
    for part in parts[1:]:
        total = builder.op(_ADD, total, part)
    replace_node(root, [total])
    for node in (*inner[1:], *leaves):
        if not node.outputs[0].use_count:
            node.destroy()
    return True


def _product(leaves: list[Node]) -> Value:
    """One product for several, in order, behind the last of them."""
    last = leaves[-1]
    if len(leaves) == 1:
        return last.output
    assert last.owner is not None
    builder = Builder(last.owner, last.next, last.span)
    left, right = (builder.list([leaf.inputs[side] for leaf in leaves]) for side in (0, 1))
    return builder.op("prim::mm_tree", left, right)


# Sides


def _batch_sides(block: Block, side: int) -> bool:
    """Products of a block with the same operand on one side."""
    order = {node: i for i, node in enumerate(block.nodes)}
    shared: dict[Value, list[Node]] = {}
    for node in order:
        if node.kind == _MM:
            shared.setdefault(node.inputs[side], []).append(node)
    changed = False
    for value, nodes in shared.items():
        # A value of another block, or a parameter, is there from the start.
        batch = [n for n in nodes if order.get(n.inputs[1 - side].node, -1) < order[nodes[0]]]
        if len(batch) >= MIN_SIDE:
            _batch(value, batch, side)
            changed = True
    return changed


def _batch(value: Value, batch: list[Node], side: int) -> None:
    builder = Builder.in_front_of(batch[0])
    others = builder.list([node.inputs[1 - side] for node in batch])
    made = builder.op("prim::mm_shared_right" if side else "prim::mm_shared_left", value, others)
    results = builder.node("prim::ListUnpack", [made], [node.output.type for node in batch]).outputs
    for node, result in zip(batch, results, strict=True):
        replace_node(node, [result])

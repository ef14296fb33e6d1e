"""Compute nothing twice.

Before:
    graph f(%x : Tensor, %y : Tensor):
      %a : Tensor = aten::mul.Tensor(%x, %y)
      %b : Tensor = aten::mul.Tensor(%y, %x)
      %c : Tensor = aten::maximum(%a, %b)
      return (%c)
After:
    graph f(%x : Tensor, %y : Tensor):
      %a : Tensor = aten::mul.Tensor(%x, %y)
      %c : Tensor = aten::maximum(%a, %a)
      return (%c)

A nested block may use what the blocks around it have computed. A prim::Function is an exception: a value from
outside would become one of its captures. So is a prim::DifferentiableGraph, which uses nothing from outside.
"""

from __future__ import annotations

from collections.abc import Hashable

from ...ir.graph import Graph
from ...ir.kinds import KindTrait, has
from ...ir.node import RETURN, Node, Value
from ...ir.printer import constant_text
from ...ir.rewrite import CONSTANT, is_commutative
from ...ir.structure import GRADIENT_OF
from ...ops.registry import OPS, Trait

_PURE = {
    CONSTANT,
    "prim::TupleConstruct",
    "prim::TupleUnpack",
    "prim::TupleIndex",
    "prim::ListConstruct",
    "prim::ListUnpack",
    "prim::AutogradAdd",
    "prim::AutogradZero",
    "prim::MaterializeGrad",
    "prim::unchecked_unwrap_optional",
    "prim::unchecked_cast",
}
"""The structural kinds whose outputs follow from inputs and attributes."""

_Table = dict[Hashable, Node]


def eliminate_common_subexpressions(graph: Graph) -> bool:
    """Replace each pure node by an equal one that stands before it in the same block or around it."""
    changed = False
    numbers: dict[Value, int] = {}
    table: _Table = {}
    # Each entry: the next node to look at, the table, and what the block that it stands in has added to it.
    stack: list[tuple[Node | None, _Table, list[Hashable]]] = [(graph.body.param.next, table, [])]
    while stack:
        node, table, added = stack.pop()
        if node is None or node.kind == RETURN:
            for key in added:
                del table[key]
            continue
        stack.append((node.next, table, added))
        for block in reversed(node.blocks):
            stack.append((block.param.next, {} if has(node, KindTrait.CLOSED) else table, []))
        key = _key(node, numbers)
        earlier = table.get(key) if key is not None else None
        if earlier is not None and not _are_alike(earlier, node):
            key = key, tuple([value.type for value in node.outputs])
            earlier = table.get(key)
        if earlier is not None:
            changed = True
            _replace(node, earlier)
        elif key is not None:
            table[key] = node
            added.append(key)
    return changed


def _replace(node: Node, earlier: Node) -> None:
    for value, same in zip(node.outputs, earlier.outputs, strict=True):
        same.name_hint = same.name_hint or value.name_hint
        value.replace_uses_with(same)
    node.destroy()


def _key(node: Node, numbers: dict[Value, int]) -> Hashable | None:
    """What two equal nodes have in common, beside types; None for a node that is not the same each time it runs."""
    op = OPS.of(node.schema)
    pure = node.kind in _PURE if op is None else not (op.has(Trait.RANDOM) or op.has(Trait.SIDE_EFFECT))
    # An empty list is what a loop's begins with: a new one is its own, where one of several would have to be copied.
    if not pure or (node.kind == "prim::ListConstruct" and not node.inputs):
        return None
    inputs = [numbers.setdefault(value, len(numbers)) for value in node.inputs]
    if len(inputs) > 1 and inputs[0] > inputs[1] and is_commutative(node):
        inputs[:2] = inputs[1::-1]
    attrs: tuple[tuple[str, str], ...] = ()
    if node.attrs:
        attrs = tuple(
            [(name, constant_text(value)) for name, value in sorted(node.attrs.items()) if name != GRADIENT_OF]
        )
    return node.kind, tuple(inputs), attrs


def _are_alike(earlier: Node, node: Node) -> bool:
    """Whether two nodes of one key give values of the same types, as nearly all do."""
    return [value.type for value in earlier.outputs] == [value.type for value in node.outputs]

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

With `keep_results`, two results of a graph stay two, each with memory of its own: a caller may write into one.
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
from ...types.types import ListType, is_tensor

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

_HOLDERS = ("prim::TupleConstruct", "prim::ListConstruct", "prim::unchecked_unwrap_optional", "prim::unchecked_cast")
_ALIASES = Trait.VIEW | Trait.MAY_ALIAS
_Table = dict[Hashable, Node]


def eliminate_common_subexpressions(graph: Graph, *, keep_results: bool = False) -> bool:
    """Replace each pure node by an equal one that stands before it in the same block or around it."""
    changed = False
    given = _given_away(graph) if keep_results else set[Value]()
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
        if earlier is not None and not (_makes_objects(node) and _any_of(node, given) and _any_of(earlier, given)):
            changed = True
            _replace(node, earlier)
        elif key is not None and earlier is None:
            table[key] = node
            added.append(key)
    return changed


def _given_away(graph: Graph) -> set[Value]:
    """What the graph's results are, are views of, or hold, where there are several of them."""
    found = set[Value]()
    open_ = [] if len(graph.outputs) == 1 and is_tensor(graph.outputs[0].type) else [*graph.outputs]
    while open_:
        value = open_.pop()
        if value in found:
            continue
        found.add(value)
        node = value.node
        op = OPS.of(node.schema)
        if op is not None and op.has(_ALIASES):
            open_.append(node.inputs[0])
        elif node.kind in _HOLDERS:
            open_ += node.inputs
        elif node.kind == "prim::If":
            open_ += [block.outputs[node.outputs.index(value)] for block in node.blocks]
    return found


def _makes_objects(node: Node) -> bool:
    """Whether what a node gives is an object of its own, which may be written into."""
    op = OPS.of(node.schema)
    if op is not None and op.has(_ALIASES):
        return False
    return any(is_tensor(value.type) or isinstance(value.type, ListType) for value in node.outputs)


def _any_of(node: Node, values: set[Value]) -> bool:
    return any(value in values for value in node.outputs)


def _replace(node: Node, earlier: Node) -> None:
    for value, same in zip(node.outputs, earlier.outputs, strict=True):
        same.name_hint = same.name_hint or value.name_hint
        value.replace_uses_with(same)
    node.destroy()


def _key(node: Node, numbers: dict[Value, int]) -> Hashable | None:
    """What two equal nodes have in common; None for a node that is not the same each time it runs."""
    op = OPS.of(node.schema)
    pure = node.kind in _PURE if op is None else not (op.has(Trait.RANDOM) or op.has(Trait.SIDE_EFFECT))
    # An empty list is what a loop's begins with: a new one is its own, where one of several would have to be copied.
    if not pure or (node.kind == "prim::ListConstruct" and not node.inputs):
        return None
    inputs = [numbers.setdefault(value, len(numbers)) for value in node.inputs]
    if is_commutative(node):
        inputs[:2] = sorted(inputs[:2])
    attrs = tuple((name, constant_text(value)) for name, value in sorted(node.attrs.items()) if name != GRADIENT_OF)
    return node.kind, tuple(inputs), attrs, tuple(value.type for value in node.outputs)

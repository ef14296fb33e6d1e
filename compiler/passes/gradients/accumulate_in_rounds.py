"""Add what each round of a loop finds of a gradient where the sum of the rounds before lies.

Before:
    graph f(%n : int, %x : Tensor[float32, rank=2], %g : Tensor[float32, rank=2]):
      %1 : bool = prim::Constant[value=True]()
      %2 : Undefined = prim::AutogradZero()
      %3 : Tensor[float32, rank=2] = prim::Loop(%n, %1, %2)
        block(%i : int, %acc : Tensor[float32, rank=2]):
          %4 : Tensor[float32, rank=2] = aten::mm(%x, %g)
          %5 : Tensor[float32, rank=2] = prim::AutogradAdd(%acc, %4)
          return (%1, %5)
      return (%3)
After, dead nodes aside:
    graph f(%n : int, %x : Tensor[float32, rank=2], %g : Tensor[float32, rank=2]):
      %1 : bool = prim::Constant[value=True]()
      %2 : Undefined = prim::AutogradZero()
      %3 : Tensor[float32, rank=2] = prim::Loop(%n, %1, %2)
        block(%i : int, %acc : Tensor[float32, rank=2]):
          %4 : Tensor[float32, rank=2] = prim::grad_add_product(%acc, %x, %g)
          return (%1, %4)
      return (%3)

Of a weight that every round multiplies by, three gradients would be there at once: the sum so far, the round's, and the
new sum. A plan adds the products to the one sum (`analysis/ownership`), and slices of what rounds have a part of.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.kinds import Carried, carried
from ...ir.node import Node, Value
from ...ir.rewrite import constant_of
from ...types.types import TensorType

_TURNS = "aten::t"


def accumulate_in_rounds(graph: Graph) -> bool:
    """Rewrite the sums that loops carry where all that is added is products of matrices, and slices."""
    changed = False
    for loop in [node for node in graph.all_nodes() if node.kind == "prim::Loop"]:
        for place in carried(loop):
            parts = _parts(place)
            if parts:
                _add_in_turn(place, parts)
                changed = True
    return changed


def _parts(place: Carried) -> list[Value]:
    """What a round adds to the sum that a place holds, in order; nothing where something of it is no such part."""
    if place.parameter.use_count != 1 or place.result is place.parameter:
        return []
    parts: list[Value] = []
    begun = 0
    pending = [place.result]
    while pending:
        value = pending.pop()
        if value is place.parameter:
            begun += 1
        elif value.use_count != 1 or value.node.owner is not place.parameter.node.owner:
            return []
        elif _is_sum(value.node):
            pending += [value.node.inputs[1], value.node.inputs[0]]
        elif _is_slice(value.node) or _product(value) is not None:
            parts.append(value)
        else:
            return []
    return parts if begun == 1 else []


def _is_sum(node: Node) -> bool:
    return node.kind == "prim::AutogradAdd" or (node.kind == "aten::add.Tensor" and constant_of(node.inputs[2]) == 1)


def _is_slice(node: Node) -> bool:
    """Whether it is zeros but for some slices."""
    if node.kind != "aten::slice_scatter" or node.inputs[0].node.kind != "aten::new_zeros":
        return False
    like, _, *options = node.inputs[0].node.inputs
    return like is node.inputs[1] and all(constant_of(option) is None for option in options)


def _product(value: Value) -> Node | None:
    """The product of two matrices that a value is, as it stands or turned, and that nothing else uses."""
    node = value.node
    if node.kind == _TURNS and node.inputs[0].use_count == 1 and node.inputs[0].node.owner is node.owner:
        node = node.inputs[0].node
    is_product = node.kind == "aten::mm" or (node.kind == "aten::matmul" and all(map(_is_matrix, node.inputs)))
    return node if is_product else None


def _is_matrix(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.rank == 2


def _add_in_turn(place: Carried, parts: list[Value]) -> None:
    last = place.result.node
    assert last.owner is not None
    builder = Builder(last.owner, last, last.span)
    total = place.parameter
    for part in parts:
        node = part.node
        product = _product(part)
        if product is None:
            zeros, gradient, *at = node.inputs
            total = builder.op("prim::grad_add_slice", total, gradient, zeros.node.inputs[1], *at)
        elif product is node:
            total = builder.op("prim::grad_add_product", total, *product.inputs)
        else:
            left, right = (_turned(builder, value) for value in reversed(product.inputs))
            total = builder.op("prim::grad_add_product", total, left, right)
        total.type = place.result.type
    total.name_hint = place.result.name_hint
    place.result.replace_uses_with(total)
    last.destroy()


def _turned(builder: Builder, value: Value) -> Value:
    """A matrix turned."""
    if value.node.kind == _TURNS:
        return value.node.inputs[0]
    return builder.op(_TURNS, value)

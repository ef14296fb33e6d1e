"""Remove sums that undo a broadcast which did not take place.

Before:
    graph f(%g : Tensor, %x : Tensor, %w : Tensor):
      %y : Tensor = aten::mul.Tensor(%x, %w)
      %z : Tensor = aten::mul.Tensor(%y, %x)
      %1 : List[int] = aten::size(%z)
      %no : bool = prim::Constant[value=False]()
      %2 : Tensor = aten::expand(%g, %1, %no)
      %3 : Tensor = aten::mul.Tensor(%2, %x)
      %4 : List[int] = aten::size(%y)
      %5 : Tensor = aten::sum_to_size(%3, %4)
      return (%5)
After, dead nodes aside:
    graph f(%g : Tensor, %x : Tensor, %w : Tensor):
      %y : Tensor = aten::mul.Tensor(%x, %w)
      %z : Tensor = aten::mul.Tensor(%y, %x)
      %1 : List[int] = aten::size(%z)
      %no : bool = prim::Constant[value=False]()
      %2 : Tensor = aten::expand(%g, %1, %no)
      %3 : Tensor = aten::mul.Tensor(%2, %x)
      return (%3)

No sizes are known, but where they come from is: the shape of a pointwise result is that of its operands broadcast
together, and broadcasting takes no notice of order or repetition. So a shape is a set of values whose shapes are
broadcast; here z, y, and what is summed all have that of {x, w}.
"""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.node import PARAM, RETURN, Node, Value
from ..ir.rewrite import program_order, replace_node
from ..ops.registry import OPS, Trait
from ..types.types import UNDEFINED, is_tensor, strip_optional

_Shape = frozenset[Value]
_SAME = (
    *("aten::to.dtype", "aten::type_as", "aten::detach", "aten::_unrecorded_view"),
    *("aten::contiguous", "prim::unchecked_cast"),
)
"""Ops with the shape of their first operand."""
_SIZED = ("aten::expand", "aten::sum_to_size", "aten::_grad_sum_to_size", "prim::MaterializeGrad")
"""Ops with the shape that their second operand gives."""
_SUMS = ("aten::sum_to_size", "aten::_grad_sum_to_size")


def simplify_broadcasts(graph: Graph) -> bool:
    """Replace each sum to the size of a tensor of the same shape by what is summed."""
    shapes: dict[Value, _Shape] = {}
    changed = False
    for node in list(program_order(graph)):
        if node.kind in (PARAM, RETURN) or len(node.outputs) != 1 or not is_tensor(node.output.type):
            continue
        shape = _shape(node, shapes)
        if node.kind in _SUMS and shape is not None and shape == _of(node.inputs[0], shapes):
            replace_node(node, [node.inputs[0]])
            changed = True
        elif shape is not None:
            shapes[node.output] = shape
    return changed


def _of(value: Value, shapes: dict[Value, _Shape]) -> _Shape:
    return shapes.get(value) or frozenset((value,))


def _shape(node: Node, shapes: dict[Value, _Shape]) -> _Shape | None:
    """The values whose shapes, broadcast together, are that of the result; None for one of its own."""
    if node.kind in _SAME:
        return _of(node.inputs[0], shapes) if is_tensor(node.inputs[0].type) else None
    if node.kind in _SIZED:
        size = node.inputs[1].node
        return _of(size.inputs[0], shapes) if size.kind in ("aten::size", "prim::grad_size") else None
    op = OPS.of(node.schema)
    if op is None or not op.has(Trait.POINTWISE) or any(v.type == UNDEFINED for v in node.inputs):
        return None
    if any(is_tensor(strip_optional(v.type)) and not is_tensor(v.type) for v in node.inputs):
        # An operand that may be there or not.
        return None
    return frozenset[Value]().union(*(_of(v, shapes) for v in node.inputs if is_tensor(v.type)))

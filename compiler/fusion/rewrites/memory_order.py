"""Results of pointwise ops lie in the order of what they are computed from, as torch has it.

x of strides (1, n)       torch.tanh(x) has strides (1, n)
x of channels last        x * w.view(1, -1, 1, 1) is of channels last

So neighbours are read and written as neighbours, and who calls finds the strides that torch gives. Where a result
follows from a reduction or a product it is contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...kernel_ir.layout import Layout, contiguous_strides, views_of
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait

_KEEPS_ORDER = frozenset(
    (
        *("aten::detach", "aten::clone", "aten::flip", "aten::positive", "aten::_unrecorded_view", "aten::type_as"),
        *("prim::AutogradAdd", "prim::MaterializeGrad", "prim::unchecked_cast", "prim::unchecked_unwrap_optional"),
    )
)
_LIKE = frozenset(("to", "float", "double", "half", "bfloat16", "zeros_like", "ones_like", "full_like"))
_SUMS = frozenset(("aten::sum_to_size", "aten::_grad_sum_to_size"))
"""Of what has the size already, that."""


def orders_of_results(
    graph: Graph, known: Mapping[Value, Any], layouts: Sequence[Layout | Any]
) -> dict[int, tuple[int, ...]]:
    """By the position of each output that is not to be contiguous, its dimensions from the outermost inwards."""
    lying = {value: given for value, given in zip(graph.inputs, layouts, strict=True) if isinstance(given, Layout)}
    for node in graph.nodes:
        found = _layout(node, known, lying)
        if found is not None:
            lying[node.output] = found
    orders: dict[int, tuple[int, ...]] = {}
    for position, value in enumerate(graph.outputs):
        if value in lying and not _is_contiguous(lying[value]) and not _is_argument(graph, value):
            order = _order([lying[value].strides], lying[value].shape)
            if list(order) != sorted(order):
                orders[position] = order
    return orders


def _is_argument(graph: Graph, value: Value) -> bool:
    """Whether a value has the memory of an argument: it is one, or a view of one."""
    while value not in graph.inputs and OPS.has(value.node.schema, Trait.VIEW):
        value = value.node.inputs[0]
    return value in graph.inputs


def _layout(node: Node, known: Mapping[Value, Any], lying: Mapping[Value, Layout]) -> Layout | None:
    """How the result of a node lies; None where nothing is said of it."""
    if len(node.outputs) != 1 or not isinstance(known.get(node.output), Meta):
        return None
    meta: Meta = known[node.output]
    op = OPS.of(node.schema)
    tensors = [value for value in node.inputs if isinstance(known.get(value), Meta)]
    if node.kind == "aten::contiguous":
        return Layout.contiguous(meta)
    if op is not None and op.has(Trait.VIEW):
        if tensors != list(node.inputs[:1]) or tensors[0] not in lying:
            return None
        found = views_of(op, [known.get(value) for value in node.inputs], 0, lying[tensors[0]])
        return Layout(found[0].shape, meta.dtype, found[0].strides) if found and len(found) == 1 else None
    name = op.schema.base_name if op is not None else ""
    keeps = node.kind in _KEEPS_ORDER or name in _LIKE or (op is not None and op.has(Trait.POINTWISE))
    is_same = node.kind in _SUMS and bool(tensors) and known[tensors[0]].shape == meta.shape
    if not keeps and not is_same:
        return None
    asked = [value for value in tensors if known[value].rank]
    given = [lying[value] for value in asked if value in lying]
    if not given or len(given) < len(asked):
        return None
    if all(map(_is_contiguous, given)):
        # Nothing is asked of open sizes, which would be a guard.
        return Layout.contiguous(meta)
    order = _order([_spread(layout, meta.shape) for layout in given], meta.shape)
    return Layout(meta.shape, meta.dtype, _strides(meta.shape, order))


def _is_contiguous(layout: Layout) -> bool:
    return layout.strides == contiguous_strides(layout.shape)


def _spread(layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of an operand along the dimensions of a result; 0 along those in which it is broadcast."""
    more = len(shape) - len(layout.shape)
    sizes = zip(layout.shape, layout.strides, shape[more:], strict=True)
    return (0,) * more + tuple([0 if size == 1 and wanted != 1 else stride for size, stride, wanted in sizes])


def _strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Those of a tensor whose dimensions lie in an order, the outermost first."""
    inner = dict(zip(order, contiguous_strides([shape[dim] for dim in order]), strict=True))
    return tuple([inner[dim] for dim in range(len(shape))])


def _order(operands: Sequence[Sequence[int]], shape: Sequence[int]) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost, in the order that torch's TensorIterator finds.

    From the innermost on, each goes further in until an operand has it further out than the one before it; where none
    tells the two apart, on to the one before that. Strides of one operand may say otherwise than those of another, so
    it matters in which order they are asked.
    """
    inward = list(reversed(range(len(shape))))
    for position in range(1, len(inward)):
        at = position
        for before in range(position - 1, -1, -1):
            told = _told_apart(operands, shape, inward[at], inward[before])
            if told < 0:
                inward[before], inward[at] = inward[at], inward[before]
                at = before
            elif told > 0:
                break
    return tuple(reversed(inward))


def _told_apart(operands: Sequence[Sequence[int]], shape: Sequence[int], outer: int, inner: int) -> int:
    """1 where the first operand that tells them apart has `outer` outside of `inner`, -1 where inside, 0 where none
    does: one that is broadcast along either does not, and of equal strides the longer dimension is further out."""
    for strides in operands:
        if not strides[outer] or not strides[inner]:
            continue
        if strides[outer] != strides[inner]:
            return 1 if strides[outer] > strides[inner] else -1
        if shape[inner] > shape[outer]:
            return -1
    return 0


def lay_in_order(graph: Graph, orders: Mapping[int, tuple[int, ...]]) -> bool:
    """Have outputs be views of what is contiguous in another order of their dimensions.

    Before, the order of %y being 1, 0:
        graph f(%x : Tensor):
          %y : Tensor = aten::tanh(%x)
          return (%y)
    After:
        graph f(%x : Tensor):
          %y : Tensor = aten::tanh(%x)
          %1 : List[int] = prim::Constant[value=[1, 0]]()
          %2 : Tensor = aten::permute(%y, %1)
          %3 : int = prim::Constant[value=0]()
          %4 : Tensor = aten::contiguous(%2, %3)
          %5 : List[int] = prim::Constant[value=[1, 0]]()
          %y.1 : Tensor = aten::permute(%4, %5)
          return (%y.1)
    """
    builder = Builder(graph, before=graph.body.ret)
    made: dict[Value, Value] = {}
    for position, value in enumerate(graph.outputs):
        order = orders.get(position)
        if order is None or value in graph.inputs:
            continue
        if value not in made:
            within = builder.op("aten::contiguous", builder.op("aten::permute", value, list(order)))
            made[value] = builder.op("aten::permute", within, [order.index(dim) for dim in range(len(order))])
            made[value].name_hint = value.name_hint
        graph.body.ret.set_input(position, made[value])
    return bool(made)

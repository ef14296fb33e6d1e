"""Which values need no memory of their own: views of tensors that are there, and what is another value.

%y = aten::t(%x)             %x in memory: so is %y, by strides
%z = aten::to.dtype(%x, 6)   %x is float32 already: %z is %x
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.node import Node, Value
from ...kernel_ir.layout import Layout, StridedView, contiguous_strides, views_of
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from ...types.types import TensorType
from .placement import MemoryPlacement

_KEEPS = (
    *("aten::detach", "aten::_unrecorded_view"),
    *("prim::unchecked_cast", "prim::unchecked_unwrap_optional"),
)
_CONVERTS = ("aten::to.", "aten::type_as")
"""Where the dtype and the shape stay, the same tensor."""


def same_as(memory: MemoryPlacement, value: Value) -> Value | None:
    """A value that is this one: of a sum of nothing, a conversion to what it is, a gradient that is alone."""
    node = value.node
    defined = [v for v in node.inputs if isinstance(memory.known.get(v), Meta)]
    # Sizes are compared last: what is asked of open ones is noted.
    if not defined or not _may_be_same(memory, value, defined) or memory.known[defined[0]] != memory.known[value]:
        return None
    if node.kind == "aten::contiguous":
        return defined[0] if _lies_in_order(memory, defined[0]) else None
    is_other_view = value not in memory.reductions and _is_view(node) and not _views_whole(memory, node)
    return None if is_other_view and not _keeps(node, defined) else defined[0]


def _may_be_same(memory: MemoryPlacement, value: Value, defined: Sequence[Value]) -> bool:
    """Whether a value is its first operand where they are of one shape and dtype; of views, whether that is to be
    seen."""
    reduction = memory.reductions.get(value)
    if reduction is None:
        return value.node.kind == "aten::contiguous" or _keeps(value.node, defined) or _is_view(value.node)
    is_whole = reduction.is_copy and reduction.divisor in (None, 1)
    is_same = reduction.copies or not reduction.accumulate.is_floating
    return is_whole and is_same and reduction.combine == "sum"


def _keeps(node: Node, defined: Sequence[Value]) -> bool:
    """Whether it gives its operand, or what that is converted to."""
    alone = node.kind == "prim::AutogradAdd" and len(defined) == 1
    return alone or node.kind in _KEEPS or node.kind.startswith(_CONVERTS)


def _lies_in_order(memory: MemoryPlacement, value: Value) -> bool:
    """Whether a value lies contiguously, or will: what kernels store does, arguments and views of them need not."""
    chain = [value]
    while chain[-1] not in memory.placed and _is_drawn_view(memory, chain[-1].node):
        chain.append(chain[-1].node.inputs[0])
    if chain[-1] not in memory.placed:
        return True
    layout: Layout | None = memory.layouts.get(memory.placed[chain[-1]][0])
    for view in reversed(chain[:-1]):
        layout = _layout_of_view(memory, view.node, layout) if layout is not None else None
    return layout is None or layout.strides == contiguous_strides(layout.shape)


def _is_view(node: Node) -> bool:
    op = OPS.of(node.schema)
    return op is not None and op.has(Trait.VIEW) and len(node.outputs) == 1


def _views_whole(memory: MemoryPlacement, node: Node) -> bool:
    """Whether a view leaves each element where it is, as a reshape to the same shape does."""
    shape = memory.known[node.output].shape
    return memory.views(node) == [StridedView(shape, contiguous_strides(shape), 0)]


def layout_in_place(memory: MemoryPlacement, node: Node) -> Layout | None:
    """How a view of one tensor lies in memory, where that tensor is there; None where it would be a copy."""
    if not _is_drawn_view(memory, node) or node.inputs[0] not in memory.placed:
        return None
    source = memory.layouts.get(memory.placed[node.inputs[0]][0])
    return _layout_of_view(memory, node, source) if source is not None else None


def views_before(memory: MemoryPlacement, node: Node) -> list[Value]:
    """What a view is of, the nearest to memory first, where all of that is views of a tensor there, or the same."""
    if not _is_drawn_view(memory, node):
        return []
    chain, source = list[Value](), node.inputs[0]
    while source not in memory.placed:
        same = same_as(memory, source)
        if same is None and not _is_drawn_view(memory, source.node):
            return []
        chain.append(source)
        source = same or source.node.inputs[0]
    layout: Layout | None = memory.layouts.get(memory.placed[source][0])
    for value in reversed(chain):
        if layout is not None and same_as(memory, value) is None:
            layout = _layout_of_view(memory, value.node, layout)
    return chain[::-1] if layout is not None else []


def stored_in_order(value: Value) -> Value | None:
    """What is to lie contiguously for a value to be a view of it; None where nothing says so."""
    while value.node.kind != "aten::contiguous":
        if not _is_view(value.node):
            return None
        value = value.node.inputs[0]
    return value


def unturned(memory: MemoryPlacement, value: Value) -> Value:
    """What a value is but for the order and the grouping of its dimensions, which a product of matrices takes by
    strides: `x.permute(2, 0, 1).reshape(n, -1)` is %x."""
    chain, source = list[Value](), value
    while source not in memory.placed and _is_drawn_view(memory, source.node) and _is_turned(memory, source.node):
        chain.append(source)
        source = source.node.inputs[0]
    layout = memory.layouts.get(memory.placed[source][0]) if source in memory.placed else None
    layout = layout or Layout.contiguous(memory.known[source])
    for view in reversed(chain):
        turned = _layout_of_view(memory, view.node, layout)
        # Where strides cannot say it, the value is stored as it is from there on.
        source = view if turned is None else source
        layout = turned or Layout.contiguous(memory.known[view])
    return source


def _is_turned(memory: MemoryPlacement, node: Node) -> bool:
    """Whether a view has every element of its tensor once."""
    source = memory.known[node.inputs[0]]
    layout = _layout_of_view(memory, node, Layout.contiguous(source)) if isinstance(source, Meta) else None
    return layout is not None and prod(layout.shape) == prod(source.shape) and 0 not in layout.strides


def _is_drawn_view(memory: MemoryPlacement, node: Node) -> bool:
    is_view = OPS.has(node.schema, Trait.VIEW) and len(node.outputs) == 1
    return is_view and isinstance(node.output.type, TensorType) and node in memory.rules


def _layout_of_view(memory: MemoryPlacement, node: Node, source: Layout) -> Layout | None:
    op = OPS.of(node.schema)
    found = op and views_of(op, [memory.known.get(value) for value in node.inputs], 0, source)
    return Layout(found[0].shape, source.dtype, found[0].strides) if found and len(found) == 1 else None

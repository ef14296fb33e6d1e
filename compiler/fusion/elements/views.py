"""Elements of views, of parts of lists, and of what turns or repeats a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....lang.trampoline import Walk
from ...ir.node import Node, Value
from ...kernel_ir.index import Index, SizeValues, constant
from ...kernel_ir.layout import Layout, contiguous_strides, views_of
from ...ops.dims import wrap_dim
from ...ops.meta import Meta
from ...ops.registry import OPS
from .rule import ElementPlace, Elements, Incompatible, KnownFacts, LoadGuards


def is_view(node: Node, known: KnownFacts) -> bool:
    return _views(node, known) is not None


def _views(node: Node, known: KnownFacts) -> Any:
    op = OPS.of(node.schema)
    assert op is not None
    first = known.get(node.inputs[0])
    if not isinstance(first, Meta):
        return None
    arguments = [known.get(value) for value in node.inputs]
    return views_of(op, arguments, 0, Layout.contiguous(first))


def view(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """The element of the tensor that lies at the address which the view gives."""
    source = group.known[node.inputs[0]]
    seen = group.views(node)[which]
    address = constant(seen.offset)
    for index, stride in zip(place, seen.strides, strict=True):
        address += index * stride
    return (yield group.element(node.inputs[0], unravel(address, source.shape, group.ranges(guards)), guards))


def unravel(address: Index, shape: Sequence[int], sizes: SizeValues) -> ElementPlace:
    """The indices of the element that stands at an address of a contiguous tensor."""
    strides = contiguous_strides(shape)
    return tuple(
        constant(0) if size == 1 else address.divided(stride, sizes).modulo(size, sizes)
        for size, stride in zip(shape, strides, strict=True)
    )


def unpacked(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """An element of a list: of a tensor that it was made of, or of a part that an op gave."""
    return (yield of_list(group, node.inputs[0], which, place, guards))


def picked(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    return (yield of_list(group, node.inputs[0], group.known[node.inputs[1]], place, guards))


def of_list(group: Elements, value: Value, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    made, which = value.node, which % len(group.known[value])
    if made.kind == "prim::ListConstruct":
        return (yield group.element(made.inputs[which], place, guards))
    if group.is_in_memory(value):
        return group.load_part(value, which, place, guards)
    if made.schema is None:
        raise Incompatible
    if made.schema.base_name == "broadcast_tensors":
        return (yield broadcast_element(group, made, which, place, guards))
    return (yield view(group, made, which, place, guards))


def broadcast_element(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """An element of one of several tensors, each repeated to the shape of all."""
    rank = group.known[node.inputs[0]][which].rank
    return (yield of_list(group, node.inputs[0], which, place[len(place) - rank :], guards))


def flip(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    shape = group.known[node.inputs[0]].shape
    dims = {wrap_dim(d, len(shape)) for d in group.known[node.inputs[1]]}
    turned = tuple(-p + (s - 1) if d in dims else p for d, (p, s) in enumerate(zip(place, shape, strict=True)))
    return (yield group.element(node.inputs[0], turned, guards))


def repeat(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    shape = group.known[node.inputs[0]].shape
    kept = place[len(place) - len(shape) :]
    inner = tuple(p.modulo(max(s, 1), group.sizes) for p, s in zip(kept, shape, strict=True))
    return (yield group.element(node.inputs[0], inner, guards))

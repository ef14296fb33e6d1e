"""A tensor that is put together of parts, or wanted in parts, stored part by part where these belong.

    %gates = a sum of products            one kernel computes all four parts of an element's gate, uses them,
    %parts = aten::chunk(%gates, 4, 1)    and stores each where it lies in %gates, of which %parts are views

A kernel over the parts would else read what another, over the whole, has written before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.node import Node, Value
from ...kernel_ir.index import Index, constant
from ...kernel_ir.layout import Layout, StridedView
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from .placement import MemoryPlacement

PlacedPart = tuple[Value, tuple[Index, ...]]
_JOINS = ("aten::cat", "aten::concat", "aten::concatenate")


def is_joined(memory: MemoryPlacement, value: Value) -> bool:
    """Whether a tensor is put together of others."""
    node = value.node
    return node.kind in _JOINS and node in memory.rules and node.inputs[0].node.kind == "prim::ListConstruct"


def joined_parts(memory: MemoryPlacement, value: Value) -> list[PlacedPart] | None:
    """Each part of such a tensor, and where it begins in it; None where one is of another dtype."""
    meta, dim, start = memory.known[value], memory.known[value.node.inputs[1]], 0
    dim %= max(meta.rank, 1)
    parts = list[PlacedPart]()
    for tensor in value.node.inputs[0].node.inputs:
        found = memory.known[tensor]
        if found.shape == (0,) and meta.rank != 1:
            continue
        if found.dtype != meta.dtype:
            return None
        parts.append((tensor, tuple(constant(start if d == dim else 0) for d in range(meta.rank))))
        start += found.shape[dim]
    return parts


def parts_to_store(memory: MemoryPlacement, node: Node) -> list[PlacedPart] | None:
    """Each part of what a list of views is of, and where it begins in it; None where the whole is to be stored, as
    where more than the parts is asked for, or parts are of several shapes."""
    source, unpacked = node.inputs[0], [u.user for u in node.output.uses if u.user.kind == "prim::ListUnpack"]
    whole = memory.known[source]
    if not unpacked or node not in memory.rules or source in memory.reductions or not _is_for(node, source):
        return None
    parts = unpacked[0].outputs
    views = memory.views(node)
    if views is None or not _are_alike([memory.known.get(part) for part in parts], whole) or len(views) != len(parts):
        return None
    starts = [_start(view, Layout.contiguous(whole)) for view in views]
    return [(part, tuple(map(constant, start))) for part, start in zip(parts, starts, strict=True)]


def _is_for(node: Node, source: Value) -> bool:
    """Whether a value is there for one node alone, but for its shape."""
    return all(use.user is node or OPS.has(use.user.schema, Trait.SHAPE_ONLY) for use in source.uses)


def _are_alike(parts: Sequence[object], whole: Meta) -> bool:
    """Whether parts have one shape, of as many dimensions as the whole, and are all of it."""
    first = parts[0] if parts else None
    if not isinstance(first, Meta) or first.rank != whole.rank or any(part != first for part in parts):
        return False
    return len(parts) * first.numel == whole.numel


def _start(view: StridedView, whole: Layout) -> list[int]:
    """The indices at which a part begins."""
    found, left = list[int](), view.offset
    for size, stride in zip(whole.shape, whole.strides, strict=True):
        at = left // stride if size != 1 else 0
        left -= at * stride
        found.append(at)
    return found

"""Where a tensor lies in a kernel over the dimensions of another one, of which it is the elements in another order.

    %rows : float32[n, d] = aten::t(%x)                 axes i < n parallel, j < d reduction
    %normal : float32[n, d] = …  of rows          →       %x [i, j] = load %x[i + n*j]
    %result : float32[d, n] = aten::t(%normal)            store %result[i + n*j], …

So what is normalised along another dimension than the last, and turned back, is read and written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ...ir.node import Node, Value
from ...kernel_ir.index import AxisAtom, Index, Remainder, SizeValues, constant
from ...kernel_ir.kernel import Load, Statement, Store
from ...kernel_ir.layout import StridedView, contiguous_strides
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from ..elements.rule import ElementPlace
from ..elements.views import unravel
from .placement import MemoryPlacement

MOST_SEEN = 64
"""Values that a tensor follows from, among which the other one is sought."""


def turned_places(
    memory: MemoryPlacement, value: Value, shape: tuple[int, ...], own: ElementPlace, sizes: SizeValues
) -> Iterator[ElementPlace]:
    """Where an element of a tensor is, when another one of `shape` that it follows from point by point is at `own`."""
    pending: list[tuple[Value, tuple[Node, ...]]] = [(value, ())]
    seen = {value}
    for found, views in pending:
        meta = memory.known.get(found)
        if not isinstance(meta, Meta):
            continue
        if views and meta.shape == shape:
            place = _behind(memory, views, own, sizes)
            if place is not None:
                yield place
            continue
        node = found.node
        if found in memory.placed or node not in memory.rules or len(pending) > MOST_SEEN:
            continue
        if OPS.has(node.schema, Trait.VIEW):
            before, views = node.inputs[:1], (node, *views)
        else:
            before = [v for v in node.inputs if getattr(memory.known.get(v), "shape", None) == meta.shape]
        pending += [(v, views) for v in before if v not in seen]
        seen.update(before)


def _behind(
    memory: MemoryPlacement, views: Sequence[Node], place: ElementPlace, sizes: SizeValues
) -> ElementPlace | None:
    """Where an element is behind views that have every element of their tensor once; None where one has not."""
    for node in views:
        found = memory.views(node)
        source = memory.known[node.inputs[0]].shape
        if found is None or len(found) != 1 or prod(found[0].shape) != prod(source) or not prod(source):
            return None
        address = constant(0)
        for index, stride in zip(place, contiguous_strides(source), strict=True):
            address += index * stride
        there = _place_at(found[0], address, sizes)
        if there is None:
            return None
        place = there
    return place


def _place_at(view: StridedView, address: Index, sizes: SizeValues) -> ElementPlace | None:
    """The place in a view of what is at an address; None where several are, or a part is left out."""
    dims = sorted((d for d, size in enumerate(view.shape) if size != 1), key=lambda d: -view.strides[d])
    ordered = [view.shape[d] for d in dims]
    if view.offset or [view.strides[d] for d in dims] != list(contiguous_strides(ordered)):
        return None
    at = dict(zip(dims, unravel(address, ordered, sizes), strict=True))
    return tuple(at.get(d, constant(0)) for d in range(len(view.shape)))


def reads_alike(before: Sequence[Statement], added: Sequence[Statement]) -> bool:
    """Whether what is added reads neighbours where neighbours are read already."""
    widest, side_by_side = _walked(before)
    new = [s.index for s in added if isinstance(s, Load) and len(s.index.axes) >= max(widest, 2)]
    return all(_neighbours(index) & side_by_side for index in new)


def walks_alike(before: Sequence[Statement], added: Sequence[Statement], within: frozenset[str] | None) -> bool:
    """Whether what is added reads and writes neighbours where neighbours are read already: `within` some axes, if it
    is said along which."""
    widest, side_by_side = _walked(before)
    new = [s.index for s in added if isinstance(s, Load | Store) and len(s.index.axes) >= max(widest, 2)]
    return all(_neighbours(index) & side_by_side for index in new) and (within is None or side_by_side <= within)


def _walked(statements: Sequence[Statement]) -> tuple[int, frozenset[str]]:
    """How many axes what is read along the most has, and those of them along which elements lie side by side."""
    moved = [s.index for s in statements if isinstance(s, Load)]
    widest = max((len(index.axes) for index in moved), default=0)
    return widest, frozenset(name for i in moved if len(i.axes) == widest for name in _neighbours(i))


def _neighbours(index: Index) -> frozenset[str]:
    """The axes along which elements lie side by side."""
    found = frozenset[str]()
    for coefficient, atom in index.terms:
        if abs(coefficient) == 1:
            found |= {atom.name} if isinstance(atom, AxisAtom) else frozenset()
            found |= _neighbours(atom.index) if isinstance(atom, Remainder) else frozenset()
    return found

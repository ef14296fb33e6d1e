"""The space that a kernel goes through, and where tensors of its shape, or a part of it, or turned, lie in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import prod
from typing import Any

from ....lang.light_dataclasses import dataclass, field
from ...ir.node import Node, Value
from ...kernel_ir.index import Index, Quotient, Remainder, axis, constant
from ...kernel_ir.layout import contiguous_strides
from ..elements.rule import ElementPlace
from ..elements.views import unravel
from .placement import MemoryPlacement
from .reductions import Reduction
from .tiles import Tile
from .turned import turned_places

AXIS_NAMES = "ijklmnopqrstuvw"


@dataclass(frozen=True, slots=True)
class Held:
    """A reduction that this group computes: its value, where the result's dimensions run, and what it is reduced over.

    One that is reduced over parallel axes (`across`) is there only once all programs have run. `of` is where the
    operand's dimensions run, `over` what a program reduces of it.
    """

    name: str
    place: ElementPlace
    axes: frozenset[str]
    across: frozenset[str]
    of: ElementPlace
    over: frozenset[str]


@dataclass
class IterationSpace:
    """The dimensions of `shape`, of which a program reduces over all the axes `reduced`; of a tile, over any of them.

    `order` is the kernel's place among the steps of the program.
    """

    memory: MemoryPlacement
    order: int
    shape: tuple[int, ...]
    reduced: frozenset[str] = frozenset()
    is_tile: bool = False
    held: dict[Value, Held] = field(default_factory=dict)
    _orders: dict[tuple[tuple[int, ...], frozenset[str]], ElementPlace | None] = field(default_factory=dict)
    """Where tensors lie in order, by their shape and the axes left out: each reduction of a tile asks again."""
    orders_found: dict[tuple[int, ...], ElementPlace] = field(default_factory=dict)
    """In which other order tensors of a shape were found to be the elements of this space."""

    def __post_init__(self) -> None:
        self.axes = [AXIS_NAMES[d] if d < len(AXIS_NAMES) else f"axis{d}" for d in range(len(self.shape))]
        self.sizes = dict(zip(self.axes, self.shape, strict=True))

    @property
    def known(self) -> Mapping[Value, Any]:
        return self.memory.known

    def joins_in_memory(self, node: Node) -> bool:
        """Whether tensors are put together in memory, and not where their elements are needed."""
        return node in self.memory.joined

    def hold(self, tile: Tile | None) -> None:
        """Have a program hold a tile, or nothing yet."""
        self.is_tile = tile is not None
        self.reduced = frozenset(self.axes[d] for d in tile.dims) if tile is not None else frozenset()

    def index_of(self, dim: int | None) -> Index:
        """Where a dimension of the iteration space runs."""
        return constant(0) if dim is None or self.shape[dim] == 1 else axis(self.axes[dim])

    def embed(self, shape: tuple[int, ...]) -> ElementPlace | None:
        """How a tensor of a shape lies in the iteration space: along all of it, or along what a reduction leaves."""
        if shape == self.shape:
            return tuple(self.index_of(d) for d in range(len(shape)))
        left_out = [self.reduced, *(held.across | self.reduced for held in self.held.values())]
        left_out += [held.across for held in self.held.values()]
        for axes in left_out:
            place = self._embed_without(shape, axes)
            if axes and place is not None:
                return place
        return None

    def _embed_without(self, shape: tuple[int, ...], axes: frozenset[str]) -> ElementPlace | None:
        """With the axes left out, or kept as 1."""
        dims = [d for d in range(len(self.shape)) if self.axes[d] not in axes]
        kept = tuple(size if d in dims else 1 for d, size in enumerate(self.shape))
        if shape == kept:
            return tuple(self.index_of(d if d in dims else None) for d in range(len(shape)))
        if shape == tuple(self.shape[d] for d in dims):
            return tuple(self.index_of(d) for d in dims)
        return None

    def places(self, shape: tuple[int, ...]) -> Iterator[ElementPlace]:
        """How a tensor of a shape may lie in the iteration space: in a tile, along what any reduction leaves."""
        if not self.is_tile:
            place = self.embed(shape)
            if place is None and self.reduced:
                place = self._in_order(shape, frozenset())
                place = place if place is not None and not any(_cuts(place)) else None
            if place is not None:
                yield place
            return
        across = dict.fromkeys([frozenset[str](), *(held.across for held in self.held.values())])
        axes = [name for name in self.axes if name in self.reduced]
        for count in range(len(axes) + 1):
            for left_out in combinations(axes, count):
                for gone in across:
                    place = self._in_order(shape, gone.union(left_out))
                    if place is not None and not any(_cuts(place)):
                        yield place

    def reshaped(self, shape: tuple[int, ...]) -> ElementPlace | None:
        """How a tensor of as many elements lies in the iteration space, in order, where each axis is cut by itself."""
        place = self._in_order(shape, frozenset())
        return place if place is not None and all(len(index.axes) == 1 for index in _cuts(place)) else None

    def _in_order(self, shape: tuple[int, ...], left_out: frozenset[str]) -> ElementPlace | None:
        """How a tensor of as many elements lies along the other axes, in order."""
        key = (shape, left_out)
        if key not in self._orders:
            self._orders[key] = self._put_in_order(shape, left_out)
        return self._orders[key]

    def _put_in_order(self, shape: tuple[int, ...], left_out: frozenset[str]) -> ElementPlace | None:
        dims = [d for d, name in enumerate(self.axes) if name not in left_out]
        sizes = tuple(self.shape[d] for d in dims)
        if prod(shape) != prod(sizes) or not prod(shape):
            return None
        address = constant(0)
        for dim, stride in zip(dims, contiguous_strides(sizes), strict=True):
            address += self.index_of(dim) * stride
        return unravel(address, shape, self.sizes)

    def turned(self, value: Value) -> Iterator[ElementPlace]:
        """How a tensor lies in the iteration space that is another order of its elements; for kernels of rows."""
        if not self.reduced or self.is_tile:
            return
        own = tuple(self.index_of(d) for d in range(len(self.shape)))
        yield from turned_places(self.memory, value, self.shape, own, self.sizes)
        found = self.orders_found.get(self.known[value].shape)
        if found is not None:
            yield found

    def is_cut_short(self, reduction: Reduction, place: ElementPlace) -> bool:
        """Whether a reduction goes over a part of what lies along its axes."""
        over = {name for d in reduction.dims for name in place[d].axes}
        kept = {name for d in reduction.kept if d is not None for name in place[d].axes}
        shape = self.known[reduction.operand].shape
        return bool(over & kept) or prod(shape[d] for d in reduction.dims) != prod(self.sizes[name] for name in over)


def _cuts(place: ElementPlace) -> Iterator[Index]:
    """What is divided in the indices of a place."""
    for index in place:
        yield from (atom.index for atom in index.atoms() if isinstance(atom, Quotient | Remainder))

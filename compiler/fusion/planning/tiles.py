"""Small tiles: short axes of which a program holds all points at once, to reduce over any of them, in any order.

    %rows : float32[n, 4, 1] = aten::sum(%p, [-1], True)         axes i < n parallel, j < 4 reduction, k < 4 reduction
    %q = aten::div(%p, %rows)                              →       %rows [i, j] = reduce sum %p over k
    %columns : float32[n, 1, 4] = aten::sum(%q, [-2], True)        %columns [i, k] = reduce sum %q over j

Where rows alone were held, each sum across them would be for another kernel to finish. Reductions of the same elements
in other shapes share a tile too: a mean over the channels of a group and the places, and a sum over the places alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import combinations, pairwise
from math import prod
from typing import Any, TypeAlias

from ....lang.light_dataclasses import dataclass
from ...ir.graph import Graph
from ...ir.node import Value
from ...ops.arguments import Shape
from ...ops.meta import Meta
from ...scheduling.choose import room_of_tile
from ...types.dtypes import DType
from ...types.open_sizes import is_open, next_power
from .reductions import Reduction

MOST_WORDS = 16_384
"""Of 32 bits, of one value of a tile, padded: more are not held in registers."""
LEAST_PROGRAMS = 32
"""That a tile leaves at least, unless its axes are reduced in turn."""
MOST_STREAMS = 8
"""Rows side by side of which one that is reduced before them may be held with all."""
TURNS = 3
"""Reductions one after the other, each over other axes than the one before, for which one program may do it all."""
ReducedDims: TypeAlias = frozenset[int]


@dataclass(frozen=True, slots=True)
class Tile:
    """An iteration space, and the dimensions of it that a program holds."""

    space: Shape
    dims: ReducedDims


class Tiles:
    """The tiles of a graph's reductions, found as they are asked for."""

    def __init__(self, graph: Graph, reductions: Mapping[Value, Reduction], known: Mapping[Value, Any]) -> None:
        self._graph = graph
        self._reductions = reductions
        self._known = known
        self._found: dict[Shape, Tile | None] = {}
        self._with_room: dict[Shape, bool] = {}

    def of(self, shape: Shape) -> Tile | None:
        """The tile for reductions of tensors of a shape; None where rows, or one set of axes, will do."""
        if shape not in self._found:
            self._found[shape] = self._tile(shape)
        return self._found[shape]

    def holds(self, value: Value) -> bool:
        """Whether a tile has all that a value is reduced from, so that to reduce it again costs no memory."""
        reduction = self._reductions.get(value)
        if reduction is None or not reduction.dims:
            return False
        shape = self._known[reduction.operand].shape
        tile = self.of(shape)
        if tile is None or not _along(shape, reduction.dims, tile.space) <= tile.dims:
            return False
        if shape not in self._with_room:
            self._with_room[shape] = self._has_room(tile, shape)
        return self._with_room[shape]

    def _has_room(self, tile: Tile, shape: Shape) -> bool:
        """Whether a program can hold what all reductions of a shape ask for when they are run again."""
        reduced = [r for r in self._reductions.values() if r.dims and self._is_alike(r, shape)]
        alike = [_along(self._shape(r), r.dims, tile.space) for r in reduced]
        # Where it is reduced again the tile as it was before waits for its gradient, and what it was reduced to.
        each, room = room_of_tile(_points(tile.space, tile.dims))
        return sum(each + max(each / _points(tile.space, dims & tile.dims), 1) for dims in alike) <= room

    def _tile(self, shape: Shape) -> Tile | None:
        reduced = {value: r for value, r in self._reductions.items() if r.dims}
        family = {value: self._shape(r) for value, r in reduced.items() if self._is_alike(r, shape)}
        if len(set(family.values())) > 1:
            space = refined(list(dict.fromkeys(family.values())))
            if space is not None:
                over = {value: _along(found, reduced[value].dims, space) for value, found in family.items()}
                tile = self._held(space, over)
                if tile is not None:
                    return tile
        same = {value: frozenset(reduced[value].dims) for value, found in family.items() if found == shape}
        same |= self._of_parts(shape) | self._of_what_is_left(shape, same)
        held = self._held(shape, same) if len(set(same.values())) > 1 else None
        return held or self._of_wider(shape) or self._of_streams(shape)

    def _of_parts(self, space: Shape) -> dict[Value, ReducedDims]:
        """What is reduced of a row beside pairs of its elements, where nothing of the pairs' shape is in memory: a
        mean of the elements' own errors beside that of their distances."""
        wide = [r for r in self._reductions.values() if r.dims and self._shape(r) == space]
        found: dict[Value, ReducedDims] = {}
        for value, reduction in self._reductions.items() if wide else ():
            dims = _part_of(self._shape(reduction), space) if reduction.dims else None
            if dims is not None and any(self._is_of_pairs(r, reduction) for r in wide):
                found[value] = frozenset(dims[d] for d in reduction.dims)
        return found

    def _of_wider(self, shape: Shape) -> Tile | None:
        """The tile of pairs of elements of a row that has a shape."""
        for wide in self._reductions.values():
            space = self._shape(wide)
            if wide.dims and _part_of(shape, space) is not None:
                alike = [r for r in self._reductions.values() if r.dims and self._shape(r) == shape]
                tile = self.of(space) if any(self._is_of_pairs(wide, r) for r in alike) else None
                if tile is not None and tile.space == space:
                    return tile
        return None

    def _is_of_pairs(self, wide: Reduction, row: Reduction) -> bool:
        """Whether elements of what is reduced are computed from a row's, and from no tensor as large as they are."""
        size, of_row = prod(self._shape(wide)), prod(self._shape(row))
        seen = self._followed(wide.operand)
        given = set(self._graph.inputs)
        if any(value in given and prod(self._known[value].shape) >= size for value in seen):
            return False
        return any(prod(self._known[v].shape) == of_row for v in seen & self._followed(row.operand))

    def _followed(self, value: Value) -> set[Value]:
        """The tensors that a value follows from, and itself."""
        pending, seen = [value], {value}
        for found in pending:
            new = [v for v in found.node.inputs if v not in seen and isinstance(self._known.get(v), Meta)]
            seen.update(new)
            pending += new
        return seen

    def _of_streams(self, shape: Shape) -> Tile | None:
        """The tile of a few rows that lie side by side, where what they are reduced to follows from one row that is
        reduced before: that of a gradient which each of several streams is multiplied by."""
        reduced = {value: r for value, r in self._reductions.items() if r.dims}
        for wide in reduced.values():
            space = self._shape(wide)
            d = wide.dims[0] - 1
            if d < 1 or wide.dims != tuple(range(d + 1, len(space))) or not _is_few(space[d]):
                continue
            narrow = {(*space[:d], *space[d + 1 :]), (*space[:d], 1, *space[d + 1 :])}
            if shape != space and shape not in narrow:
                continue
            tile = Tile(space, frozenset(range(d, len(space))))
            fits = _points(space, tile.dims) <= most_points(self._known[wide.operand].dtype)
            if fits and _others(space, tile.dims) >= LEAST_PROGRAMS and self._waits(wide, narrow, reduced):
                return tile
        return None

    def _waits(self, wide: Reduction, narrow: Set[Shape], reduced: Mapping[Value, Reduction]) -> bool:
        """Whether what is reduced follows from a row that is reduced along the same dimensions."""
        pending, seen = [wide.operand], {wide.operand}
        for found in pending:
            row = reduced.get(found)
            if row is not None and self._shape(row) in narrow and len(self._shape(row)) - row.dims[0] == len(wide.dims):
                return True
            new = [v for v in found.node.inputs if v not in seen and isinstance(self._known.get(v), Meta)]
            seen.update(new)
            pending += new
        return False

    def _shape(self, reduction: Reduction) -> Shape:
        shape: Shape = self._known[reduction.operand].shape
        return shape

    def _is_alike(self, reduction: Reduction, shape: Shape) -> bool:
        """Whether as many elements are reduced as a shape has."""
        mine = self._shape(reduction)
        # Sizes in another order are those of what is turned, along which elements follow each other otherwise.
        return mine == shape or (sorted(mine) != sorted(shape) and prod(mine) == prod(shape))

    def _of_what_is_left(self, shape: Shape, over: Mapping[Value, ReducedDims]) -> dict[Value, ReducedDims]:
        """What is reduced of what reductions of a shape leave, where elements of that shape follow from it: a softmax
        of what each row gave, which weighs the rows."""
        left: dict[Shape, list[int]] = {}
        for gone in set(over.values()):
            kept = [d for d in range(len(shape)) if d not in gone]
            left[tuple(size if d in kept else 1 for d, size in enumerate(shape))] = list(range(len(shape)))
            left[tuple(shape[d] for d in kept)] = kept
        found: dict[Value, ReducedDims] = {}
        for value, reduction in self._reductions.items():
            dims = left.get(self._shape(reduction)) if reduction.dims else None
            if dims is not None and value not in over and self.leads_to(value, {shape}):
                found[value] = frozenset(dims[d] for d in reduction.dims)
        return found

    def leads_to(self, value: Value, shapes: Set[Shape]) -> bool:
        """Whether elements of one of some shapes follow from a value."""
        pending, seen = [value], {value}
        while pending:
            outputs = [output for use in pending.pop().uses for output in use.user.outputs]
            if any(getattr(self._known.get(output), "shape", None) in shapes for output in outputs):
                return True
            pending += [output for output in outputs if output not in seen]
            seen.update(outputs)
        return False

    def _held(self, space: Shape, over: Mapping[Value, ReducedDims]) -> Tile | None:
        """Of the dimensions that reductions go over, as many as fit: those from whose results elements follow, which
        would be read again, before others, and short ones before long ones."""
        dims: ReducedDims = frozenset()
        shapes = {self._known[self._reductions[value].operand].shape for value in over} | {space}
        asked = {found for value, found in over.items() if self.leads_to(value, shapes)}
        left_over = 1 if len(set(over.values())) > 1 and self._takes_turns(over) else LEAST_PROGRAMS
        most = min(
            (most_points(self._known[self._reductions[value].operand].dtype) for value in over), default=MOST_WORDS
        )
        long = _too_long(space, set(over.values()), left_over, most)
        small = [found for found in set(over.values()) if found not in long]
        for found in sorted(small, key=lambda found: (found not in asked, _points(space, found), sorted(found))):
            wider = dims | found
            least = left_over if found in asked else LEAST_PROGRAMS
            if _points(space, wider) <= most and _others(space, wider) >= least:
                dims = wider
        in_part = any(found & dims and not dims <= found for found in over.values())
        return Tile(space, dims) if in_part else None

    def _takes_turns(self, over: Mapping[Value, ReducedDims]) -> bool:
        """Whether reductions over some axes follow from those over others, and those from others again."""
        last: dict[Value, tuple[int, ReducedDims]] = {}
        for node in self._graph.nodes:
            turns, dims = max(
                (last[value] for value in node.inputs if value in last),
                key=lambda found: found[0],
                default=(0, frozenset[int]()),
            )
            for value in node.outputs:
                own = over.get(value)
                if own is not None and own != dims:
                    last[value] = (turns + 1, own)
                    if turns + 1 >= TURNS:
                        return True
                elif turns:
                    last[value] = (turns, dims)
        return False


def _part_of(shape: Shape, space: Shape) -> list[int] | None:
    """Which dimensions of a space those of a tensor are that lacks some of them, or has 1 in their place."""
    if len(space) < 3 or not 1 < len(shape) <= len(space) or shape[0] != space[0]:
        return None
    long = [d for d, size in enumerate(space) if d and size != 1]
    for count in range(1, len(long)):
        for gone in combinations(long, count):
            kept = [d for d in range(len(space)) if d not in gone]
            if shape == tuple(1 if d in gone else size for d, size in enumerate(space)):
                return list(range(len(space)))
            if shape == tuple(space[d] for d in kept):
                return kept
    return None


def _is_few(size: int) -> bool:
    return type(size) is int and 1 < size <= MOST_STREAMS


def most_points(dtype: DType) -> int:
    """Points that a tile may have of values that are computed of such elements."""
    return MOST_WORDS // -(-dtype.itemsize // 4)


def _too_long(space: Shape, over: Set[ReducedDims], left_over: int, most: int) -> set[ReducedDims]:
    """Of what is reduced together, what has open sizes and is not held: nothing is asked of a size for which no tile
    could be, however short it is."""
    opened = {found for found in over if any(is_open(space[d]) for d in found)}
    unions: set[ReducedDims] = {frozenset()}
    for found in over if opened else ():
        unions |= {union | found for union in unions}
    held: set[int] = set()
    for union in unions:
        if any(found & union and not union <= found for found in over):
            others = [size for d, size in enumerate(space) if d not in union]
            if any(map(is_open, others)) or prod(others) >= left_over:
                held |= union
    return {found for found in opened if not found <= held or _points(space, found) > most}


def refined(shapes: Sequence[Shape]) -> Shape | None:
    """The fewest sizes of which the dimensions of tensors of as many elements are runs; None where they lie across."""
    cuts: set[int] = {1}
    for shape in shapes:
        stride = 1
        for size in shape[:0:-1]:
            stride *= size
            cuts.add(stride)
    if 0 in cuts:
        return None
    ordered = sorted(cuts)
    total = prod(shapes[0])
    if any(high % low for low, high in pairwise(ordered)) or total % ordered[-1]:
        return None
    sizes = [high // low for low, high in pairwise(ordered)]
    return (total // ordered[-1], *reversed(sizes))


def _along(shape: Shape, dims: Iterable[int], space: Shape) -> ReducedDims:
    """The dimensions of a space that some of a shape's consist of."""
    if shape == space:
        return frozenset(dims)
    found: set[int] = set()
    ends = _strides(space)
    for dim in dims:
        low = prod(shape[dim + 1 :])
        found |= {d for d, stride in enumerate(ends) if low <= stride < low * shape[dim] and space[d] != 1}
    return frozenset(found)


def _strides(space: Shape) -> list[int]:
    return [prod(space[d + 1 :]) for d in range(len(space))]


def _points(space: Shape, dims: Iterable[int]) -> int:
    return prod(next_power(space[d]) for d in dims)


def _others(space: Shape, dims: ReducedDims) -> int:
    return prod(size for d, size in enumerate(space) if d not in dims)

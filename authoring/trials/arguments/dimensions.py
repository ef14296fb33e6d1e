"""Which dimensions of several tensors go together, and the sizes to try for each: 0, 1, 2 and more, all unlike.

A function says by running which sizes may change: a dimension that changes alone is free, dimensions that only change
together are one, such as the rows of one factor and the columns of the other, and one that never changes is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations

from ....compiler.ops.arguments import Shape
from .shapes import ShapeList

DimensionPlace = tuple[int, int]
"""A tensor by its number, and one of its dimensions."""
Fits = Callable[[ShapeList], bool]

SIZES = (0, 1, 2)
LARGER = (3, 5, 4, 7, 6, 8)
"""Sizes that a dimension is moved to, until one fits that no other dimension has."""
MAX_TOGETHER = 3
"""As many equal dimensions are moved at once, and then all of them."""


def tied_dimensions(shapes: ShapeList, fits: Fits, data: Sequence[int] = ()) -> list[tuple[DimensionPlace, ...]]:
    """The dimensions that can be changed, each with those that must change with it. `fits` says what runs.

    Indices and masks, which tensors are `data`, may run beside more numbers than they are meant for, so a dimension
    goes with an equal one of theirs if it can.
    """
    places = [(i, axis) for i, shape in enumerate(shapes) for axis in range(len(shape))]
    found: list[tuple[DimensionPlace, ...]] = []
    taken: set[DimensionPlace] = set()
    for place in places:
        if place in taken:
            continue
        alike = [p for p in places if p not in taken and p != place and _size(shapes, p) == _size(shapes, place)]
        beside = [p for p in alike if (p[0] in data) != (place[0] in data)]
        companies = chain(((place, other) for other in beside), _companies(place, alike))
        group = next((g for g in companies if _moves(shapes, g, fits)), None)
        if group is not None:
            found.append(group)
            taken.update(group)
    return found


def _companies(place: DimensionPlace, alike: Sequence[DimensionPlace]) -> Iterator[tuple[DimensionPlace, ...]]:
    """A dimension alone, with one or two others of its size, with all of them."""
    for count in range(min(MAX_TOGETHER, len(alike) + 1)):
        yield from ((place, *others) for others in combinations(alike, count))
    if len(alike) >= MAX_TOGETHER:
        yield (place, *alike)


def _moves(shapes: ShapeList, group: Sequence[DimensionPlace], fits: Fits) -> bool:
    size = _size(shapes, group[0])
    return any(fits(with_dimension(shapes, group, other)) for other in (size + 1, 2 * size + 2))


def sizes_to_try(
    shapes: ShapeList, groups: Sequence[tuple[DimensionPlace, ...]], fits: Fits, named: Sequence[int] = ()
) -> Iterator[ShapeList]:
    """All dimensions unlike each other, then each of them in turn at 0, 1, 2, a larger size, and those `named`."""
    unlike = shapes
    for group in groups:
        others = {n for i, s in enumerate(unlike) for a, n in enumerate(s) if (i, a) not in group} | {0, 1}
        if _size(unlike, group[0]) in others:
            moved = (with_dimension(unlike, group, n) for n in (2, *LARGER) if n not in others)
            unlike = next(filter(fits, moved), unlike)
    yield unlike
    for group in groups:
        yield from (with_dimension(unlike, group, n) for n in (*SIZES, *named))
        yield next(filter(fits, (with_dimension(unlike, group, n) for n in (4, 6, 8, 5))), unlike)


def batched(shapes: ShapeList) -> Iterator[ShapeList]:
    """A dimension more in front of all tensors, and of each alone; the first of all gone."""
    yield tuple((2, *shape) for shape in shapes)
    yield from (tuple((2, *s) if i == j else s for j, s in enumerate(shapes)) for i in range(len(shapes)))
    if all(shapes):
        yield tuple(shape[1:] for shape in shapes)


def with_dimension(shapes: ShapeList, group: Sequence[DimensionPlace], size: int) -> ShapeList:
    """The shapes with every dimension of a group at another size."""
    changed: list[Shape] = []
    for i, shape in enumerate(shapes):
        changed.append(tuple(size if (i, axis) in group else n for axis, n in enumerate(shape)))
    return tuple(changed)


def _size(shapes: ShapeList, place: DimensionPlace) -> int:
    return shapes[place[0]][place[1]]

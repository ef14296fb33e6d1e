"""Shapes to try for the tensors that a function takes, likely ones first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from typing import TypeAlias

from numpy import broadcast_shapes

from ....compiler.ops.arguments import Shape

ShapeList: TypeAlias = tuple[Shape, ...]

SINGLE: tuple[Shape, ...] = (
    (3, 4), (5,), (4, 4), (2, 3, 4), (), (1,), (1, 3), (3, 1), (2, 2, 4, 4), (8,), (12,), (2, 6), (0,), (0, 3),
    (2, 2, 4, 4, 4),
)  # fmt: skip
"""For a function of one tensor."""

STRUCTURED: dict[int, tuple[ShapeList, ...]] = {
    2: (
        ((3, 4), (4, 5)),  # a matrix product
        ((2, 3), (3,)),  # a weight for the last dimension
        ((2, 3), (2,)),  # scores and labels
        ((3, 4), (5, 4)),  # a linear map, weight by rows
        ((2, 3, 4), (2, 4, 5)),  # a batch of products
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((3,), (4,)),
        ((4, 4), (4, 4)),
        ((4, 4), (4, 3)),
        ((4, 4), (4,)),
        ((5, 4), (3,)),  # rows of a table
        ((3,), (5, 4)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (3,)),
        ((3, 4, 2), (3, 2)),
        ((2, 3, 5), (4, 3, 2)),  # a convolution
        ((1, 2, 5, 5), (3, 2, 2, 2)),
        ((2, 4), (3, 4)),
        ((3, 2), (3, 4)),
        ((2, 3, 4), (2, 5, 4)),
        ((2, 3), (4, 5)),
    ),
    3: (
        ((2, 3), (3,), (3,)),  # a norm
        ((3, 4), (4, 5), (5,)),  # an affine map
        ((3, 4), (5, 4), (5,)),
        ((3, 4), (4, 5), (4, 5)),  # a gated unit
        ((3, 4), (5, 4), (5, 4)),
        ((3, 5), (3, 4), (4, 5)),  # addmm
        ((5,), (3, 4), (4, 5)),
        ((3, 4), (4, 5), (5, 2)),  # a chain of products
        ((3, 4), (5, 4), (5, 4)),  # attention
        ((2, 3, 4), (2, 5, 4), (2, 5, 4)),
        ((2, 3, 4), (4, 5), (5,)),
        ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
        ((3, 5), (2, 3, 4), (2, 4, 5)),
        ((3, 4), (3, 2), (3, 2)),  # halves
        ((3, 4), (2,), (2,)),
        ((3,), (3, 4), (4,)),  # a bilinear form
        ((3, 4), (2, 3, 4), (4,)),
        ((2, 3, 5), (4, 3, 2), (4,)),
        ((1, 2, 5, 5), (3, 2, 2, 2), (3,)),
        ((2, 3), (4, 3), (4, 4)),
        ((4, 5), (4,), (5,)),
        ((2, 3), (2, 4), (5, 7)),
        ((2, 3, 5), (3,), (3,)),
        ((2, 3, 2, 2), (3,), (3,)),
    ),
    4: (
        ((3, 4), (4, 5), (5,), (5, 2)),
        ((3, 4), (4, 5), (4, 5), (5, 4)),
        ((3, 4), (5, 4), (5, 4), (4, 5)),
        ((2, 3), (2, 4), (4, 3), (4, 4)),
        ((3, 4), (4, 5), (4, 5), (5,)),
        ((2, 3, 5), (3,), (3,), (3,)),
    ),
    5: (
        ((2, 3), (3, 4), (4,), (4, 2), (2,)),
        ((2, 3), (4, 3), (4,), (2, 4), (2,)),
        ((2, 3, 5), (3,), (3,), (3,), (3,)),
        ((2, 3), (3,), (3,), (3,), (3,)),
        ((2, 3), (2, 4), (4, 3), (4, 4), (4,)),
    ),
}
"""Families of shapes that go together, by number of tensors."""

MAX_BESIDE = 600
"""Assignments tried beside shapes that are given."""
MIXED = 1200
"""Assignments drawn when no family fits."""
_REDUCED: tuple[Shape, ...] = ((3,), (2, 1), (1, 3), (), (1,))


def equal_shapes(count: int) -> Iterator[ShapeList]:
    """All tensors of one shape."""
    for shape in SINGLE if count == 1 else ((2, 3), (2, 2, 3), (), (3,), (1,), (0, 3)):
        yield (shape,) * count


def one_smaller(count: int) -> Iterator[ShapeList]:
    """One tensor smaller than the others, each in turn; and each stretched along another dimension."""
    for shape in _REDUCED:
        for i in range(count):
            yield tuple(shape if j == i else (2, 3) for j in range(count))
    for first in (0, 1):
        yield tuple((2, 1) if j % 2 == first else (1, 3) for j in range(count))
    yield tuple((2, 1, 3) if j == 0 else (4, 1) for j in range(count))


def structured(count: int) -> Iterator[ShapeList]:
    """Families that go together, then squares, vectors and numbers in every combination."""
    yield from STRUCTURED.get(count, ())
    if count <= 6:
        yield from product(((4, 4), (4,), ()), repeat=count)


def candidate_shapes(count: int, pointwise: bool = False) -> Iterator[ShapeList]:
    """Every assignment of shapes to `count` tensors worth trying, likely ones first, none twice."""
    seen: set[ShapeList] = set()
    sources: list[Iterable[ShapeList]]
    if count == 1:
        sources = [equal_shapes(1)]
    elif pointwise:
        sources = [equal_shapes(count), one_smaller(count), structured(count)]
    else:
        sources = [STRUCTURED.get(count, ()), equal_shapes(count), one_smaller(count), structured(count)]
    for source in sources:
        for shapes in source:
            if shapes not in seen:
                seen.add(shapes)
                yield shapes


def beside(given: Sequence[Shape], count: int) -> Iterator[ShapeList]:
    """Shapes for `count` tensors beside some whose shapes are given: those again, then what their sizes make up."""
    if not given:
        return
    sizes = list(dict.fromkeys(size for shape in given for size in shape))
    pool = [*given, *((n,) for n in sizes), *product(sizes, repeat=2), ()]
    yield from islice(product(dict.fromkeys(pool), repeat=count), MAX_BESIDE)


def mixed(count: int) -> Iterator[ShapeList]:
    """Ranks 1 to 4 with sizes 1 to 6 in an order without pattern, the same each time."""
    pool = ((2, 3), (3, 2), (3, 3), (5,), (2,), (2, 3, 4), (3, 4, 4), (1, 2, 4, 4), (2, 4, 5), (3, 5), (6, 4), (3,))
    from random import Random  # which is slow to load, and seldom asked for

    draw = Random(count)
    for _ in range(MIXED):
        yield tuple(draw.choice(pool) for _ in range(count))


def kind_of_shapes(shapes: ShapeList) -> str:
    """What an assignment of shapes exercises, in a word."""
    if any(0 in shape for shape in shapes):
        return "empty"
    if len(set(shapes)) <= 1:
        return "number" if not shapes or shapes[0] == () else "equal"
    return "mixed"


def shape_signature(shapes: ShapeList) -> tuple[tuple[str, ...], ...]:
    """Ranks, and which dimensions have size 1 or 0: shapes of one signature are alike to most functions."""
    return tuple(tuple("0" if n == 0 else "1" if n == 1 else "n" for n in shape) for shape in shapes)


def is_stretched(some: ShapeList, every: ShapeList) -> bool:
    """Whether some tensors are broadcast beyond each other by the rest."""
    try:
        return broadcast_shapes(*some) != broadcast_shapes(*every)
    except ValueError:
        return False

"""The rows of other reductions of the same elements, with which a reduction that is none of rows may share a pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from ...ir.node import Value
from ...ops.arguments import Shape
from .reductions import Reduction, is_of_rows

Reductions: TypeAlias = Mapping[Value, Reduction]


def rows_of_others(
    shape: Shape, reductions: Reductions, known: Mapping[Value, Any], few: int
) -> Iterator[tuple[Shape, tuple[int, ...]]]:
    """The shapes other than a tensor's of which rows are reduced, and the dimensions that these rows lie along."""
    found = dict.fromkeys((known[other.operand].shape, other.dims) for other in reductions.values() if other.dims)
    for theirs, dims in found:
        if theirs != shape and is_of_rows(theirs, dims, few):
            yield theirs, dims


def rows_within(
    shape: Shape, reduction: Reduction, reductions: Reductions, known: Mapping[Value, Any], few: int
) -> tuple[int, ...]:
    """Of what a reduction goes over, the dimensions along which rows lie for other reductions of the same points.

    So that both share a pass: rows are reduced first, and their results across programs.
    """
    mine = frozenset(reduction.dims)
    for other in reductions.values():
        theirs = frozenset(other.dims)
        if theirs and known[other.operand].shape != shape:
            theirs = _last_dims(shape, known[other.operand].shape, other.dims, few)
        if not theirs < mine or not theirs:
            continue
        for dims in (theirs, mine - theirs):
            if is_of_rows(shape, sorted(dims), few):
                return tuple(sorted(dims))
    return ()


def _last_dims(shape: tuple[int, ...], other: tuple[int, ...], dims: Sequence[int], few: int) -> frozenset[int]:
    """The last dimensions of a shape that have as many elements as rows of another one along its last, which has the
    same elements in the same order; none where none have."""
    columns = prod(other[d] for d in dims)
    if not is_of_rows(other, dims, few) or prod(shape) != prod(other):
        return frozenset()
    first = next((d for d in range(len(shape)) if prod(shape[d:]) == columns), len(shape))
    return frozenset(d for d in range(first, len(shape)) if shape[d] != 1)

"""Dimensions and sizes as torch reads them: negative ones count from the end, a 0-d tensor has a dimension 0."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import TypeAlias

from .arrays import Array

Dims: TypeAlias = Sequence[int] | int | None


def wrap_dim(dim: int, rank: int) -> int:
    """A dimension in [0, rank); IndexError outside [-rank, rank), where a 0-d tensor counts as 1-d.

    Of an open number it is the one at hand: what looks it up, in a set among others, would not note what was asked.
    """
    bound = max(rank, 1)
    if not -bound <= dim < bound:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")
    return index(dim) % bound


def wrap_dims(dims: Sequence[int], rank: int) -> tuple[int, ...]:
    """Several dimensions, each at most once."""
    wrapped = tuple(wrap_dim(dim, rank) for dim in dims)
    for dim in wrapped:
        if wrapped.count(dim) > 1:
            raise RuntimeError(f"dim {dim} appears multiple times in the list of dims")
    return wrapped


def axes_of(dims: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    """NumPy's axes for a reduction over `dims`; None and an empty list mean all of them."""
    if isinstance(dims, int):
        dims = (dims,)
    wrapped = wrap_dims(dims, rank) if dims else range(rank)
    return tuple(dim for dim in wrapped if dim < rank)


def count(array: Array, axes: Sequence[int]) -> int:
    """How many elements each result of a reduction over `axes` is made of."""
    return prod(array.shape[axis] for axis in axes)


def at_least_1d(array: Array) -> Array:
    """A 0-d array as one element, so that it has the dimension 0 which torch gives it."""
    return array.reshape(1) if array.ndim == 0 else array


def along(dim: int, index: slice | int) -> tuple[slice | int, ...]:
    """The subscript that applies `index` to dimension `dim` (not negative) and leaves the others whole."""
    return (*(slice(None),) * dim, index)


def slice_bounds(start: int | None, end: int | None, size: int) -> tuple[int, int]:
    """Where a slice forwards begins and ends in a dimension."""
    return _within(start, size, 0), _within(end, size, size)


def _within(place: int | None, size: int, default: int) -> int:
    if place is None:
        return default
    return max(place + size, 0) if place < 0 else min(place, size)


def infer_size(shape: Sequence[int], numel: int) -> tuple[int, ...]:
    """The sizes with a -1 filled in so that they hold `numel` elements; RuntimeError where they cannot."""
    sizes = list(shape)
    unknown = [i for i, size in enumerate(sizes) if size == -1]
    if any(size < -1 for size in sizes):
        raise RuntimeError(f"invalid shape dimension {min(sizes)} in shape {sizes}")
    if len(unknown) > 1:
        raise RuntimeError(f"only one dimension can be inferred, but the shape is {sizes}")
    rest = prod(size for size in sizes if size != -1)
    if unknown and rest:
        sizes[unknown[0]] = numel // rest
    elif unknown:
        raise RuntimeError(f"cannot reshape tensor of {numel} elements into shape {sizes}: -1 is ambiguous")
    if prod(sizes) != numel:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(sizes)

"""Arrays of open sizes, without elements: what an op that is a view makes of addresses, told in terms of the sizes.

An op is evaluated on one as on any array. What it asks of NumPy is answered here as far as views go; what is not known
here ends in Unanswered, and then the op is asked for the sizes at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ...lang.light_dataclasses import dataclass
from ..types.open_sizes import is_open
from .arrays import numpy_dtype
from .dims import slice_bounds
from .meta import Meta


class Unanswered(Exception):
    """What is asked of an array of open sizes is none of what views ask."""


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a tensor in row-major order."""
    strides, stride = [], 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True, eq=False)
class OpenArray:
    """Element `o` lies at `offset + sum(strides * o)`, counted in elements, in the memory of the array that this is a
    view of; or, if `is_copy`, in some other."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: Any
    is_copy: bool = False

    @classmethod
    def of(cls, shape: Sequence[int], dtype: Any) -> OpenArray:
        return cls(tuple(shape), contiguous_strides(shape), 0, dtype)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        answer = _ANSWERS.get(function)
        if answer is None:
            raise Unanswered(str(function))
        return answer(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        raise Unanswered(name)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise Unanswered("elements")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0].__index__()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def T(self) -> OpenArray:  # noqa: N802
        return self.transpose()

    def transpose(self, *axes: Any) -> OpenArray:
        order = [*(axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)]
        order = order or [*range(self.ndim)][::-1]
        return self.seen([self.shape[a] for a in order], [self.strides[a] for a in order])

    def swapaxes(self, first: int, second: int) -> OpenArray:
        order = [*range(self.ndim)]
        order[first], order[second] = order[second], order[first]
        return self.transpose(order) if order else self

    def squeeze(self, axis: Sequence[int] | int | None = None) -> OpenArray:
        if axis is None:
            axis = [i for i, size in enumerate(self.shape) if size == 1]
        taken = {a % self.ndim for a in ([axis] if isinstance(axis, int) else axis)}
        if any(self.shape[a] != 1 for a in taken):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
        left = [a for a in range(self.ndim) if a not in taken]
        return self.transpose(left) if left else self.seen((), ())

    def reshape(self, *shape: Any) -> OpenArray:
        sizes = [*(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)]
        for place, size in enumerate(sizes):
            if size == -1:
                sizes[place] = self.size // prod(s for i, s in enumerate(sizes) if i != place)
        if prod(sizes) != self.size:
            raise ValueError(f"cannot reshape array of shape {self.shape!r} into shape {sizes!r}")
        strides = _strides_of_reshaped(self, sizes)
        if strides is None:
            return OpenArray(tuple(sizes), contiguous_strides(sizes), 0, self.dtype, is_copy=True)
        return self.seen(sizes, strides)

    def __getitem__(self, key: Any) -> OpenArray:
        items = [*key] if isinstance(key, tuple) else [key]
        places = sum(item is not None and item is not Ellipsis for item in items)
        if Ellipsis not in items:
            items.append(Ellipsis)
        at = items.index(Ellipsis)
        items[at : at + 1] = [slice(None)] * (self.ndim - places)
        shape: list[int] = []
        strides: list[int] = []
        offset, axis = self.offset, 0
        for item in items:
            if item is None:
                shape, strides = [*shape, 1], [*strides, 0]
                continue
            size, stride = self.shape[axis], self.strides[axis]
            axis += 1
            if isinstance(item, slice):
                start, count, step = _taken(item, size)
                shape, strides = [*shape, count], [*strides, stride * step]
                offset = offset + start * stride
            elif isinstance(item, int):
                offset = offset + (item + size if item < 0 else item) * stride
            else:
                raise Unanswered("a subscript of elements")
        return self.seen(shape, strides, offset)

    def seen(self, shape: Sequence[int], strides: Sequence[int], offset: int | None = None) -> OpenArray:
        """A view of it."""
        found = self.offset if offset is None else offset
        return OpenArray(tuple(shape), tuple(strides), found, self.dtype, self.is_copy)


def open_stand_in(value: Any) -> Any:
    """An OpenArray for a Meta, in lists too; anything else as it is."""
    if isinstance(value, Meta):
        return OpenArray.of(value.shape, numpy_dtype(value.dtype))
    return type(value)(map(open_stand_in, value)) if isinstance(value, list | tuple) else value


def has_open_sizes(values: Sequence[Any]) -> bool:
    """Whether a size among values, of a tensor or in a list, is open."""
    return any(
        is_open(value.shape)
        if isinstance(value, Meta)
        else has_open_sizes(value)
        if isinstance(value, list | tuple)
        else is_open(value)
        for value in values
    )


def _taken(item: slice, size: int) -> tuple[int, int, int]:
    """Where a slice begins, how many it takes, and its step."""
    step = 1 if item.step is None else item.step
    if step <= 0:
        raise Unanswered("a slice backwards")
    start, stop = slice_bounds(item.start, item.stop, size)
    return start, max(0, -(-(stop - start) // step)), step


def _strides_of_reshaped(array: OpenArray, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The strides of a view in another shape; None where there is no such view.

    Both shapes are cut into stretches of as many elements, and in each the old dimensions have to lie one in the other.
    """
    if array.size == 0:
        return contiguous_strides(shape)
    old = [(size, stride) for size, stride in zip(array.shape, array.strides, strict=True) if size != 1]
    new = [(place, size) for place, size in enumerate(shape) if size != 1]
    strides = [0] * len(shape)
    while new:
        if not old:
            return None
        first, sizes = [old.pop(0)], [new.pop(0)]
        while prod(size for size, _ in first) != prod(size for _, size in sizes):
            if prod(size for size, _ in first) < prod(size for _, size in sizes):
                if not old:
                    return None
                first.append(old.pop(0))
            elif new:
                sizes.append(new.pop(0))
            else:
                return None
        for (_, outer), (size, inner) in pairwise(first):
            if outer != size * inner:
                return None
        stride = first[-1][1]
        for place, size in reversed(sizes):
            strides[place], stride = stride, stride * size
    return tuple(strides)


# --- what NumPy is asked ---


def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> OpenArray:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not isinstance(array, OpenArray):
        array = OpenArray.of(np.shape(array), array.dtype)
    new = len(sizes) - array.ndim
    if new < 0:
        raise ValueError("input operand has more dimensions than allowed by the axis remapping")
    strides = [0] * new
    for have, want, stride in zip(array.shape, sizes[new:], array.strides, strict=True):
        if have != want and have != 1:
            raise ValueError("operands could not be broadcast together")
        strides.append(stride if have == want else 0)
    return array.seen(sizes, strides)


def _expand_dims(array: OpenArray, axis: Any) -> OpenArray:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = array.ndim + len(axes)
    new = {a % rank for a in axes}
    return array[tuple(None if place in new else slice(None) for place in range(rank))]


def _moveaxis(array: OpenArray, source: Any, destination: Any) -> OpenArray:
    sources = [a % array.ndim for a in ([source] if isinstance(source, int) else source)]
    places = [a % array.ndim for a in ([destination] if isinstance(destination, int) else destination)]
    order = [a for a in range(array.ndim) if a not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return array.transpose(order)


def _diagonal(array: OpenArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> OpenArray:
    first, second = axis1 % array.ndim, axis2 % array.ndim
    rows, columns = array.shape[first], array.shape[second]
    start = offset * array.strides[second] if offset >= 0 else -offset * array.strides[first]
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    rest = [a for a in range(array.ndim) if a not in (first, second)]
    return array.seen(
        (*(array.shape[a] for a in rest), count),
        (*(array.strides[a] for a in rest), array.strides[first] + array.strides[second]),
        array.offset + (start if count else 0),
    )


def _at_least(rank: int) -> Callable[[OpenArray], OpenArray]:
    def grown(array: OpenArray) -> OpenArray:
        if array.ndim >= rank:
            return array
        raise Unanswered("more dimensions")

    return grown


def _windows(array: OpenArray, window_shape: int, axis: int, **_: Any) -> OpenArray:
    axis %= array.ndim
    shape = [*array.shape]
    shape[axis] = shape[axis] - window_shape + 1
    return array.seen((*shape, window_shape), (*array.strides, array.strides[axis]))


_ANSWERS: dict[Any, Callable[..., OpenArray]] = {
    np.broadcast_to: _broadcast_to,
    np.expand_dims: _expand_dims,
    np.moveaxis: _moveaxis,
    np.diagonal: _diagonal,
    np.swapaxes: OpenArray.swapaxes,
    np.transpose: lambda array, axes=None: array.transpose(axes) if axes else array.transpose(),
    np.atleast_1d: _at_least(1),
    np.atleast_2d: _at_least(2),
    np.atleast_3d: _at_least(3),
    np.lib.stride_tricks.sliding_window_view: _windows,
}

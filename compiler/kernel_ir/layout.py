"""Where the elements of a tensor lie, and where those of a view of it do.

A view is known by what its op does to addresses: it is evaluated once on an array that stands for the tensor's memory
and is never read. So every op that is a view is understood, without a rule of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...lang.light_dataclasses import dataclass
from ..ops.meta import Meta, is_known
from ..ops.open_arrays import OpenArray, Unanswered, contiguous_strides, has_open_sizes, open_stand_in
from ..ops.registry import Op
from ..types.dtypes import DType
from ..types.open_sizes import closed


@dataclass(frozen=True, slots=True)
class Layout:
    """A tensor in memory: shape, dtype, strides in elements."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]

    @classmethod
    def contiguous(cls, meta: Meta) -> Layout:
        return cls(meta.shape, meta.dtype, contiguous_strides(meta.shape))

    @classmethod
    def found(cls, shape: tuple[int, ...], dtype: DType, strides: tuple[int, ...]) -> Layout:
        """Of a tensor that is there. What has no elements may have no memory, whatever its strides are: by those of
        `torch.tensor(np.zeros((0, 2)))`, which are 0, there were an element that no loop is needed for."""
        return cls(shape, dtype, contiguous_strides(shape) if 0 in shape else strides)

    @property
    def meta(self) -> Meta:
        return Meta(self.shape, self.dtype)

    def closed(self, atoms: Sequence[int]) -> Layout:
        """With values for open sizes, given one for each atom."""
        return Layout(closed(self.shape, atoms), self.dtype, closed(self.strides, atoms))


@dataclass(frozen=True, slots=True)
class StridedView:
    """Element `o` of a result is element `offset + sum(strides * o)` of the memory that was looked at."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


MAX_REMEMBERED = 10_000
_REMEMBERED: dict[Any, tuple[list[StridedView] | None]] = {}
"""What views of what are: the same few come up in each layer, and each time that a graph is looked at."""


def views_of(op: Op, arguments: Sequence[Any], position: int, layout: Layout) -> list[StridedView] | None:
    """What a view op makes of the tensor at `position` among its arguments: one StridedView per tensor that it gives.

    None where the result is no view, as of a reshape that must copy, or of an op that reads another tensor, and
    where an argument is not known.
    """
    if not is_known(arguments):
        return None
    if not all(layout.shape) or any(stride < 0 for stride in layout.strides):
        return None
    if has_open_sizes([layout.shape, layout.strides, *arguments]):
        with suppress(Unanswered):
            return _open_views(op, arguments, position, layout)
        return _closed_views(op, arguments, position, layout)
    key = (op.schema, position, layout.shape, layout.strides, *map(_key, arguments))
    try:
        found = _REMEMBERED.get(key)
    except TypeError:
        # Lists of lists, and elements of arrays, are no keys.
        return _closed_views(op, arguments, position, layout)
    if found is None:
        if len(_REMEMBERED) >= MAX_REMEMBERED:
            _REMEMBERED.clear()
        found = _REMEMBERED[key] = (_closed_views(op, arguments, position, layout),)
    return found[0]


def _key(argument: Any) -> Any:
    """Numbers of several types are equal, which no view asks for."""
    return (list, *argument) if isinstance(argument, list) else argument


def _closed_views(op: Op, arguments: Sequence[Any], position: int, layout: Layout) -> list[StridedView] | None:
    """As `views_of`, in terms of sizes that are known."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(layout.shape, layout.strides, strict=True))
    # Not touched: its pages are never there.
    memory = np.empty(extent, np.int8)
    stand_in = as_strided(memory, layout.shape, layout.strides)
    given = list(arguments)
    given[position] = stand_in
    if any(isinstance(argument, Meta) for argument in given):
        given = [np.empty(a.shape, np.int8) if isinstance(a, Meta) else a for a in given]
    try:
        result = op.evaluate(*given)
    except Exception:
        return None
    results = list(result) if isinstance(result, list | tuple) else [result]
    start = memory.__array_interface__["data"][0]
    found = []
    for array in results:
        if not isinstance(array, np.ndarray) or array.dtype != np.int8:
            return None
        if array.size and not np.may_share_memory(array, memory):
            return None
        found.append(StridedView(array.shape, array.strides, array.__array_interface__["data"][0] - start))
    return found


def _open_views(op: Op, arguments: Sequence[Any], position: int, layout: Layout) -> list[StridedView] | None:
    """As `views_of`, in terms of open sizes."""
    given = [open_stand_in(argument) for argument in arguments]
    given[position] = OpenArray(layout.shape, layout.strides, 0, np.dtype(np.int8))
    try:
        result = op.evaluate(*given)
    except Unanswered:
        raise
    except Exception:
        return None
    results = list(result) if isinstance(result, list | tuple) else [result]
    if any(not isinstance(array, OpenArray) or array.is_copy for array in results):
        return None
    return [StridedView(array.shape, array.strides, array.offset) for array in results]


__all__ = ["Layout", "StridedView", "contiguous_strides", "views_of"]

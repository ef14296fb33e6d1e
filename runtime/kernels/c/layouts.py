"""What plans for kernels in C depend on of arrays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ....compiler.fusion.unasked import float_key, planned_for
from ....compiler.kernel_ir.layout import Layout
from ....compiler.ops.meta import UNKNOWN
from ....compiler.types.dtypes import BY_NAME
from ..size_classes import SeenTensor


def seen_array(value: Any) -> SeenTensor | None:
    """What is seen of an array; None for anything else."""
    if not isinstance(value, np.ndarray):
        return None
    return SeenTensor(value.shape, None if value.flags.c_contiguous else _strides(value), BY_NAME[value.dtype.name])


def layout_of(value: Any, settled: bool) -> Any:
    """What is known of an argument before it runs: the layout of an array; of a float nothing, unless `settled`."""
    if isinstance(value, list):
        return [layout_of(item, settled) for item in value]
    if isinstance(value, np.ndarray):
        return Layout.found(value.shape, BY_NAME[value.dtype.name], _strides(value))
    return planned_for(value, settled)


def _strides(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    size = array.itemsize
    return tuple([stride // size for stride in array.strides])


def without_memory(values: Sequence[Any]) -> list[Any]:
    """Values as they are planned for, which keep no array's memory: elements are none to be read."""
    return [_without_memory(value) for value in values]


def _without_memory(value: Any) -> Any:
    if isinstance(value, list):
        return without_memory(value)
    if not isinstance(value, np.ndarray):
        return value
    return np.lib.stride_tricks.as_strided(np.empty((), value.dtype), value.shape, value.strides, writeable=False)


def addressable(values: Sequence[Any]) -> list[Any]:
    """The values; copies of arrays whose elements do not lie where elements of their dtype may."""
    return [_addressable(value) for value in values]


def _addressable(value: Any) -> Any:
    if isinstance(value, list):
        return addressable(value)
    if not isinstance(value, np.ndarray):
        return value
    flags, size = value.flags, value.itemsize
    if flags.aligned and (flags.forc or not any(stride % size for stride in value.strides)):
        return value
    return value.copy()


def has_tuples(values: Sequence[Any]) -> bool:
    """Whether there are tuples, which have not been taken apart: they might have been None, or are in lists."""
    return any(isinstance(value, tuple) or (isinstance(value, list) and has_tuples(value)) for value in values)


def program_key(values: Sequence[Any], settled: bool) -> Hashable:
    """What a program depends on."""
    key: list[Hashable] = []
    for value in values:
        if isinstance(value, np.ndarray):
            key += (value.dtype, value.shape, value.strides)
        elif isinstance(value, list):
            # Lists that a loop has kept are long, and one element is as the other.
            key += (list, len(value), *_described_apart(value, settled))
        elif isinstance(value, float):
            # Zeros differ in their signs, which equality does not see.
            key += float_key(value, settled)
        elif value is UNKNOWN:
            key.append("any")
        else:
            key.append((type(value), value))
    return tuple(key)


def _described_apart(values: Sequence[Any], settled: bool) -> list[Hashable]:
    """What a program depends on of the elements of a list; once where it is the same of all."""
    each = [program_key([value], settled) for value in values]
    return each[:1] if each and each.count(each[0]) == len(each) else each

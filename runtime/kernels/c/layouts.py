"""What plans for kernels in C depend on of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....compiler.fusion.seeds import is_unasked
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
        return Layout(value.shape, BY_NAME[value.dtype.name], _strides(value))
    return UNKNOWN if isinstance(value, float) and is_unasked(value, settled) else value


def _strides(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    size = array.itemsize
    return tuple([stride // size for stride in array.strides])

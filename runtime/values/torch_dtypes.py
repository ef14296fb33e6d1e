"""torch's dtypes beside ours, and tensors of arrays' memory. Imports no torch: who has one of its dtypes did that."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from ...compiler.ops.arrays import Array
from ...compiler.types.dtypes import DTYPES, DType

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
"""NumPy's, which torch neither takes nor shows: as int16 it passes."""


@cache
def torch_dtypes() -> dict[DType, Any]:
    """torch's dtype for each of ours."""
    torch = sys.modules["torch"]
    return {dtype: getattr(torch, dtype.name) for dtype in DTYPES}


@cache
def dtypes_of_torch() -> dict[Any, DType]:
    """Ours for each of torch's that programs compute with."""
    return {theirs: dtype for dtype, theirs in torch_dtypes().items()}


def torch_name(dtype: Any) -> str:
    """The name of a dtype of torch's, as messages say it."""
    return str(dtype).removeprefix("torch.")


def tensor_of(array: Array) -> Any:
    """A tensor of an array's memory, or of a copy where torch takes no such memory: read-only, reversed, unaligned."""
    torch = sys.modules["torch"]
    # An array of one element counts as contiguous with any strides, and torch looks at them all.
    if not array.flags.behaved or min(array.strides, default=0) < 0:
        array = array.copy()
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)

"""torch's dtypes beside ours, and tensors of arrays' memory. Imports no torch: who has one of its dtypes did that."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from ...compiler.ops.arrays import Array, numpy_dtype
from ...compiler.types.dtypes import BFLOAT16, DTYPES, DType
from ...compiler.types.lazy_numpy import np


@cache
def torch_dtypes() -> dict[DType, Any]:
    """torch's dtype for each of ours."""
    torch = sys.modules["torch"]
    return {dtype: getattr(torch, dtype.name) for dtype in DTYPES}


@cache
def dtypes_of_torch() -> dict[Any, DType]:
    """Ours for each of torch's that programs compute with."""
    return {theirs: dtype for dtype, theirs in torch_dtypes().items()}


def has_other_default() -> bool:
    """Whether torch's default dtype is another than that of programs."""
    torch = sys.modules["torch"]
    return torch.get_default_dtype() is not torch.float32


def torch_name(dtype: Any) -> str:
    """The name of a dtype of torch's, as messages say it."""
    return str(dtype).removeprefix("torch.")


def tensor_of(array: Array) -> Any:
    """A tensor of an array's memory, or of a copy where torch takes no such memory: read-only, reversed, unaligned."""
    torch = sys.modules["torch"]
    # An array of one element counts as contiguous with any strides, and torch looks at them all.
    if not array.flags.behaved or min(array.strides, default=0) < 0:
        array = array.copy()
    if array.dtype == numpy_dtype(BFLOAT16):
        # torch neither takes it nor shows it: as int16 it passes.
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)

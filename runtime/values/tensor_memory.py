"""The memory of a torch tensor as an array, unless torch is recording. Imports no torch: who has a tensor did that."""

from __future__ import annotations

import sys
from typing import Any

from ...compiler.ops.arrays import Array, numpy_dtype
from ...compiler.types.dtypes import BFLOAT16
from ...compiler.types.lazy_numpy import np
from .torch_dtypes import dtypes_of_torch
from .unsuitable import Unsuitable

_TYPES: dict[Any, str] = {}
"""torch's dtypes as NumPy's array interface writes them."""
_AS_INTS: set[Any] = set()
"""Of these, bfloat16: the interface has no word for it, and shows int16."""


def refuse_constants() -> None:
    """Unsuitable where torch records one run, as which what is computed on memory is a constant."""
    torch = sys.modules["torch"]
    if torch._C._get_tracing_state() is not None:
        message = "torch.jit.trace would keep the result of this one call as a constant"
        raise Unsuitable(message, "use torch.export or torch.compile, which see the call itself", kind=True)
    proxies = torch._C._TorchDispatchModeKey.PROXY
    if torch._C._len_torch_dispatch_stack() and torch._C._get_dispatch_mode(proxies) is not None:
        message = "make_fx would keep the result of this one call as a constant"
        raise Unsuitable(message, "trace a call of the function, `f(x)`, or of `gs.grad(f)`", kind=True)


class NoMemory(Exception):
    """A tensor without memory of its own: batched, fake, traced."""


class _Lent:
    """A tensor whose memory an array shows, and keeps from being freed."""

    __slots__ = ("__array_interface__", "tensor")
    __array_interface__: dict[str, Any]
    tensor: Any


def memory_of(tensor: Any) -> Array:
    """A view of a plain CPU tensor's memory; NoMemory where there is none.

    Unlike `Tensor.numpy()`, which has torch refuse to resize the tensor's storage ever after.
    """
    size = tensor.element_size()
    dtype = tensor.dtype
    try:
        address = tensor.data_ptr()
    except RuntimeError as error:
        raise NoMemory(str(error).splitlines()[0]) from error
    if not address and tensor.numel():
        raise NoMemory("it is on no memory at all")
    lent = _Lent()
    lent.tensor = tensor
    lent.__array_interface__ = {
        "version": 3,
        "typestr": _TYPES.get(dtype) or _type_of(dtype),
        "shape": tuple(tensor.shape),
        "strides": tuple([stride * size for stride in tensor.stride()]),
        "data": (address, False),
    }
    array: Array = np.asarray(lent)
    return array.view(numpy_dtype(BFLOAT16)) if dtype in _AS_INTS else array


def _type_of(dtype: Any) -> str:
    native = numpy_dtype(dtypes_of_torch()[dtype])
    if native == numpy_dtype(BFLOAT16):
        _AS_INTS.add(dtype)
        native = np.dtype(np.int16)
    return _TYPES.setdefault(dtype, native.str)

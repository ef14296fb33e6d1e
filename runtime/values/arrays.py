"""Arrays in and out: what a user passes becomes native NumPy arrays, and results become what the user passed.

torch tensors are shared, never copied, in both directions (a result that torch cannot view is the exception); so are
arrays of other libraries.
torch itself is imported only by a user who has a tensor to pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ...compiler.ops.arrays import Array, dtype_of, numpy_dtype, scalar_dtype
from ...compiler.types.dtypes import BFLOAT16, DTYPES, DType
from ...compiler.types.lazy_numpy import np
from .containers import alike, parts
from .describe import describe
from .foreign import from_foreign, is_foreign, maker_for
from .tensor_memory import NoMemory, memory_of, refuse_constants
from .torch_dtypes import dtypes_of_torch, tensor_of, torch_name
from .unsuitable import Unsuitable

SUPPORTED = ", ".join(dtype.name for dtype in DTYPES)
_LEAST, _MOST = -(2**63), 2**63 - 1
"""Of int64. A range would be walked to find an int of a subclass in it."""


@cache
def native() -> frozenset[np.dtype[Any]]:
    """The NumPy dtypes that ops compute with."""
    return frozenset(numpy_dtype(dtype) for dtype in DTYPES)


@cache
def _usual() -> frozenset[np.dtype[Any]]:
    """Those of NumPy itself: what holds bfloat16 is loaded where an array is of none of them."""
    return frozenset(numpy_dtype(dtype) for dtype in DTYPES if dtype != BFLOAT16)


def to_array(value: Any) -> Array:
    """A tensor argument as a native NumPy array; Unsuitable for what is none."""
    if type(value) is np.ndarray and (value.dtype in _usual() or value.dtype in native()):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _native(value)
    if isinstance(value, bool | int | float):
        if isinstance(value, int) and not _LEAST <= value <= _MOST:
            raise Unsuitable("the int does not fit int64", "pass it as a float")
        return np.asarray(value, numpy_dtype(scalar_dtype(value)))
    if is_torch(value):
        return _from_torch(value)
    if is_foreign(value):
        return _native(from_foreign(value, _type_name(value)))
    raise _no_tensor(value)


def all_native(values: Sequence[Any]) -> bool:
    """Whether `to_array` would return every value as it is: the usual case, made quick."""
    dtypes = _usual()
    for value in values:
        if type(value) is not np.ndarray or (value.dtype not in dtypes and value.dtype not in native()):
            return False
    return True


def is_torch(value: Any) -> bool:
    """Whether a value is a torch tensor. Does not import torch."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(value, tensor)


def _no_tensor(value: Any) -> Unsuitable:
    if isinstance(value, list | tuple):
        return Unsuitable(f"a Tensor is needed, not a {type(value).__name__}", "make an array of it: `np.array(…)`")
    if _type_name(value) == "torch.fx.proxy.Proxy":
        advice = "have torch.fx leave the call alone: wrap it in a function that `torch.fx.wrap` names"
        return Unsuitable("a Tensor is needed, not a torch.fx.proxy.Proxy", advice)
    if hasattr(value, "__array__"):
        return Unsuitable(f"a Tensor is needed, not a {_type_name(value)}", "convert it: `np.asarray(…)`")
    return Unsuitable(f"a Tensor is needed, not {describe_argument(value)}")


def describe_argument(value: Any) -> str:
    """What a user passed, in a few words."""
    if value is None:
        return "None"
    if is_torch(value):
        if value.is_nested:
            return "a nested torch tensor"
        return f"a torch tensor of {torch_name(value.dtype)}{list(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"an array of {describe(value)}"
    if isinstance(value, bool | int | float | str):
        return f"the {type(value).__name__} {describe(value)}"
    return f"a value of type {_type_name(value)}"


def _type_name(value: Any) -> str:
    module, name = type(value).__module__, type(value).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


# --- NumPy ---


def _native(value: Any) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise Unsuitable("a masked array has no tensor that keeps its mask", "fill it first: `x.filled(0)`", kind=True)
    array = np.asarray(value)
    dtype = array.dtype.newbyteorder("=")
    if dtype not in native():
        raise Unsuitable(f"dtype {array.dtype} is not supported", _dtype_advice(array.dtype), kind=True)
    return array if array.dtype in native() else array.astype(dtype)


def _dtype_advice(dtype: np.dtype[Any]) -> str:
    """What to convert an array of an unsupported dtype to."""
    if dtype.kind == "c":
        return "pass its real and imaginary parts as two tensors: `x.real`, `x.imag`"
    target = {"u": "int64", "f": "float64" if dtype.itemsize > 8 else "float32", "O": "float64"}.get(dtype.kind)
    advice = f"convert it: `x.astype(np.{target})`" if target else "pass numbers"
    return f"{advice}; supported are {SUPPORTED}"


# --- torch ---


def check_torch(tensor: Any, *, elsewhere: bool = False) -> None:
    """Unsuitable for a tensor of a kind that nothing here computes on; `elsewhere` allows devices besides the CPU."""
    if tensor.device.type == "meta" and not elsewhere:
        advice = "make one that has: `torch.empty_like(x, device='cpu')`"
        raise Unsuitable("the tensor is on device meta, which holds no data", advice, kind=True)
    if tensor.is_nested:
        raise Unsuitable("a nested tensor is not supported", "pass its parts as a list: `[*x.unbind()]`", kind=True)
    if str(tensor.layout) != "torch.strided":
        message = f"a tensor of layout {tensor.layout} is not supported"
        raise Unsuitable(message, "make it dense: `x.to_dense()`", kind=True)
    if not elsewhere and tensor.device.type != "cpu":
        raise Unsuitable(f"the tensor is on device {tensor.device}", "move it to the CPU: `x.cpu()`", kind=True)
    if tensor.dtype not in dtypes_of_torch():
        how = "x.dequantize()" if tensor.is_quantized else "x.to(…)"
        advice = f"convert it with `{how}`; supported are {SUPPORTED}"
        raise Unsuitable(f"dtype {torch_name(tensor.dtype)} is not supported", advice, kind=True)


def _from_torch(tensor: Any) -> Array:
    """The memory of a CPU tensor as an array. Its history is left behind."""
    refuse_constants()
    check_torch(tensor)
    if hasattr(tensor, "trigger_wait"):
        tensor = tensor.trigger_wait()
    plain = tensor.detach().resolve_neg()
    try:
        return memory_of(plain)
    except (NoMemory, RuntimeError, TypeError) as error:
        raise Unsuitable(f"the tensor has no memory to share: {error}", "pass a plain tensor", kind=True) from error


# --- results ---


FromArray = Callable[[Array], Any]
"""Makes of an array what its caller computes with."""


def maker_of(values: Sequence[Any]) -> FromArray | None:
    """What makes results of the kind that was passed: torch tensors, arrays of another library; None for NumPy's."""
    return tensor_of if any_torch(values) else maker_for(values)


def to_user(value: Any, make: FromArray | None) -> Any:
    """A result as the user gets it, by `maker_of` what was passed. Lists are the user's own."""
    if isinstance(value, np.ndarray):
        return value if make is None else make(value)
    if isinstance(value, list):
        return [to_user(item, make) for item in value]
    if isinstance(value, tuple):
        return tuple([to_user(item, make) for item in value])
    return value


def any_torch(values: Sequence[Any]) -> bool:
    """Whether a torch tensor is among the values or inside their lists and tuples."""
    if "torch" not in sys.modules:
        return False
    for value in values:
        if type(value) is np.ndarray:
            continue
        if any(map(is_torch, parts(value))) if isinstance(value, list | tuple) else is_torch(value):
            return True
    return False


def any_on_device(values: Sequence[Any]) -> bool:
    """Whether a torch tensor on another device than the CPU is among the values or inside their lists and tuples."""
    if "torch" not in sys.modules:
        return False
    return any(is_torch(value) and not value.is_cpu for value in parts(values))


def on_host(value: Any) -> Any:
    """A value whose torch tensors, in lists and tuples too, are copied to the CPU from other devices."""
    if not any_on_device([value]):
        return value
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return alike(value, [on_host(item) for item in value])
    return value.detach().cpu() if is_torch(value) and not value.is_cpu and not value.is_meta else value


def dtype_code(value: Any) -> int | None:
    """The code of a NumPy, torch or Gradscript dtype; None for any other object; Unsuitable for an unsupported one."""
    if isinstance(value, DType):
        return value.code
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        dtype = np.dtype(value).newbyteorder("=")
        if dtype not in native():
            raise Unsuitable(f"dtype {dtype} is not supported", f"supported are {SUPPORTED}")
        return dtype_of(np.empty(0, dtype)).code
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        if value not in dtypes_of_torch():
            raise Unsuitable(f"dtype {torch_name(value)} is not supported", f"supported are {SUPPORTED}")
        return dtypes_of_torch()[value].code
    return None

"""Arrays of other libraries: their memory is taken by DLPack, and results go back the same way.

x = jax.numpy.ones(3)          array_api_strict, CuPy's on the CPU, whatever has `__dlpack__`
f(x)                           a jax.Array, in memory that NumPy made
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...compiler.ops.arrays import Array
from ...compiler.types.lazy_numpy import np
from .containers import parts
from .unsuitable import Unsuitable

_HOST = frozenset((1, 3, 11))
"""What `__dlpack_device__` says of memory that the CPU reads: kDLCPU, kDLCUDAHost, kDLROCMHost."""
_seen = False


def is_foreign(value: Any) -> bool:
    """Whether a value that is neither NumPy's nor torch's is an array by DLPack."""
    return hasattr(type(value), "__dlpack__")


def from_foreign(value: Any, name: str) -> Array:
    """A view of an array's memory, of a dtype that NumPy has; Unsuitable for what has none that can be reached."""
    global _seen
    try:
        kind, _ = value.__dlpack_device__()
        array = np.from_dlpack(value) if kind in _HOST else None
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        array = _by_copy(value, name, error)
    if array is None:
        advice = "copy it to the CPU, or pass it as a tensor: `torch.from_dlpack(…)`"
        raise Unsuitable(f"a {name} is not on the CPU", advice, kind=True)
    _seen = True
    return array


def _by_copy(value: Any, name: str, error: Exception) -> Array:
    """What an array says that it holds, where DLPack has no word for it: bfloat16 in NumPy."""
    try:
        if hasattr(type(value), "__array__"):
            return np.asarray(value)
    except Exception as problem:
        error = problem
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    advice = "call it on arrays with data, outside of what traces it"
    raise Unsuitable(f"the memory of a {name} cannot be reached: {reason}", advice)


def maker_for(values: Sequence[Any]) -> Callable[[Array], Any] | None:
    """What makes arrays of the kind of the first foreign one among the values, in lists and tuples too; None where
    there is none, or its library has no namespace of the array API standard."""
    if not _seen:
        return None
    for value in parts(values):
        if isinstance(value, np.ndarray | np.generic) or not is_foreign(value):
            continue
        namespace = getattr(value, "__array_namespace__", None)
        return None if namespace is None else _Maker(namespace())
    return None


class _Maker:
    """Arrays of a library, of the memory of NumPy's."""

    def __init__(self, namespace: Any) -> None:
        self._namespace = namespace

    def __call__(self, array: Array) -> Any:
        # Not every library takes strides, and NumPy gives nothing away that is read-only.
        plain = array if array.flags.c_contiguous and array.flags.writeable else array.copy(order="C")
        try:
            return self._namespace.from_dlpack(plain)
        except (BufferError, RuntimeError, TypeError, ValueError):
            return self._namespace.asarray(plain)

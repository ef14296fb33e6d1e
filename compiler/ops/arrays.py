"""NumPy arrays under torch's rules: dtypes, promotion, and the precision in which things are computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isfinite, prod
from typing import Any, TypeAlias

from ..types.dtypes import (
    BFLOAT16,
    BY_CODE,
    DEFAULT_FLOAT,
    DTYPES,
    FLOAT32,
    FLOAT64,
    INT64,
    UINT8,
    DType,
    promote_ranked,
)
from ..types.dtypes import BOOL as BOOL_DTYPE
from ..types.lazy_numpy import ml_dtypes, np

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


class _ToNumpy(dict[DType, "np.dtype[Any]"]):
    """NumPy's dtype for each of ours, made when asked for: the first of them loads NumPy."""

    def __missing__(self, dtype: DType) -> np.dtype[Any]:
        self[dtype] = np.dtype(ml_dtypes.bfloat16 if dtype == BFLOAT16 else dtype.name)
        return self[dtype]


class _FromNumpy(dict["np.dtype[Any]", DType]):
    """Ours for each of NumPy's."""

    def __missing__(self, found: np.dtype[Any]) -> DType:
        self.update({_TO_NUMPY[dtype]: dtype for dtype in DTYPES if dtype != BFLOAT16})
        if found not in self:
            self[_TO_NUMPY[BFLOAT16]] = BFLOAT16
        if found not in self:
            raise KeyError(found)
        return self[found]


_TO_NUMPY, _FROM_NUMPY = _ToNumpy(), _FromNumpy()


def numpy_dtype(dtype: DType | int) -> np.dtype[Any]:
    """The NumPy dtype of an element type or of its int code."""
    return _TO_NUMPY[BY_CODE[dtype] if isinstance(dtype, int) else dtype]


def dtype_of(array: Array) -> DType:
    """The element type of an array; KeyError for one that torch has no counterpart of."""
    return _FROM_NUMPY[array.dtype]


@cache
def plain_floats() -> dict[np.dtype[Any], DType]:
    """The floats in which NumPy computes as torch does, so that there is nothing to widen."""
    return {_TO_NUMPY[dtype]: dtype for dtype in (FLOAT32, FLOAT64)}


def scalar_dtype(value: bool | int | float) -> DType:
    """The element type that a Python number stands for on its own."""
    if isinstance(value, bool):
        return BOOL_DTYPE
    return INT64 if isinstance(value, int) else DEFAULT_FLOAT


def result_dtype(*operands: Array | bool | int | float) -> DType:
    """The dtype that arrays and Python numbers have in common, as torch.result_type says."""
    ranks: list[list[DType]] = [[], [], []]
    for operand in operands:
        if isinstance(operand, np.ndarray):
            ranks[0 if operand.ndim else 1].append(dtype_of(operand))
        else:
            ranks[2].append(scalar_dtype(operand))
    result = promote_ranked(*ranks)
    assert result is not None
    return result


def float_dtype(dtype: DType) -> DType:
    """The dtype of an op that always gives a float: integers and bool become the default dtype."""
    return dtype if dtype.is_floating else DEFAULT_FLOAT


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which to compute a result of `dtype`: halves in float32, rounded once at the end."""
    return FLOAT32 if dtype.is_half else dtype


def float_limits(dtype: np.dtype[Any]) -> Any:
    """What `np.finfo` says of a floating dtype, and `ml_dtypes.finfo` of one that NumPy does not know."""
    return (np.finfo if dtype.kind == "f" else ml_dtypes.finfo)(dtype)


def is_element(value: bool | int | float, dtype: DType) -> bool:
    """Whether a Python number fits into a tensor."""
    target = _TO_NUMPY[dtype]
    if dtype == BOOL_DTYPE:
        return True
    if dtype.is_floating:
        largest = float(float_limits(target).max)
        return not isfinite(value) or -largest <= value <= largest
    limits = np.iinfo(target)
    lowest = -limits.max if dtype == UINT8 and not isinstance(value, float) else limits.min
    # The largest int64 is no float: in torch the next one, which is out of range, passes for it.
    largest = limits.max + (limits.bits == 64 and isinstance(value, float))
    return isfinite(value) and bool(lowest <= value <= largest)


def element(value: bool | int | float, dtype: DType) -> Any:
    """A Python number as an element that a tensor is filled with; RuntimeError where it does not fit.

    As in torch, ints below 0 wrap around in uint8, and infinities and NaN are elements of every float.
    """
    target = _TO_NUMPY[dtype]
    if dtype == BOOL_DTYPE:
        return np.bool_(value)
    if not is_element(value, dtype):
        raise RuntimeError(f"value {value} cannot be converted to {dtype} without overflow")
    if not dtype.is_floating and value == -float(np.iinfo(np.int64).min):
        value = np.iinfo(np.int64).min
    return np.asarray(value if dtype.is_floating else int(value)).astype(target)[()]


def as_half(argument: Any, half: DType) -> Any:
    """An argument as a half holds it, by way of float32 as torch rounds; beyond the range of halves it is infinite."""
    if isinstance(argument, np.ndarray) and dtype_of(argument) == half:
        return argument
    with np.errstate(over="ignore"):
        rounded = np.asarray(argument).astype(np.float32).astype(_TO_NUMPY[half])
    return rounded if isinstance(argument, np.ndarray) else float(rounded)


def can_fill(size: Sequence[int], value: bool | int | float, dtype: DType) -> bool:
    """Whether a tensor may be filled with a number. As in torch, a half that is alone overflows to infinity."""
    return is_element(value, dtype) or (dtype.is_half and prod(size) == 1)


def cast(array: Any, dtype: DType) -> Array:
    """The array (or number) in another dtype; the same array where nothing changes."""
    return np.asarray(array).astype(_TO_NUMPY[dtype], copy=False)


def refuse_bools(name: str, array: Array) -> None:
    """RuntimeError for a tensor of bools, where torch has the op for numbers alone."""
    if dtype_of(array) == BOOL_DTYPE:
        raise RuntimeError(f"{name}() takes no bool tensor; convert it: `x.float()`")


def refuse_whole_numbers(name: str, array: Array, *, but: Sequence[DType] = ()) -> None:
    """RuntimeError for a tensor of bools or integers, where torch has the op for floats and the dtypes `but` alone."""
    dtype = dtype_of(array)
    if not dtype.is_floating and dtype not in but:
        raise RuntimeError(f"{name}() takes no {dtype} tensor; convert it: `x.float()`")


def widen(array: Array) -> Array:
    """A half array in float32, any other as it is."""
    return cast(array, compute_dtype(dtype_of(array)))

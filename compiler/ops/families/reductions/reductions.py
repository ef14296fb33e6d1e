"""Reductions: sums, products, extremes, moments, truth and counts over some or all dimensions.

Source: torch's documentation of each op. float32 accumulates in float64, halves likewise, rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from ....ops import fitting, rules, shapes
from ....types.dtypes import BY_CODE, INT64, DType
from ....types.dtypes import UINT8 as UINT8_DTYPE
from ....types.lazy_numpy import np
from ...arrays import Array, cast, dtype_of, float_dtype, plain_floats, refuse_bools, result_dtype, widen
from ...dims import Dims, at_least_1d, axes_of, count, wrap_dim
from ...registry import Trait, declare
from .shapes import reduced, reduced_over

_R = Trait.REDUCTION
_TRUTH = Trait.REDUCTION | Trait.NONDIFFERENTIABLE


def accumulator(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype in which values of `dtype` are added up."""
    return np.dtype(np.float64) if dtype.is_floating else np.dtype(dtype.name)


def accumulate(fold: Callable[..., Any], array: Array, axes: tuple[int, ...], keepdim: bool, dtype: DType) -> Array:
    """Fold over `axes` with np.sum or np.prod, in the accumulator of `dtype`; not yet rounded to `dtype`."""
    wide = widen(cast(array, dtype))
    return np.asarray(fold(wide, axis=axes, dtype=accumulator(dtype), keepdims=keepdim))


def single(array: Array, dtype: DType) -> Array:
    """What squares and powers of `dtype` are computed in where torch does so in float32: all but float64."""
    return array.astype(np.float64 if dtype.itemsize == 8 else np.float32)


def summed_singly(array: Array, axes: tuple[int, ...], dtype: DType, *, keepdim: bool = True) -> Array:
    """A sum within the range of float32 where torch adds up in that, of all but float64; exact as one in float64 is."""
    total: Array = np.asarray(np.sum(array, axis=axes, dtype=np.float64, keepdims=keepdim))
    return np.asarray(single(total, dtype).astype(np.float64))


def total_dtype(array: Array, code: int | None) -> DType:
    """The dtype of a sum: the one asked for, else int64 for integers and bool."""
    dtype = dtype_of(array)
    return BY_CODE[code] if code is not None else dtype if dtype.is_floating else INT64


def require_float(name: str, dtype: DType) -> DType:
    """The dtype itself; RuntimeError where it is not floating."""
    if not dtype.is_floating:
        raise RuntimeError(
            f"{name}(): expected a floating point dtype, but got {dtype}; pass dtype or convert the input"
        )
    return dtype


def _sum(self: Array, dim: Dims, keepdim: bool, dtype: int | None) -> Array:
    target = total_dtype(self, dtype)
    return cast(accumulate(np.sum, self, axes_of(dim, self.ndim), keepdim, target), target)


def _total(self: Array, dtype: int | None) -> Array:
    """The sum of everything, as losses are: without the way there where the dtype stays."""
    if dtype is None and self.dtype in plain_floats():
        return np.asarray(np.add.reduce(self, None, np.float64), self.dtype)
    return _sum(self, None, False, dtype)


def _whole(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """The overload over all dimensions of an `evaluate(self, dim, keepdim, dtype)`."""
    return lambda self, dtype: reduce(self, None, False, dtype)


def _mean(self: Array, dim: Dims, keepdim: bool, dtype: int | None) -> Array:
    target = require_float("mean", BY_CODE[dtype] if dtype is not None else dtype_of(self))
    axes = axes_of(dim, self.ndim)
    total = summed_singly(widen(cast(self, target)), axes, target, keepdim=keepdim)
    return cast(np.true_divide(total, count(self, axes)), target)


def _prod(self: Array, dim: Dims, keepdim: bool, dtype: int | None) -> Array:
    target = total_dtype(self, dtype)
    return cast(accumulate(np.prod, self, axes_of(dim, self.ndim), keepdim, target), target)


def _nansum(self: Array, dim: Dims, keepdim: bool, dtype: int | None) -> Array:
    return _sum(_without_nan(self), dim, keepdim, dtype)


def _nanmean(self: Array, dim: Dims, keepdim: bool, dtype: int | None) -> Array:
    target = require_float("nanmean", BY_CODE[dtype] if dtype is not None else dtype_of(self))
    axes = axes_of(dim, self.ndim)
    counts = np.count_nonzero(~_isnan(self), axis=axes, keepdims=keepdim)
    total = summed_singly(widen(cast(_without_nan(self), target)), axes, target, keepdim=keepdim)
    return cast(np.true_divide(total, counts), target)


def _isnan(array: Array) -> Array:
    return np.isnan(widen(array)) if dtype_of(array).is_floating else np.zeros(array.shape, bool)


def _without_nan(array: Array) -> Array:
    return np.where(_isnan(array), np.zeros((), array.dtype), array)


def extreme(fold: Callable[..., Any], array: Array, axes: tuple[int, ...], keepdim: bool) -> Array:
    """The largest or smallest element (np.max, np.min); NaN wins. RuntimeError where there is none to take."""
    if array.size == 0 and count(array, axes) == 0:
        raise RuntimeError(f"cannot take the {fold.__name__} over dims {list(axes)} of an empty tensor {array.shape}")
    return cast(fold(widen(array), axis=axes, keepdims=keepdim), dtype_of(array))


def _extreme(fold: str) -> Callable[..., Array]:
    def evaluate(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        return extreme(getattr(np, fold), self, axes_of(dim, self.ndim), keepdim)

    return evaluate


def _aminmax(self: Array, dim: int | None, keepdim: bool) -> tuple[Array, Array]:
    axes = axes_of(dim, self.ndim)
    return extreme(np.min, self, axes, keepdim), extreme(np.max, self, axes, keepdim)


def _binary_extreme(fold: str) -> Callable[[Array, Array], Array]:
    def evaluate(self: Array, other: Array) -> Array:
        dtype = result_dtype(self, other)
        return cast(getattr(np, fold)(widen(cast(self, dtype)), widen(cast(other, dtype))), dtype)

    return evaluate


def _arg_extreme(find: str) -> Callable[[Array, int | None, bool], Array]:
    def evaluate(self: Array, dim: int | None, keepdim: bool) -> Array:
        wide = widen(self).reshape(-1) if dim is None else at_least_1d(widen(self))
        axis = 0 if dim is None else wrap_dim(dim, self.ndim)
        if wide.shape[axis] == 0:
            raise IndexError(f"{find}(): cannot reduce dimension {axis} of an empty tensor {self.shape}")
        found = np.asarray(getattr(np, find)(wide, axis=axis), np.int64)
        if self.ndim == 0:
            return found.reshape(())
        if not keepdim:
            return found
        return found.reshape((1,) * self.ndim) if dim is None else np.expand_dims(found, axis)

    return evaluate


def _place_of_extreme(find: str) -> Callable[[Array, int | None, bool], Array]:
    locate = _arg_extreme(find)

    def evaluate(self: Array, dim: int | None, keepdim: bool) -> Array:
        refuse_bools(find, self)
        return locate(self, dim, keepdim)

    return evaluate


def _extreme_along(find: str) -> Callable[[Array, int, bool], tuple[Array, Array]]:
    locate = _arg_extreme(find)

    def evaluate(self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
        return pick(self, dim, locate(self, dim, True), keepdim)

    return evaluate


def pick(array: Array, dim: int, index: Array, keepdim: bool) -> tuple[Array, Array]:
    """Values at `index` (of size 1 in dimension `dim`) and the index, with or without that dimension."""
    if array.ndim == 0:
        return array.copy(), index.reshape(())
    axis = wrap_dim(dim, array.ndim)
    values = np.take_along_axis(array, index, axis)
    return (values, index) if keepdim else (values.squeeze(axis), index.squeeze(axis))


def _logsumexp(self: Array, dim: Dims, keepdim: bool) -> Array:
    if not dim and not keepdim and self.ndim and self.size:
        raise RuntimeError("logsumexp: over no dimensions it keeps them all: give dimensions, or keepdim=True")
    dtype = float_dtype(dtype_of(self))
    axes = axes_of(dim, self.ndim)
    wide = widen(cast(self, dtype))
    top = np.max(wide, axis=axes, keepdims=True, initial=-inf)
    shift = np.where(np.isinf(top), np.zeros((), wide.dtype), top)
    total = np.log(np.sum(np.exp(wide - shift), axis=axes, keepdims=True, dtype=np.float64)) + shift
    return cast(total if keepdim else np.squeeze(total, axes), dtype)


def _truth(fold: str) -> Callable[..., Array]:
    def evaluate(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        found = np.asarray(getattr(np, fold)(self != 0, axis=axes_of(dim, self.ndim), keepdims=keepdim))
        return cast(found, UINT8_DTYPE) if dtype_of(self) == UINT8_DTYPE else found

    return evaluate


def _truth_over(fold: str) -> Callable[..., Array]:
    """As `_truth`, but a list of no dimensions reduces nothing, as torch has it here alone."""
    test = _truth(fold)
    return lambda self, dim=None, keepdim=False: test(self[..., None], -1) if dim == [] else test(self, dim, keepdim)


def _count_nonzero(self: Array, dim: Dims = None) -> Array:
    return np.asarray(np.count_nonzero(self != 0, axis=axes_of(dim, self.ndim)), np.int64)


def _trace(self: Array) -> Array:
    if self.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got a tensor of shape {self.shape}")
    refuse_bools("trace", self)
    return _sum(np.diagonal(self), None, False, None)


declare(
    "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    _total,
    traits=_R,
    result=rules.accumulated(1, 0),
    shape=reduced,
    dtype=shapes.summed,
)
declare(
    "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    _sum,
    traits=_R,
    result=rules.accumulated(3),
    shape=reduced,
    dtype=shapes.summed,
)
declare(
    "aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    _whole(_mean),
    traits=_R,
    result=rules.unless_asked(1, rules.like(rank=0)),
    shape=reduced,
)
declare(
    "aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    _mean,
    traits=_R,
    result=rules.unless_asked(3, rules.like()),
    shape=reduced,
)
declare(
    "aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    _whole(_prod),
    traits=_R,
    result=rules.accumulated(1, 0),
    shape=reduced,
    dtype=shapes.summed,
)
declare(
    "aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    _prod,
    traits=_R,
    result=rules.accumulated(3),
    shape=reduced,
    dtype=shapes.summed,
)
declare(
    "aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    _nansum,
    traits=_R,
    result=rules.accumulated(3),
    shape=reduced,
    dtype=shapes.summed,
)
declare(
    "aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    _nanmean,
    traits=_R,
    result=rules.unless_asked(3, rules.like()),
    shape=reduced,
)
declare(
    "aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    _logsumexp,
    traits=_R,
    result=rules.floating(rules.like()),
    shape=reduced,
)
declare(
    "aten::trace(Tensor self) -> Tensor",
    _trace,
    traits=_R,
    result=rules.accumulated(None, 0),
    shape=shapes.number,
    fits=fitting.is_matrix,
)
declare(
    "aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    _aminmax,
    traits=_R,
    result=rules.results(rules.like(), rules.like()),
    shape=reduced,
)

for _name, _fold, _find, _binary in (
    ("max", "max", "argmax", "maximum"),
    ("min", "min", "argmin", "minimum"),
):
    declare(
        f"aten::a{_name}(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        _extreme(_fold),
        traits=_R,
        result=rules.like(),
        shape=reduced,
    )
    declare(
        f"aten::{_name}(Tensor self) -> Tensor", _extreme(_fold), traits=_R, result=rules.like(rank=0), shape=reduced
    )
    declare(
        f"aten::{_name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        _extreme_along(_find),
        traits=_R,
        result=rules.results(rules.like(), rules.indices),
        shape=reduced,
    )
    declare(
        f"aten::{_name}.other(Tensor self, Tensor other) -> Tensor",
        _binary_extreme(_binary),
        result=rules.agreed(0, 1),
        shape=shapes.all_broadcast,
    )
    declare(
        f"aten::arg{_name}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        _place_of_extreme(_find),
        traits=_TRUTH,
        result=rules.indices,
        shape=reduced,
    )

for _name in ("all", "any"):
    declare(
        f"aten::{_name}(Tensor self) -> Tensor", _truth(_name), traits=_TRUTH, result=rules.truth(rank=0), shape=reduced
    )
    declare(
        f"aten::{_name}.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        _truth(_name),
        traits=_TRUTH,
        result=rules.truth(),
        shape=reduced,
    )
    declare(
        f"aten::{_name}.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        _truth_over(_name),
        traits=_TRUTH,
        result=rules.truth(),
        shape=reduced_over,
    )

declare(
    "aten::count_nonzero(Tensor self, int? dim=None) -> Tensor",
    _count_nonzero,
    traits=_TRUTH,
    result=rules.indices,
    shape=reduced,
)
declare(
    "aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
    _count_nonzero,
    traits=_TRUTH,
    result=rules.indices,
    shape=reduced,
)

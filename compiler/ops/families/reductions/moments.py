"""Variances and standard deviations, with the means beside them.

Source: torch's documentation of each op; Welford 1962, for steps that overflow where torch's do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ops import rules
from ....types.dtypes import DType
from ....types.lazy_numpy import np
from ...arrays import Array, cast, dtype_of
from ...dims import Dims, axes_of, count
from ...registry import Trait, declare
from .reductions import accumulate, require_float
from .shapes import reduced

_R = Trait.REDUCTION


_MAX_STEPS = 100_000


def _by_steps(wide: Array, axes: tuple[int, ...], divisor: float) -> tuple[Array, Array]:
    """Variance and mean by Welford's steps, as torch takes them: what they lose to overflow is lost here, too."""
    kept = [1 if axis in axes else size for axis, size in enumerate(wide.shape)]
    sizes = [size for axis, size in enumerate(wide.shape) if axis not in axes]
    rows = np.moveaxis(wide, axes, range(len(axes))).reshape(-1, *sizes)
    mean, total = np.zeros(rows.shape[1:]), np.zeros(rows.shape[1:])
    for number, row in enumerate(rows, 1):
        step = row - mean
        mean = mean + step / number
        total = total + step * (row - mean)
    return np.true_divide(total, divisor).reshape(kept), mean.reshape(kept)


def moments(
    self: Array, dim: Dims, correction: float, keepdim: bool, *, in_steps: bool = False
) -> tuple[Array, Array, DType]:
    """Variance and mean in the accumulator's precision, and the dtype to round them to."""
    dtype = require_float("var", dtype_of(self))
    axes = axes_of(dim, self.ndim)
    size = count(self, axes)
    mean = np.true_divide(accumulate(np.sum, self, axes, True, dtype), size)
    squares = np.square(self.astype(np.float64) - mean)
    divisor = max(size - correction, 0.0) if size else 0.0
    variance = np.true_divide(np.sum(squares, axis=axes, keepdims=True), divisor)
    if in_steps and 0 < size <= _MAX_STEPS and not np.all(np.isfinite(variance)):
        variance, mean = _by_steps(self.astype(np.float64), axes, divisor)
    if keepdim:
        return variance, mean, dtype
    return np.squeeze(variance, axes), np.squeeze(mean, axes), dtype


def _identity(variance: Array) -> Array:
    return variance


def _root(variance: Array) -> Array:
    return np.asarray(np.sqrt(variance))


def _moment(
    finish: Callable[[Array], Any], with_mean: bool
) -> Callable[[Array, Dims, float, bool], Array | tuple[Array, Array]]:
    """var, std, var_mean or std_mean, by what becomes of the variance."""

    def evaluate(self: Array, dim: Dims, correction: float, keepdim: bool) -> Array | tuple[Array, Array]:
        variance, mean, dtype = moments(
            self, dim, correction, keepdim, in_steps=with_mean or keepdim or dim not in (None, [], ())
        )
        spread = cast(finish(variance), dtype)
        return (spread, cast(mean, dtype)) if with_mean else spread

    return evaluate


for _name, _finish, _with_mean in (
    ("var", _identity, False),
    ("std", _root, False),
    ("var_mean", _identity, True),
    ("std_mean", _root, True),
):
    _moments = _moment(_finish, _with_mean)
    _returns = "(Tensor, Tensor)" if _with_mean else "Tensor"
    _like = rules.results(rules.like(), rules.like()) if _with_mean else rules.like()
    declare(
        f"aten::{_name}(Tensor self, bool unbiased=True) -> {_returns}",
        lambda self, unbiased, _f=_moments: _f(self, None, int(unbiased), False),
        traits=_R,
        result=_like,
        shape=reduced,
    )
    declare(
        f"aten::{_name}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> {_returns}",
        lambda self, dim, unbiased, keepdim, _f=_moments: _f(self, dim, int(unbiased), keepdim),
        traits=_R,
        result=_like,
        shape=reduced,
    )
    declare(
        f"aten::{_name}.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"
        f" -> {_returns}",
        lambda self, dim, correction, keepdim, _f=_moments: _f(
            self, dim, 1 if correction is None else correction, keepdim
        ),
        traits=_R,
        result=_like,
        shape=reduced,
    )

"""Scans along a dimension (cumsum and its kin), and softmax.

Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from ....ops import fitting, rules, shapes
from ....types.dtypes import BY_CODE, FLOAT32
from ....types.lazy_numpy import np
from ...arrays import Array, cast, dtype_of, widen
from ...dims import at_least_1d, wrap_dim
from ...registry import Trait, declare
from .reductions import accumulator, require_float, total_dtype

_R = Trait.REDUCTION


def _scan(fold: str) -> Callable[[Array, int, int | None], Array]:
    """A running sum or product, in the accumulator of the result's dtype."""

    def evaluate(self: Array, dim: int, dtype: int | None) -> Array:
        target = total_dtype(self, dtype)
        wide = at_least_1d(widen(cast(self, target)))
        scanned = getattr(np, fold).accumulate(wide, wrap_dim(dim, self.ndim), dtype=accumulator(target))
        if fold == "add" and target.is_floating and self.ndim:
            scanned += 0  # A sum starts from 0: of zeros of either sign it is 0. Without dimensions nothing is added.
        return cast(scanned, target).reshape(self.shape)

    return evaluate


def _logcumsumexp(self: Array, dim: int) -> Array:
    dtype = require_float("logcumsumexp", dtype_of(self))
    wide = at_least_1d(self).astype(np.float64)
    found = np.logaddexp.accumulate(wide, wrap_dim(dim, self.ndim))
    return cast(found + 0 if self.ndim else found, dtype).reshape(self.shape)


def _running_extreme(fold: str) -> Callable[[Array, int], tuple[Array, Array]]:
    """cummax and cummin: of equal elements the last one counts, and NaN once met stays."""

    def evaluate(self: Array, dim: int) -> tuple[Array, Array]:
        whole, axis = at_least_1d(self), wrap_dim(dim, self.ndim)
        wide = widen(whole)
        best = getattr(np, fold).accumulate(wide, axis)
        reached = (wide == best) | (wide != wide)
        shape = [-1 if i == axis else 1 for i in range(wide.ndim)]
        places = np.where(reached, np.arange(wide.shape[axis]).reshape(shape), 0)
        return cast(best, dtype_of(self)).reshape(self.shape), np.maximum.accumulate(places, axis).reshape(self.shape)

    return evaluate


def _exponentials(array: Array, axis: int) -> tuple[Array, Array, Array]:
    """Shifted logits, their exponentials and the sums of these, none of them rounded to a half."""
    shifted = array - np.max(array, axis=axis, keepdims=True, initial=-inf)
    powers = np.exp(shifted)
    return shifted, powers, np.sum(powers, axis=axis, keepdims=True, dtype=np.float64).astype(array.dtype)


def softmax(array: Array, axis: int) -> Array:
    """exp(x) / sum(exp(x)) of a wide array."""
    _, powers, totals = _exponentials(array, axis)
    return powers / totals


def log_softmax(array: Array, axis: int) -> Array:
    """x - log(sum(exp(x))) of a wide array."""
    shifted, _, totals = _exponentials(array, axis)
    return shifted - np.log(totals)


def _soft(name: str, evaluate: Callable[[Array, int], Array]) -> Callable[[Array, int, int | None], Array]:
    def with_dtype(self: Array, dim: int, dtype: int | None) -> Array:
        target = BY_CODE[dtype] if dtype is not None else dtype_of(self)
        axis = wrap_dim(dim, self.ndim)
        if not self.size:
            return cast(self, target)
        wide = at_least_1d(widen(cast(self, require_float(name, target))))
        return cast(evaluate(wide, axis), target).reshape(self.shape)

    return with_dtype


def _soft_native(evaluate: Callable[[Array, int, int | None], Array]) -> Callable[[Array, int, bool], Array]:
    return lambda self, dim, half_to_float: evaluate(self, dim, FLOAT32.code if half_to_float else None)


def _backward_data(vjp: Callable[[Array, Array, int], Array]) -> Callable[[Array, Array, int, int], Array]:
    def evaluate(grad_output: Array, output: Array, dim: int, input_dtype: int) -> Array:
        if grad_output.shape != output.shape:
            shape = list(output.shape)
            raise RuntimeError(f"softmax: a gradient of shape {list(grad_output.shape)} for a result of shape {shape}")
        grad, result = at_least_1d(widen(grad_output)), at_least_1d(widen(output))
        return cast(vjp(grad, result, wrap_dim(dim, output.ndim)), BY_CODE[input_dtype]).reshape(output.shape)

    return evaluate


def _total(array: Array, axis: int) -> Array:
    return np.sum(array, axis=axis, keepdims=True, dtype=np.float64).astype(array.dtype)


def _softmax_vjp(grad: Array, output: Array, axis: int) -> Array:
    return (grad - _total(grad * output, axis)) * output


def _log_softmax_vjp(grad: Array, output: Array, axis: int) -> Array:
    return grad - np.exp(output) * _total(grad, axis)


for _name, _fold in (("cumsum", "add"), ("cumprod", "multiply")):
    declare(
        f"aten::{_name}(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        _scan(_fold),
        traits=_R | Trait.LIBRARY,
        result=lambda types: rules.accumulated(2, rules.tensor_at(types, 0).rank)(types),
        shape=shapes.shape_of("self"),
        dtype=shapes.summed,
        fits=fitting.has_dimension,
    )
declare(
    "aten::logcumsumexp(Tensor self, int dim) -> Tensor",
    _logcumsumexp,
    traits=_R,
    result=rules.same(),
    shape=shapes.shape_of("self"),
    fits=fitting.has_dimension,
)
for _name, _extreme in (("cummax", "maximum"), ("cummin", "minimum")):
    declare(
        f"aten::{_name}(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        _running_extreme(_extreme),
        traits=_R | Trait.LIBRARY,
        result=rules.results(rules.same(), rules.indices),
        shape=shapes.shape_of("self"),
        fits=fitting.has_dimension,
    )

_Vjp = Callable[[Array, Array, int], Array]
_SOFT: tuple[tuple[str, Callable[[Array, int], Array], _Vjp], ...] = (
    ("softmax", softmax, _softmax_vjp),
    ("log_softmax", log_softmax, _log_softmax_vjp),
)

for _name, _forward, _vjp in _SOFT:
    _evaluate: Callable[..., Any] = _soft(_name, _forward)
    declare(
        f"aten::{_name}.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        _evaluate,
        traits=_R,
        result=rules.unless_asked(2, rules.same()),
        shape=shapes.shape_of("self"),
        fits=fitting.has_dimension,
    )
    declare(
        f"aten::_{_name}(Tensor self, int dim, bool half_to_float) -> Tensor",
        _soft_native(_evaluate),
        traits=_R,
        result=lambda types: rules.fixed(None, rules.tensor_at(types, 0).rank)(types),
        shape=shapes.shape_of("self"),
        fits=fitting.has_dimension,
    )
    declare(
        f"aten::_{_name}_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        _backward_data(_vjp),
        traits=_R,
        result=lambda types: rules.fixed(None, rules.tensor_at(types, 0).rank)(types),
        shape=shapes.shape_of("grad_output"),
    )

"""Vector norms and distances.

Source: torch's documentation of each op.
"""

from __future__ import annotations

from math import inf

from ....ops import rules, shapes
from ....types.dtypes import BY_CODE, DType, Number
from ....types.lazy_numpy import np
from ...arrays import Array, cast, dtype_of, refuse_bools, result_dtype, widen
from ...composite import composite
from ...dims import Dims, axes_of, count
from ...registry import Trait, declare
from .reductions import require_float, single, summed_singly
from .shapes import reduced

_R = Trait.REDUCTION


def vector_norm(self: Array, order: Number, dim: Dims, keepdim: bool, dtype: DType) -> Array:
    """The norm of `order`, of powers in float32 where torch's are, and within the range of that."""
    axes = axes_of(dim, self.ndim)
    if (order == inf or order < 0) and count(self, axes) == 0:
        raise RuntimeError(f"norm of order {order} over dims {list(axes)} of an empty tensor {self.shape}: no identity")
    size = np.abs(widen(cast(self, dtype)))
    if order in (inf, -inf):
        return cast((np.max if order > 0 else np.min)(size, axis=axes, keepdims=keepdim), dtype)
    if order == 0:
        return cast(np.sum(size != 0, axis=axes, keepdims=keepdim), dtype)
    size = single(size, dtype)
    with np.errstate(over="ignore", divide="ignore"):
        # Orders beyond its range are infinite, and those below it none, as in torch.
        exponent = size.dtype.type(order)
        root = size.dtype.type(1) / exponent
    powers = size if order == 1 else np.square(size) if order == 2 else np.power(size, exponent)
    total = summed_singly(powers, axes, dtype, keepdim=keepdim)
    return cast(total if order == 1 else np.sqrt(total) if order == 2 else np.power(total, root), dtype)


def _target(self: Array, dtype: int | None) -> DType:
    return require_float("norm", BY_CODE[dtype] if dtype is not None else dtype_of(self))


def _vector_norm(self: Array, order: Number, dim: Dims, keepdim: bool, dtype: int | None) -> Array:
    return vector_norm(self, order, dim, keepdim, _target(self, dtype))


def _norm(self: Array, p: Number | None, dim: Dims = None, keepdim: bool = False, dtype: int | None = None) -> Array:
    return _vector_norm(self, 2 if p is None else p, dim, keepdim, dtype)


def _norm_dtype(self: Array, p: Number | None, dtype: int) -> Array:
    return _norm(self, p, None, False, dtype)


def _dist(self: Array, other: Array, p: Number) -> Array:
    refuse_bools("dist", self)
    refuse_bools("dist", other)
    dtype = require_float("dist", result_dtype(self, other))
    return vector_norm(widen(cast(self, dtype)) - widen(cast(other, dtype)), p, None, False, dtype)


declare(
    "aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor", _norm, traits=_R, result=rules.like(rank=0), shape=reduced
)
declare(
    "aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
    _norm,
    traits=_R,
    result=rules.like(),
    shape=reduced,
)
declare(
    "aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
    _norm_dtype,
    traits=_R,
    result=rules.fixed(None, 0),
    shape=reduced,
)
declare(
    "aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
    _norm,
    traits=_R,
    shape=reduced,
)
composite(
    "aten::norm.str(Tensor self, str p, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"
)
declare(
    "aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *,"
    " ScalarType? dtype=None) -> Tensor",
    _vector_norm,
    traits=_R,
    result=rules.unless_asked(4, rules.like()),
    shape=reduced,
)
declare(
    "aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
    _dist,
    traits=_R,
    result=rules.agreed(0, 1, rank=0),
    shape=shapes.number,
)

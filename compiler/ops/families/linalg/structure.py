"""Triangles, diagonals and cross products.

Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ops import fitting, rules, shapes
from ....types.lazy_numpy import np
from ...arguments import Arguments, Shape
from ...arrays import Array, cast, dtype_of, result_dtype, widen
from ...dims import wrap_dim
from ...registry import Trait, declare


def _triangle(name: str) -> Callable[[Array, int], Array]:
    def evaluate(self: Array, diagonal: int) -> Array:
        if self.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, but its shape is {self.shape}")
        kept = getattr(np, name)(np.ones(self.shape[-2:], bool), diagonal)
        return np.where(kept, self, np.zeros((), self.dtype))

    return evaluate


def _diagonal(self: Array, offset: int, dim1: int, dim2: int) -> Array:
    axis1, axis2 = wrap_dim(dim1, self.ndim), wrap_dim(dim2, self.ndim)
    if axis1 == axis2 or self.ndim < 2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    # Beyond the matrix is as good as at its edge; NumPy takes no offset of more than 31 bits.
    within = max(-self.shape[axis1], min(offset, self.shape[axis2]))
    return np.diagonal(self, within, axis1, axis2)


def _diag_embed(self: Array, offset: int, dim1: int, dim2: int) -> Array:
    rank = self.ndim + 1
    axis1, axis2 = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if self.ndim == 0 or axis1 == axis2:
        raise RuntimeError(f"diag_embed: no diagonal in dims {dim1}, {dim2} for a tensor of shape {self.shape}")
    size = self.shape[-1] + abs(offset)
    result = np.zeros((*self.shape[:-1], size, size), self.dtype)
    places = np.arange(self.shape[-1])
    result[..., places + max(-offset, 0), places + max(offset, 0)] = self
    return np.moveaxis(result, (-2, -1), (axis1, axis2))


def _diag(self: Array, diagonal: int) -> Array:
    if self.ndim == 1:
        return _diag_embed(self, diagonal, -2, -1)
    if self.ndim == 2:
        return np.diagonal(self, diagonal).copy()
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")


def _cross(self: Array, other: Array, dim: int | None) -> Array:
    """The cross product along `dim`, or along the first dimension of size 3."""
    dtype = result_dtype(self, other)
    if self.dtype != other.dtype:
        raise RuntimeError(f"cross: expected tensors of one dtype, but got {dtype_of(self)} and {dtype_of(other)}")
    if self.ndim != other.ndim:
        raise RuntimeError(f"cross: shapes {self.shape} and {other.shape} have different numbers of dimensions")
    try:
        left, right = np.broadcast_arrays(widen(cast(self, dtype)), widen(cast(other, dtype)))
    except ValueError:
        raise RuntimeError(f"cross: shapes {self.shape} and {other.shape} do not fit") from None
    axis = next((i for i, size in enumerate(left.shape) if size == 3), 0) if dim is None else wrap_dim(dim, left.ndim)
    if left.ndim == 0 or self.shape[axis] != 3 or other.shape[axis] != 3:
        raise RuntimeError(f"cross: dimension {axis} of shapes {self.shape} and {other.shape} does not have size 3")
    a, b = np.moveaxis(left, axis, 0), np.moveaxis(right, axis, 0)
    parts = [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]
    return cast(np.stack(parts, axis), dtype)


# --- what is known of results ---


def _diag_shape(a: Arguments) -> Shape:
    shape, offset = a.shape("self"), a["diagonal"]
    if len(shape) == 1:
        return (shape[0] + abs(offset),) * 2
    return (max(min(shape[0] + min(offset, 0), shape[1] - max(offset, 0)), 0),)


def _diag_embed_shape(a: Arguments) -> Shape:
    shape = a.shape("self")
    rank = len(shape) + 1
    first, second = sorted(wrap_dim(a[name], rank) for name in ("dim1", "dim2"))
    size = shape[-1] + abs(a["offset"])
    result = [*shape[:-1]]
    result.insert(first, size)
    result.insert(second, size)
    return tuple(result)


for _name in ("tril", "triu"):
    declare(
        f"aten::{_name}(Tensor self, int diagonal=0) -> Tensor",
        _triangle(_name),
        result=rules.same(),
        shape=shapes.shape_of("self"),
        fits=fitting.is_matrix,
    )
declare("aten::diag(Tensor self, int diagonal=0) -> Tensor", _diag, result=rules.like(), shape=_diag_shape)
declare(
    "aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    _diag_embed,
    result=rules.shifted(1),
    shape=_diag_embed_shape,
)
declare(
    "aten::diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    _diagonal,
    traits=Trait.VIEW,
    result=rules.shifted(-1),
)
declare(
    "aten::linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    _diagonal,
    traits=Trait.VIEW,
    result=rules.shifted(-1),
)
declare(
    "aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
    _cross,
    result=rules.agreed(0, 1),
    shape=shapes.all_broadcast,
)
declare(
    "aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    _cross,
    result=rules.agreed(0, 1),
    shape=shapes.all_broadcast,
)

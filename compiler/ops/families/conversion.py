"""Ops that convert a tensor to another dtype, that take floats apart, and that fill one in the place of what it held.

Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ops import rules, shapes
from ...types.dtypes import (
    ALIASES,
    BFLOAT16,
    BOOL,
    BY_CODE,
    INT8,
    INT32,
    UINT8,
    DType,
    Number,
)
from ...types.lazy_numpy import np
from ...types.types import TensorType, Type
from ..arrays import Array, cast, dtype_of, widen
from ..registry import Trait, declare
from .creation import OPTIONS, filled


def _to(self: Array, dtype: int | None) -> Array:
    return self if dtype is None else cast(self, BY_CODE[dtype])


def _to_dtype(self: Array, dtype: int | None, *options: object) -> Array:
    return _to(self, dtype)


def _to_device(self: Array, device: object, dtype: int | None = None, *options: object) -> Array:
    return _to(self, dtype)


def _to_other(self: Array, other: Array, *options: object) -> Array:
    return self.astype(other.dtype, copy=False)


def _converter(dtype: DType) -> Callable[..., Array]:
    return lambda self, *options: cast(self, dtype)


def _fill(self: Array, value: Number | Array) -> Array:
    if isinstance(value, np.ndarray) and value.ndim:
        raise RuntimeError(f"fill only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    if not isinstance(value, np.ndarray):
        return filled(self.shape, value, dtype_of(self))
    return np.full(self.shape, value.astype(self.dtype), self.dtype)


def _zero(self: Array) -> Array:
    return np.zeros(self.shape, self.dtype)


def _copy(self: Array, src: Array, non_blocking: bool) -> Array:
    del non_blocking
    try:
        return np.broadcast_to(src.astype(self.dtype, copy=False), self.shape)
    except ValueError:
        raise RuntimeError(f"copy: a source of shape {src.shape} does not fit shape {self.shape}") from None


def _as_other(types: Sequence[Type]) -> Type:
    """The dtype of the second argument with the rank of the first."""
    return TensorType(rules.tensor_at(types, 1).dtype, rules.tensor_at(types, 0).rank)


def _converted(dtype: DType) -> rules.TypeRule:
    """Another dtype, the same rank."""
    return lambda types: TensorType(dtype, rules.tensor_at(types, 0).rank)


def _of_unknown_dtype(types: Sequence[Type]) -> Type:
    return TensorType(None, rules.tensor_at(types, 0).rank)


declare(
    "aten::as_tensor(Tensor data, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    _to_dtype,
    traits=Trait.MAY_ALIAS,
    result=rules.unless_asked(1, rules.same()),
    shape=shapes.shape_of("data"),
    dtype=shapes.of_leaves,
)

_COPY = "bool non_blocking=False, bool copy=False"
_COPY_AS = f"{_COPY}, MemoryFormat? memory_format=None"
declare(
    f"aten::to.dtype(Tensor self, ScalarType dtype, {_COPY_AS}) -> Tensor",
    _to_dtype,
    traits=Trait.MAY_ALIAS,
    result=_of_unknown_dtype,
    shape=shapes.shape_of("self"),
)
declare(
    f"aten::to.device(Tensor self, Device device, ScalarType dtype, {_COPY_AS}) -> Tensor",
    _to_device,
    traits=Trait.MAY_ALIAS,
    result=_of_unknown_dtype,
    shape=shapes.shape_of("self"),
)
declare(
    f"aten::to.other(Tensor self, Tensor other, {_COPY_AS}) -> Tensor",
    _to_other,
    traits=Trait.MAY_ALIAS,
    result=_as_other,
    shape=shapes.shape_of("self"),
)
declare(
    f"aten::to.prim_Device(Tensor self, Device? device, int? dtype=None, {_COPY}) -> Tensor",
    _to_device,
    traits=Trait.MAY_ALIAS,
    result=rules.unless_asked(2, rules.same()),
    shape=shapes.shape_of("self"),
)
declare(
    f"aten::to.prim_dtype(Tensor self, int? dtype=None, {_COPY}) -> Tensor",
    _to_dtype,
    traits=Trait.MAY_ALIAS,
    result=rules.unless_asked(1, rules.same()),
    shape=shapes.shape_of("self"),
)
declare(
    f"aten::to.dtype_layout(Tensor self, {OPTIONS}, {_COPY_AS}) -> Tensor",
    _to_dtype,
    traits=Trait.MAY_ALIAS,
    result=rules.unless_asked(1, rules.same()),
    shape=shapes.shape_of("self"),
)
declare(
    "aten::type_as(Tensor self, Tensor other) -> Tensor",
    _to_other,
    traits=Trait.MAY_ALIAS,
    result=_as_other,
    shape=shapes.shape_of("self"),
)

CONVERSIONS = {**ALIASES, "bfloat16": BFLOAT16, "bool": BOOL, "byte": UINT8, "char": INT8}
"""The methods that convert, `x.float()`, and what to."""
for _name, _target in CONVERSIONS.items():
    declare(
        f"aten::{_name}(Tensor self, MemoryFormat? memory_format=None) -> Tensor",
        _converter(_target),
        traits=Trait.MAY_ALIAS if _target.is_floating else Trait.MAY_ALIAS | Trait.NONDIFFERENTIABLE,
        result=_converted(_target),
        shape=shapes.shape_of("self"),
    )

declare(
    "aten::fill.Scalar(Tensor self, Scalar value) -> Tensor", _fill, result=rules.same(), shape=shapes.shape_of("self")
)
declare(
    "aten::fill.Tensor(Tensor self, Tensor value) -> Tensor", _fill, result=rules.same(), shape=shapes.shape_of("self")
)
declare(
    "aten::zero(Tensor self) -> Tensor",
    _zero,
    traits=Trait.SHAPE_ONLY,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)
declare(
    "aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
    _copy,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)


def _frexp(self: Array) -> tuple[Array, Array]:
    if not dtype_of(self).is_floating:
        raise RuntimeError("frexp() takes floats; convert them: `x.float()`")
    mantissa, exponent = np.frexp(widen(self))
    return cast(np.asarray(mantissa), dtype_of(self)), np.asarray(exponent, np.int32)


declare(
    "aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    _frexp,
    result=rules.results(rules.same(), rules.fixed(INT32)),
    shape=lambda a: [a.at(0), a.at(0)],
)

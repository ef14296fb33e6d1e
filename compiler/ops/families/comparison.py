"""Comparisons, logic, bits, and choosing between elements: `where`, `masked_fill`, `clamp`."""

from __future__ import annotations

from typing import Any

from ...ops import scalar as s
from ...types.lazy_numpy import np
from ..arrays import dtype_of, element, result_dtype
from ..elementwise import pointwise
from ..registry import Trait
from ..scalar import Scalar, ScalarOperand
from .pointwise import COMMUTATIVE, NONDIFFERENTIABLE, binary

# --- comparisons ---

SYMMETRIC = COMMUTATIVE | NONDIFFERENTIABLE
binary("eq", lambda x, y: x == y, dtype="bool", traits=SYMMETRIC, rounded=True)
binary("ne", lambda x, y: x != y, dtype="bool", traits=SYMMETRIC, rounded=True, aliases=("not_equal",))
binary("lt", lambda x, y: x < y, dtype="bool", traits=NONDIFFERENTIABLE, aliases=("less",), rounded=True)
binary("le", lambda x, y: x <= y, dtype="bool", traits=NONDIFFERENTIABLE, aliases=("less_equal",), rounded=True)
binary("gt", lambda x, y: x > y, dtype="bool", traits=NONDIFFERENTIABLE, aliases=("greater",), rounded=True)
binary("ge", lambda x, y: x >= y, dtype="bool", traits=NONDIFFERENTIABLE, aliases=("greater_equal",), rounded=True)


def _is_close(x: Scalar, y: Scalar, rtol: ScalarOperand, atol: ScalarOperand, equal_nan: bool) -> Scalar:
    distance = abs(x - y)
    is_near = (distance <= abs(y * rtol) + atol) & ~s.isinf(distance)
    close = (x == y) | is_near
    return close | (s.isnan(x) & s.isnan(y)) if equal_nan else close


def _check_tolerances(self: object, other: object, rtol: float, atol: float, equal_nan: bool) -> None:
    if not (rtol >= 0 and atol >= 0):
        raise RuntimeError(f"isclose: rtol and atol must be 0 or more, but are {rtol} and {atol}")


pointwise(
    "aten::isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    _is_close,
    dtype="bool of uniform",
    traits=NONDIFFERENTIABLE,
    check=_check_tolerances,
)
pointwise("aten::isnan(Tensor self) -> Tensor", s.isnan, dtype="bool", traits=NONDIFFERENTIABLE)
pointwise("aten::isinf(Tensor self) -> Tensor", s.isinf, dtype="bool", traits=NONDIFFERENTIABLE)
pointwise(
    "aten::isfinite(Tensor self) -> Tensor",
    lambda x: ~(s.isnan(x) | s.isinf(x)),
    dtype="bool",
    traits=NONDIFFERENTIABLE,
)
pointwise(
    "aten::isposinf(Tensor self) -> Tensor", lambda x: s.isinf(x) & (x > 0), dtype="bool", traits=NONDIFFERENTIABLE
)
pointwise(
    "aten::isneginf(Tensor self) -> Tensor", lambda x: s.isinf(x) & (x < 0), dtype="bool", traits=NONDIFFERENTIABLE
)
pointwise("aten::signbit(Tensor self) -> Tensor", s.signbit, dtype="bool", traits=NONDIFFERENTIABLE)

# --- logic and bits ---

binary("logical_and", lambda x, y: (x != 0) & (y != 0), dtype="bool", traits=SYMMETRIC, overloads=("",))
binary("logical_or", lambda x, y: (x != 0) | (y != 0), dtype="bool", traits=SYMMETRIC, overloads=("",))
binary("logical_xor", lambda x, y: (x != 0) ^ (y != 0), dtype="bool", traits=SYMMETRIC, overloads=("",))
pointwise("aten::logical_not(Tensor self) -> Tensor", lambda x: x == 0, dtype="bool", traits=NONDIFFERENTIABLE)

BITWISE = ("Tensor", "Scalar", "Scalar_Tensor")
SHIFTS = ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
binary("bitwise_and", lambda x, y: x & y, dtype="integral", traits=SYMMETRIC, overloads=BITWISE, aliases=("__and__",))
binary("bitwise_or", lambda x, y: x | y, dtype="integral", traits=SYMMETRIC, overloads=BITWISE, aliases=("__or__",))
binary("bitwise_xor", lambda x, y: x ^ y, dtype="integral", traits=SYMMETRIC, overloads=BITWISE, aliases=("__xor__",))
binary(
    "bitwise_left_shift",
    lambda x, y: x << y,
    dtype="integer",
    traits=NONDIFFERENTIABLE,
    overloads=SHIFTS,
    aliases=("__lshift__",),
)
binary(
    "bitwise_right_shift",
    lambda x, y: x >> y,
    dtype="integer",
    traits=NONDIFFERENTIABLE,
    overloads=SHIFTS,
    aliases=("__rshift__",),
)
pointwise(
    "aten::bitwise_not(Tensor self) -> Tensor",
    lambda x: ~x,
    dtype="integral",
    traits=NONDIFFERENTIABLE,
    aliases=("__invert__",),
)

# --- choosing ---


def _check_condition(condition: Any, *branches: Any) -> None:
    if condition.dtype.kind != "b" and condition.dtype != np.uint8:
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got dtype {condition.dtype}")
    dtype = result_dtype(*branches)
    for branch in branches:
        # In a half a number is what it rounds to, infinity too.
        if not isinstance(branch, np.ndarray) and not dtype.is_half:
            element(branch, dtype)


for overload, kinds in {
    "self": ("Tensor", "Tensor"),
    "ScalarSelf": ("Scalar", "Tensor"),
    "ScalarOther": ("Tensor", "Scalar"),
    "Scalar": ("Scalar", "Scalar"),
}.items():
    pointwise(
        f"aten::where.{overload}(Tensor condition, {kinds[0]} self, {kinds[1]} other) -> Tensor",
        s.where,
        traits=NONDIFFERENTIABLE if overload == "Scalar" else Trait.NONE,
        conditions=("condition",),
        check=_check_condition,
    )


def _check_fill_value(x: Any, mask: Any, value: Any) -> None:
    if mask.dtype.kind != "b":
        raise RuntimeError(f"masked_fill only supports boolean masks, but got dtype {mask.dtype}")
    if not isinstance(value, np.ndarray):
        element(value, dtype_of(x))
    elif value.ndim:
        raise ValueError(f"masked_fill: the value is a number or a 0-d tensor, not a tensor of shape {value.shape}")


for value in ("Scalar", "Tensor"):
    pointwise(
        f"aten::masked_fill.{value}(Tensor self, Tensor mask, {value} value) -> Tensor",
        lambda x, mask, value: s.where(mask, value, x),
        dtype="self",
        conditions=("mask",),
        check=_check_fill_value,
    )
pointwise(
    "aten::heaviside(Tensor self, Tensor values) -> Tensor",
    lambda x, values: s.where(x == 0, values, x > 0),
    dtype="uniform",
    traits=NONDIFFERENTIABLE,
)


def clamp(x: Scalar, low: Any, high: Any) -> Scalar:
    """x between bounds, either of which may be absent; the upper wins where they cross. NaN and signed zeros stay."""
    if low is None and high is None:
        raise ValueError("clamp takes a min, a max or both")
    x = x if low is None else s.maximum(low, x)
    return x if high is None else s.minimum(high, x)


for bound, overload in (("Scalar", ""), ("Tensor", ".Tensor")):
    pointwise(
        f"aten::clamp{overload}(Tensor self, {bound}? min=None, {bound}? max=None) -> Tensor",
        clamp,
        dtype="promote" if overload else "number",
        aliases=("clip",),
        elements=("min", "max"),
    )
    pointwise(
        f"aten::clamp_min{overload}(Tensor self, {bound} min) -> Tensor",
        lambda x, low: clamp(x, low, None),
        dtype="promote" if overload else "number",
        elements=("min",),
    )
    pointwise(
        f"aten::clamp_max{overload}(Tensor self, {bound} max) -> Tensor",
        lambda x, high: clamp(x, None, high),
        dtype="promote" if overload else "number",
        elements=("max",),
    )

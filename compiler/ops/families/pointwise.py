"""Arithmetic, powers, exponentials, logarithms, trigonometry and rounding, element by element.

Each entry is torch's schema and the scalar expression; `dtype` names a rule of `elementwise.RULES`. An op with
overloads for tensors and numbers has one formula for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ops import scalar as s
from ...types.dtypes import FLOAT32, FLOAT64
from ...types.lazy_numpy import np
from ..arrays import dtype_of, element, result_dtype
from ..elementwise import pointwise
from ..registry import Trait
from ..scalar import Scalar

COMMUTATIVE = Trait.COMMUTATIVE
NONDIFFERENTIABLE = Trait.NONDIFFERENTIABLE


def binary(
    name: str,
    formula: Callable[..., Scalar],
    *,
    dtype: str = "promote",
    traits: Trait = Trait.NONE,
    aliases: tuple[str, ...] = (),
    overloads: tuple[str, ...] = ("Tensor", "Scalar"),
    names: tuple[str, str] = ("self", "other"),
    rounded: bool = False,
) -> None:
    """Declare the overloads of an op of two operands, which tell tensors from numbers.

    An overload called `Tensor`, `Tensor_Tensor` or nothing takes two tensors; `Scalar`, `Tensor_Scalar`,
    `other_scalar` and `Scalar_Other` a number as the second operand; `Scalar_Tensor`, `self_scalar`, `Scalar_Self`
    as the first. Commutativity is a trait of the overload with two tensors only. Where `rounded`, both operands take
    part as elements of the dtype that they have in common, also where that is a half.
    """
    for overload in overloads:
        left = "Scalar" if overload in ("Scalar_Tensor", "self_scalar", "Scalar_Self") else "Tensor"
        right = "Scalar" if overload in ("Scalar", "Tensor_Scalar", "other_scalar", "Scalar_Other") else "Tensor"
        full_name = f"aten::{name}.{overload}" if overload else f"aten::{name}"
        pointwise(
            f"{full_name}({left} {names[0]}, {right} {names[1]}) -> Tensor",
            formula,
            dtype=dtype,
            traits=traits if left == right else traits & ~COMMUTATIVE,
            aliases=aliases,
            rounded=names if rounded else (),
        )


def _division_rule(x: Any, y: Any, rounding_mode: Any) -> str:
    return "float" if rounding_mode is None else "number"


def _divide(x: Scalar, y: Scalar, rounding_mode: str | None) -> Scalar:
    """Quotient, rounded as `rounding_mode` says: None, "trunc" or "floor"."""
    roundings = {None: s.div, "trunc": s.truncdiv, "floor": s.floordiv}
    if rounding_mode not in roundings:
        raise ValueError(f'rounding_mode is "trunc", "floor" or None, not {rounding_mode!r}')
    return roundings[rounding_mode](x, y)


def _round_decimals(x: Scalar, decimals: int) -> Scalar:
    power = 10.0 ** abs(decimals) if abs(decimals) <= 308 else math.inf
    if decimals == 0:
        return s.round_even(x)
    return s.round_even(x * power) / power if decimals > 0 else s.round_even(x / power) * power


def _check_factor(x: Any, y: Any, factor: Any) -> None:
    """A float factor needs a float tensor or number to act on, and a bool one two bools."""
    if type(factor) is int:
        return
    kinds = {operand.dtype.kind if isinstance(operand, np.ndarray) else type(operand).__name__[0] for operand in (x, y)}
    if isinstance(factor, float) and kinds <= {"i", "u", "b"}:
        raise TypeError(f"alpha is the float {factor}, but the operands are integers")
    if isinstance(factor, bool) and kinds != {"b"}:
        raise TypeError(f"alpha is {factor}, which only bools are multiplied with; write {int(factor)}")


def _check_difference(x: Any, y: Any, factor: Any) -> None:
    """Bools have no difference, and none from anything else."""
    if isinstance(x, bool) or isinstance(y, bool):
        raise TypeError("a difference of bools is not defined; to invert a mask write `~x`, for the number `int(x)`")
    _check_factor(x, y, factor)


def _check_quotient(_: Any, x: Any, y: Any, __: Any) -> None:
    """What is added is a quotient of tensors, of which one is floating, as torch has it."""
    if x.dtype.kind in "iub" and y.dtype.kind in "iub":
        raise TypeError("addcdiv divides no integers by integers; convert one of the tensors: `tensor1.float()`")


# --- arithmetic ---

pointwise(
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    lambda x, y, alpha: x + alpha * y,
    check=_check_factor,
    elements=("alpha",),
)
pointwise(
    "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    lambda x, y, alpha: x + alpha * y,
    coefficients=("alpha",),
    check=_check_factor,
    elements=("alpha",),
)
pointwise(
    "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    lambda x, y, alpha: x - alpha * y,
    dtype="difference",
    aliases=("subtract",),
    check=_check_difference,
    elements=("-alpha",),
)
pointwise(
    "aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    lambda x, y, alpha: x - alpha * y,
    dtype="difference",
    aliases=("subtract",),
    coefficients=("alpha",),
    check=_check_difference,
    elements=("-alpha",),
)
pointwise(
    "aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    lambda x, y, alpha: y - alpha * x,
    dtype="difference",
    check=_check_difference,
    elements=("-alpha",),
)
pointwise(
    "aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    lambda x, y, alpha: y - alpha * x,
    dtype="difference",
    coefficients=("alpha",),
    check=_check_difference,
    elements=("-alpha",),
)
binary("mul", lambda x, y: x * y, traits=COMMUTATIVE, aliases=("multiply",))
binary("div", lambda x, y: x / y, dtype="float", aliases=("divide", "true_divide"))
for other in ("Tensor", "Scalar"):
    pointwise(
        f"aten::div.{other}_mode(Tensor self, {other} other, *, str? rounding_mode) -> Tensor",
        _divide,
        dtype=_division_rule,
        aliases=("divide",),
    )
binary("floor_divide", lambda x, y: x // y, dtype="number", overloads=("", "Scalar"))
binary("floor_divide", lambda x, y: x // y, dtype="number", overloads=("Scalar_Tensor",), rounded=True)
binary("remainder", lambda x, y: x % y, dtype="number", overloads=("Tensor", "Scalar", "Scalar_Tensor"), rounded=True)
binary("fmod", s.fmod, dtype="number", rounded=True)
pointwise("aten::neg(Tensor self) -> Tensor", lambda x: -x, dtype="number", aliases=("negative",))
pointwise("aten::positive(Tensor self) -> Tensor", lambda x: x, dtype="number")
# Of numbers that are no complex ones, nothing is turned round.
pointwise(
    "aten::conj(Tensor self) -> Tensor",
    lambda x: x,
    aliases=("real", "conj_physical", "resolve_conj", "resolve_neg"),
)
pointwise("aten::abs(Tensor self) -> Tensor", abs, dtype="number", aliases=("absolute",))
pointwise("aten::sign(Tensor self) -> Tensor", s.sign)
pointwise("aten::sgn(Tensor self) -> Tensor", s.sign)
pointwise("aten::reciprocal(Tensor self) -> Tensor", lambda x: 1 / x, dtype="float")
pointwise(
    "aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    lambda x, a, b, value: x + value * a * b,
    dtype="number",
    widened=("value",),
)
pointwise(
    "aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    lambda x, a, b, value: x + value * a / b,
    dtype="floating",
    check=_check_quotient,
    widened=("value",),
)
for weight in ("Scalar", "Tensor"):
    pointwise(
        f"aten::lerp.{weight}(Tensor self, Tensor end, {weight} weight) -> Tensor",
        lambda x, end, w: s.where(abs(w) < 0.5, x + w * (end - x), end - (end - x) * (1 - w)),
        dtype="uniform floating" if weight == "Scalar" else "uniform floating, weighted",
        coefficients=("weight",) if weight == "Scalar" else (),
        widened=("weight",) if weight == "Scalar" else (),
    )
binary("maximum", lambda x, y: s.maximum(y, x), overloads=("",))
binary("minimum", lambda x, y: s.minimum(y, x), overloads=("",))
binary("fmax", s.fmax, overloads=("",))
binary("fmin", s.fmin, overloads=("",))

# --- powers ---


def _check_exponent(base: Any, exponent: Any) -> None:
    """A negative integer is no exponent of integers, where it is a number; nor is what does not fit their dtype."""
    if isinstance(exponent, int) and exponent < 0 and isinstance(base, np.ndarray) and base.dtype.kind in "iub":
        raise RuntimeError(f"integers have no power {exponent}: write `x.float() ** {exponent}`")
    dtype = result_dtype(base, exponent)
    if dtype not in (FLOAT32, FLOAT64):
        element(exponent, dtype)


def _check_places(number: Any, exponent: Any) -> None:
    """A bool is no number of places of a float."""
    bools = isinstance(exponent, np.ndarray) and exponent.dtype.kind == "b"
    if bools and isinstance(number, np.ndarray) and dtype_of(number).is_floating:
        raise RuntimeError("ldexp takes no bool exponents: write `other.to(torch.int64)`")


POWERS = ("Tensor_Tensor", "Tensor_Scalar", "Scalar")
for overload in POWERS:
    left = "Scalar" if overload == "Scalar" else "Tensor"
    right = "Scalar" if overload == "Tensor_Scalar" else "Tensor"
    # Bools have their powers by bools that are numbers, which change nothing or give True.
    rule = "promote" if right == "Scalar" else "number"
    formula = s.number_power if right == "Scalar" else s.power
    check = _check_exponent if right == "Scalar" else None
    pointwise(
        f"aten::pow.{overload}({left} self, {right} exponent) -> Tensor",
        formula,
        dtype=rule,
        check=check,
        rounded=("self", "exponent"),
    )
    pointwise(f"aten::float_power.{overload}({left} self, {right} exponent) -> Tensor", formula, dtype="double")
pointwise("aten::square(Tensor self) -> Tensor", lambda x: x * x, dtype="counted")
pointwise("aten::sqrt(Tensor self) -> Tensor", s.sqrt, dtype="float")
pointwise("aten::rsqrt(Tensor self) -> Tensor", s.rsqrt, dtype="float")
pointwise("aten::hypot(Tensor self, Tensor other) -> Tensor", s.hypot, dtype="floating", traits=COMMUTATIVE)
pointwise(
    "aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
    lambda x, exponent: x * s.exp2(exponent),
    dtype="float",
    check=_check_places,
)

# --- exponentials and logarithms ---

pointwise("aten::exp(Tensor self) -> Tensor", s.exp, dtype="float")
pointwise("aten::exp2(Tensor self) -> Tensor", s.exp2, dtype="float", aliases=("special_exp2",))
pointwise("aten::expm1(Tensor self) -> Tensor", s.expm1, dtype="float", aliases=("special_expm1",))
pointwise("aten::log(Tensor self) -> Tensor", s.log, dtype="float")
pointwise("aten::log2(Tensor self) -> Tensor", s.log2, dtype="float")
pointwise("aten::log10(Tensor self) -> Tensor", s.log10, dtype="float")
pointwise("aten::log1p(Tensor self) -> Tensor", s.log1p, dtype="float", aliases=("special_log1p",))


def _log_add(x: Scalar, y: Scalar, log_of_sum: Scalar) -> Scalar:
    """The larger plus a correction; two equal infinities are their own sum."""
    return s.where((x == y) & s.isinf(x), x, s.maximum(x, y) + log_of_sum)


pointwise(
    "aten::logaddexp(Tensor self, Tensor other) -> Tensor",
    lambda x, y: _log_add(x, y, s.log1p(s.exp(-abs(x - y)))),
    dtype="floating",
    traits=COMMUTATIVE,
)
pointwise(
    "aten::logaddexp2(Tensor self, Tensor other) -> Tensor",
    lambda x, y: _log_add(x, y, s.log1p(s.exp2(-abs(x - y))) * (1 / math.log(2))),
    dtype="floating",
    traits=COMMUTATIVE,
)

# --- trigonometry ---

pointwise("aten::sin(Tensor self) -> Tensor", s.sin, dtype="float")
pointwise("aten::cos(Tensor self) -> Tensor", s.cos, dtype="float")
pointwise("aten::tan(Tensor self) -> Tensor", s.tan, dtype="float")
pointwise("aten::asin(Tensor self) -> Tensor", s.asin, dtype="float", aliases=("arcsin",))
pointwise("aten::acos(Tensor self) -> Tensor", s.acos, dtype="float", aliases=("arccos",))
pointwise("aten::atan(Tensor self) -> Tensor", s.atan, dtype="float", aliases=("arctan",))
pointwise("aten::atan2(Tensor self, Tensor other) -> Tensor", s.atan2, dtype="float", aliases=("arctan2",))
pointwise("aten::sinh(Tensor self) -> Tensor", s.sinh, dtype="float")
pointwise("aten::cosh(Tensor self) -> Tensor", s.cosh, dtype="float")
pointwise("aten::tanh(Tensor self) -> Tensor", s.tanh, dtype="float")
pointwise("aten::asinh(Tensor self) -> Tensor", s.asinh, dtype="float", aliases=("arcsinh",))
pointwise("aten::acosh(Tensor self) -> Tensor", s.acosh, dtype="float", aliases=("arccosh",))
pointwise("aten::atanh(Tensor self) -> Tensor", s.atanh, dtype="float", aliases=("arctanh",))
pointwise("aten::deg2rad(Tensor self) -> Tensor", lambda x: x * (math.pi / 180), dtype="float")
pointwise("aten::rad2deg(Tensor self) -> Tensor", lambda x: x * (180 / math.pi), dtype="float")

# --- rounding and the parts of a number ---

pointwise("aten::floor(Tensor self) -> Tensor", s.floor, dtype="number")
pointwise("aten::ceil(Tensor self) -> Tensor", s.ceil, dtype="number")
pointwise("aten::trunc(Tensor self) -> Tensor", s.trunc, dtype="number", aliases=("fix",))
pointwise(
    "aten::round(Tensor self) -> Tensor",
    s.round_even,
    dtype="number",
    aliases=("special_round",),
)
pointwise(
    "aten::round.decimals(Tensor self, *, int decimals) -> Tensor",
    _round_decimals,
    dtype="floating",
    aliases=("special_round",),
)
pointwise("aten::frac(Tensor self) -> Tensor", lambda x: x - s.trunc(x), dtype="floating")
binary("copysign", s.copysign, dtype="float")
pointwise("aten::nextafter(Tensor self, Tensor other) -> Tensor", s.nextafter, dtype="exact")


def _nan_to_num(x: Scalar, nan: Any, posinf: Any, neginf: Any) -> Scalar:
    """Numbers instead of NaN and the infinities; by default 0 and the largest and lowest of the dtype."""
    high = s.largest() if posinf is None else posinf
    low = s.lowest() if neginf is None else neginf
    finite = s.where(s.isinf(x), s.where(x > 0, high, low), x)
    return s.where(s.isnan(x), 0 if nan is None else nan, finite)


pointwise(
    "aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    _nan_to_num,
    dtype="self",
)

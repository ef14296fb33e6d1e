"""Ops on Python numbers, bools and strings, with TorchScript's names and overloads.

Arithmetic is Python's: `/` of ints is a float, `//` and `%` round down, a zero divisor raises ZeroDivisionError.
Where the static type could not follow Python, an op is narrower: an int to the power of an int is an int, so a
negative exponent is an error that asks for a float base.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ....types.lazy_numpy import np
from ... import bounds, fitting
from ...arrays import Array
from ...registry import Trait, declare

PURE = Trait.NONE
COMMUTATIVE = Trait.COMMUTATIVE
NONDIFFERENTIABLE = Trait.NONDIFFERENTIABLE
Numeric = bool | int | float


def _overloads(
    name: str,
    evaluate: Callable[..., Any],
    results: dict[str, str],
    traits: Trait = PURE,
    aliases: tuple[str, ...] = (),
) -> None:
    """Declare an op of two scalars, once per entry of `results`: kinds of the operands → type of the result."""
    for kinds, result in results.items():
        left, _, right = kinds.partition("_")
        overload = "" if kinds == "Scalar" else f".{kinds}"
        schema = f"{name}{overload}({left} a, {right or left} b) -> {result}"
        declare(schema, evaluate, traits=traits, aliases=aliases)


def _unary(name: str, evaluate: Callable[..., Any], results: dict[str, str], aliases: tuple[str, ...] = ()) -> None:
    for kind, result in results.items():
        declare(f"{name}.{kind}({kind} a) -> {result}", evaluate, aliases=aliases)


# --- arithmetic ---

ARITHMETIC = {"int": "int", "float": "float", "int_float": "float", "float_int": "float", "Scalar": "Scalar"}
TO_FLOAT = dict.fromkeys(ARITHMETIC, "float")


def _power(base: Numeric, exponent: Numeric) -> Numeric:
    if isinstance(base, int) and isinstance(exponent, int) and exponent < 0:
        raise ValueError(f"an int to the negative power {exponent} is no int; write float({base}) ** {exponent}")
    result: Any = bounds.bounded_power(base, exponent)
    if isinstance(result, complex):
        raise ValueError(f"{base} ** {exponent} is not a real number")
    number: Numeric = result
    return number


def _extreme(choose: Any, name: str) -> Any:
    def evaluate(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{name}() of an empty list")
        return choose(values)

    return evaluate


def _as_float(function: Callable[..., Any]) -> Callable[..., float]:
    return lambda *operands: float(function(*operands))


_overloads("aten::add", operator.add, ARITHMETIC)
_overloads("aten::add", bounds.joined_texts, {"str": "str"})
declare("aten::mul.str(str a, int b) -> str", bounds.repeated_text)
declare("aten::mul.int_str(int a, str b) -> str", lambda a, b: bounds.repeated_text(b, a))
_overloads("aten::sub", operator.sub, ARITHMETIC)
_overloads("aten::mul", bounds.bounded_product, ARITHMETIC, COMMUTATIVE)
_overloads("aten::div", operator.truediv, TO_FLOAT)
_overloads("aten::floordiv", operator.floordiv, ARITHMETIC, aliases=("floor_divide",))
_overloads("aten::remainder", operator.mod, ARITHMETIC)
_overloads("aten::pow", _power, ARITHMETIC)
_overloads("aten::fmod", math.fmod, {"Scalar": "float"})
for name, choose in {"min": min, "max": max}.items():
    same = {kind: kind for kind in ("int", "float", "Scalar")}
    _overloads(f"prim::{name}", choose, same, COMMUTATIVE)
    _overloads(f"prim::{name}", _as_float(choose), {"int_float": "float", "float_int": "float"}, COMMUTATIVE)
    # The operand itself, a bool or not: `3 * x` and `True * x` are of other dtypes.
    _overloads(f"prim::{name}", choose, {"bool": "bool", "bool_Scalar": "Scalar", "Scalar_bool": "Scalar"})
    # Behind those of two numbers, which they are not to be taken for.
    for kind in ("int", "float", "bool"):
        declare(f"prim::{name}.self_{kind}({kind}[] self) -> {kind}", _extreme(choose, name))
_unary("aten::neg", operator.neg, {"int": "int", "float": "float", "Scalar": "Scalar"})
_unary("prim::abs", abs, {"int": "int", "float": "float", "Scalar": "Scalar"})
_unary("aten::round", round, {"int": "int", "float": "int", "Scalar": "int"})
for kind in ("int", "float"):
    declare(f"aten::round.{kind}_digits({kind} a, int ndigits) -> {kind}", round)

# --- comparisons ---

EQUALITY = dict.fromkeys((*ARITHMETIC, "bool", "str", "Device"), "bool")
ORDER = dict.fromkeys((*ARITHMETIC, "str"), "bool")

_overloads("aten::eq", operator.eq, EQUALITY, COMMUTATIVE)
_overloads("aten::ne", operator.ne, EQUALITY, COMMUTATIVE)
_overloads("aten::lt", operator.lt, ORDER)
_overloads("aten::le", operator.le, ORDER)
_overloads("aten::gt", operator.gt, ORDER)
_overloads("aten::ge", operator.ge, ORDER)

# --- logic and bits ---

BITS = {"bool": "bool", "int": "int"}

_unary("aten::__not__", operator.not_, {"bool": "bool"})
_overloads("aten::__and__", operator.and_, BITS, COMMUTATIVE)
_overloads("aten::__or__", operator.or_, BITS, COMMUTATIVE)
_overloads("aten::__xor__", operator.xor, BITS, COMMUTATIVE)
_overloads("aten::__lshift__", bounds.shifted_left, {"int": "int"})
_overloads("aten::__rshift__", operator.rshift, {"int": "int"})
for name in ("__invert__", "bitwise_not"):
    _unary(f"aten::{name}", operator.invert, {"int": "int"})

# --- conversion ---


def item(tensor: Array) -> Numeric:
    """The Python number in a tensor of one element."""
    if tensor.size != 1:
        message = f"only a tensor of one element is a number, not one of shape {list(tensor.shape)}"
        hint = "; `(0 < x) & (x < 1)` and `~x` go element by element, `x.any()` and `x.all()` are one bool"
        raise ValueError(message + (hint if tensor.dtype == bool else ""))
    value: Numeric = tensor.reshape(()).astype(float).item() if tensor.dtype.kind == "V" else tensor.item()
    return value


def _to_int(value: Numeric) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} has no int")
    return int(value)


def _implicit(tensor: Array) -> Numeric:
    """The number that a tensor stands for where one is wanted: in torch one that has dimensions stands for none."""
    if tensor.ndim:
        shape = list(tensor.shape)
        raise TypeError(
            f"a number is wanted, and a tensor of shape {shape} stands here: write float(…) or int(…) of it"
        )
    return item(tensor)


def _constant(tensor: Array) -> Numeric:
    """The same of a tensor for which a gradient is asked, which a floating one would lose."""
    value = _implicit(tensor)
    if isinstance(value, float):
        raise TypeError("a number is wanted, and a tensor that requires a gradient stands here: write float(…) of it")
    return value


def _implicit_int(tensor: Array) -> int:
    """The int that a tensor stands for where one is wanted: a floating one stands for none."""
    value = item(tensor)
    if isinstance(value, float):
        raise TypeError("an int is wanted, and a floating tensor stands here: write int(…) of it")
    return int(value)


declare("aten::item(Tensor self) -> Scalar", item, traits=NONDIFFERENTIABLE, fits=fitting.require_one_number)
for source in ("Scalar", "int", "float", "bool", "str"):
    declare(f"aten::Float.{source}({source} a) -> float", float)
    declare(f"aten::Int.{source}({source} a) -> int", int if source == "str" else _to_int)
for source in ("Scalar", "int", "float", "bool"):
    declare(f"aten::Bool.{source}({source} a) -> bool", bool)
declare(
    "aten::Float.Tensor(Tensor a) -> float",
    lambda a: float(item(a)),
    traits=NONDIFFERENTIABLE,
    fits=fitting.require_one_number,
)
declare(
    "aten::FloatImplicit(Tensor a) -> float",
    lambda a: float(_implicit(a)),
    traits=NONDIFFERENTIABLE,
    fits=fitting.require_no_dimensions,
)
declare(
    "aten::Int.Tensor(Tensor a) -> int",
    lambda a: _to_int(item(a)),
    traits=NONDIFFERENTIABLE,
    fits=fitting.require_one_number,
)
declare("aten::IntImplicit(Tensor a) -> int", _implicit_int, traits=NONDIFFERENTIABLE, fits=fitting.require_one_number)
declare("aten::Bool.str(str a) -> bool", bool)
declare("aten::Bool.t(t[] a) -> bool", bool)
declare(
    "aten::Bool.Tensor(Tensor a) -> bool",
    lambda a: bool(item(a)),
    traits=NONDIFFERENTIABLE,
    fits=fitting.require_one_number,
)
declare(
    "aten::ScalarImplicit(Tensor a) -> Scalar",
    _implicit,
    traits=NONDIFFERENTIABLE,
    fits=fitting.require_no_dimensions,
)
# They stay where nothing uses what the number goes into: what they refuse is a gradient that would be zero.
declare(
    "aten::FloatImplicit.constant(Tensor a) -> float",
    lambda a: float(_constant(a)),
    traits=NONDIFFERENTIABLE | Trait.SIDE_EFFECT,
    fits=fitting.require_no_dimensions,
)
declare(
    "aten::ScalarImplicit.constant(Tensor a) -> Scalar",
    _constant,
    traits=NONDIFFERENTIABLE | Trait.SIDE_EFFECT,
    fits=fitting.require_no_dimensions,
)

# --- the math module: `math.sqrt` in source is the op `math_sqrt` ---

MATH: dict[str, dict[str, Callable[..., Any]]] = {
    "float": {
        name: getattr(math, name)
        for name in (
            *("sqrt", "exp", "expm1", "log", "log2", "log10", "log1p", "fabs", "gamma", "lgamma", "erf", "erfc"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
            *("degrees", "radians"),
        )
    },
    "int": {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc},
    "bool": {"isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite},
}
"""Functions of one number by the type of their result. Off their domain they raise ValueError."""

for result, functions in MATH.items():
    for name, function in functions.items():
        declare(f"aten::math_{name}(Scalar a) -> {result}", function)


def _as_tensor(name: str) -> Callable[[Numeric], float]:
    """A function of one number as it is of a tensor's elements: off its domain NaN, at a pole infinite."""
    ufunc = name.replace("a", "arc", 1) if name[0] == "a" else name

    def evaluate(a: Numeric) -> float:
        with np.errstate(all="ignore"):
            return float(getattr(np, ufunc)(np.float64(a)))

    return evaluate


for name in (
    *("sqrt", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
):
    declare(f"aten::{name}.Scalar(Scalar a) -> float", _as_tensor(name))
for name in ("pow", "atan2", "hypot", "copysign", "fmod"):
    declare(f"aten::math_{name}(Scalar a, Scalar b) -> float", getattr(math, name))
_OF_INTS: dict[str, Callable[..., int]] = {
    "gcd": math.gcd,
    "lcm": bounds.common_multiple,
    "comb": bounds.combinations_of,
    "perm": bounds.permutations_of,
}
for name, of_ints in _OF_INTS.items():
    declare(f"aten::math_{name}(int a, int b) -> int", of_ints)
declare("aten::math_factorial(int a) -> int", bounds.bounded_factorial)
declare("aten::math_isqrt(int a) -> int", math.isqrt)
for name in ("int", "float"):
    declare(
        f"aten::math_prod.{name}({name}[] a, *, {name} start=1) -> {name}",
        lambda a, start=1: bounds.bounded_products(a, start),
    )
declare("aten::math_log.base(Scalar a, Scalar base) -> float", math.log)

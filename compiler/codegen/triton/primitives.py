"""How Triton spells the primitives of `compiler.ops.scalar`, casts, literals and dtypes.

Accuracy is torch's: quotients and square roots of float32 are rounded correctly, and functions come from libdevice,
whose errors are a few units in the last place, where Triton's own `exp` and `log` lose digits for large arguments.
Values whose errors do not show, see `fusion.coarse`, have spellings of a third to a half as many instructions.
"""

from __future__ import annotations

import math

from ....lang.light_dataclasses import dataclass
from ...kernel_ir.index import Range
from ...kernel_ir.ranges import ANY
from ...types.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    DType,
    Number,
)
from ..text import ATOM, Text, Unsupported
from .sines import LIMIT

UNARY, PRODUCT, SUM, SHIFT, BITS, COMPARE = range(ATOM + 1, 7)
"""How tightly an expression binds: an operand must bind as tightly as its place asks."""

TYPES = {
    BOOL: "tl.int1",
    UINT8: "tl.uint8",
    INT8: "tl.int8",
    INT16: "tl.int16",
    INT32: "tl.int32",
    INT64: "tl.int64",
    FLOAT16: "tl.float16",
    BFLOAT16: "tl.bfloat16",
    FLOAT32: "tl.float32",
    FLOAT64: "tl.float64",
}


@dataclass(frozen=True, slots=True)
class TritonSpelling:
    """A template over operands. An infix operator's may be plain literals; a function's have dtypes of their own."""

    template: str
    level: int = ATOM
    operands: tuple[int, ...] = ()
    """The loosest that each operand may bind; without them, each is an argument of its own."""
    helper: str = ""

    def apply(self, operands: list[Text]) -> Text:
        levels = self.operands or (COMPARE,) * len(operands)
        return Text(self.template.format(*(o.at(level) for o, level in zip(operands, levels, strict=True))), self.level)

    @property
    def is_call(self) -> bool:
        return self.level == ATOM


def _infix(operator: str, level: int) -> TritonSpelling:
    # Python's order of bits and comparisons is not C's: what stands beside them is in parentheses.
    left = SHIFT if level in (BITS, COMPARE) else level
    return TritonSpelling(f"{{0}} {operator} {{1}}", level, (left, min(left, level - 1)))


def _call(name: str, arity: int = 1, extra: str = "") -> TritonSpelling:
    arguments = ", ".join(f"{{{i}}}" for i in range(arity))
    return TritonSpelling(f"{name}({arguments}{extra})")


def _helper(name: str, arity: int) -> TritonSpelling:
    arguments = ", ".join(f"{{{i}}}" for i in range(arity))
    return TritonSpelling(f"{name}({arguments})", helper=name)


def _cast(to: str) -> TritonSpelling:
    return TritonSpelling(f"{{0}}.to({to})", ATOM, (ATOM,))


PROPAGATE = ", propagate_nan=tl.PropagateNan.ALL"
COMPARISONS = {
    "eq": _infix("==", COMPARE),
    "ne": _infix("!=", COMPARE),
    "lt": _infix("<", COMPARE),
    "le": _infix("<=", COMPARE),
    "gt": _infix(">", COMPARE),
    "ge": _infix(">=", COMPARE),
}
_ANY = {**COMPARISONS, "where": _call("tl.where", 3)}
_NUMBERS = {
    **_ANY,
    "add": _infix("+", SUM),
    "sub": _infix("-", SUM),
    "mul": _infix("*", PRODUCT),
    "neg": TritonSpelling("-{0}", UNARY, (UNARY,)),
    "abs": _call("tl.abs"),
    "sign": _helper("_sign", 1),
}
_BITS = {
    "and": _infix("&", BITS),
    "or": _infix("|", BITS),
    "xor": _infix("^", BITS),
    "not": TritonSpelling("~{0}", UNARY, (UNARY,)),
}
_LIBDEVICE = (
    *("rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "erfinv", "erfcx", "lgamma", "trunc", "isnan", "isinf"),
)
_FLOATS = {
    **_NUMBERS,
    **{name: _call(f"libdevice.{name}") for name in _LIBDEVICE},
    **{name: _call(f"libdevice.{name}", 2) for name in ("fmod", "pow", "atan2", "hypot", "copysign", "nextafter")},
    "remainder": _helper("_float_remainder", 2),
    "floordiv": _helper("_float_floor_divide", 2),
    "div": _call("tl.div_rn", 2),
    "truncdiv": TritonSpelling("libdevice.trunc(tl.div_rn({0}, {1}))"),
    "sqrt": _call("tl.sqrt_rn"),
    **{name: _helper(f"_{name}", 2) for name in ("maximum", "minimum", "fmax", "fmin")},
    "floor": _call("tl.floor"),
    "ceil": _call("tl.ceil"),
    "round": _call("libdevice.nearbyint"),
    "signbit": TritonSpelling("libdevice.signbit({0}) != 0", COMPARE),
    "sigmoid": _helper("_sigmoid", 1),
    "tanh": _helper("_tanh", 1),
    "ndtr": _helper("_ndtr", 1),
    "log_ndtr": _helper("_log_ndtr", 1),
    "bessel_i0": _call("libdevice.cyl_bessel_i0"),
    "bessel_i1": _call("libdevice.cyl_bessel_i1"),
}
_DOUBLES = {
    **_FLOATS,
    "floordiv": _helper("_double_floor_divide", 2),
    "div": _infix("/", PRODUCT),
    "truncdiv": TritonSpelling("libdevice.trunc({0} / {1})", ATOM, (PRODUCT, UNARY)),
    "sqrt": _call("libdevice.sqrt"),
    "sigmoid": TritonSpelling("1.0 / (1.0 + libdevice.exp(-{0}))", PRODUCT, (UNARY,)),
    "tanh": _call("libdevice.tanh"),
    "ndtr": TritonSpelling("0.5 * libdevice.erfc({0} * -0.7071067811865476)", PRODUCT, (PRODUCT,)),
}
_COARSE = {
    "div": _infix("/", PRODUCT),
    **{name: _helper(f"_coarse_{name}", 1) for name in ("exp", "expm1", "sigmoid", "tanh", "ndtr")},
}
"""Of float32 values that may be a little off; what is not here is spelled as for others."""
_WITHIN: dict[str, tuple[Range, TritonSpelling | None, TritonSpelling]] = {
    "log1p": ((0.0, 1.0), _helper("_log1p_of_share", 1), _helper("_coarse_log1p_of_share", 1)),
    "sqrt": ((1e-30, math.inf), None, _call("tl.sqrt")),
    **{n: ((-LIMIT, LIMIT), _helper(f"_near_{n}", 1), _helper(f"_coarse_near_{n}", 1)) for n in ("sin", "cos")},
}
"""Of float32 operands in a range: spellings of exact results, where there is one, and of those that may be off."""
_OF_TILES = {name: (_helper(f"_{name}", 2), _helper(f"_coarse_{name}", 2)) for name in ("sin", "cos")}
"""Of float32 tiles, as against single numbers: spellings of exact results and of those that may be off.

Their second operand is whether an angle is large."""
_SAME = TritonSpelling("{0}", ATOM, (ATOM,))
_INTEGERS = {
    **_NUMBERS,
    **_BITS,
    "remainder": _helper("_remainder", 2),
    "floordiv": _helper("_floor_divide", 2),
    "truncdiv": _infix("//", PRODUCT),
    "fmod": _infix("%", PRODUCT),
    "maximum": _call("tl.maximum", 2),
    "minimum": _call("tl.minimum", 2),
    "fmax": _call("tl.maximum", 2),
    "fmin": _call("tl.minimum", 2),
    "floor": _SAME,
    "ceil": _SAME,
    "round": _SAME,
    "trunc": _SAME,
    "shl": _helper("_shift_left", 2),
    "shr": _helper("_shift_right", 2),
}
_UNSIGNED = {
    **_INTEGERS,
    "abs": _SAME,
    "not": TritonSpelling("{0} ^ 255", BITS, (SHIFT,)),
    "remainder": _infix("%", PRODUCT),
    "floordiv": _infix("//", PRODUCT),
}
_BOOLS = {
    **_ANY,
    **_BITS,
    "add": _BITS["or"],
    "mul": _BITS["and"],
    "maximum": _BITS["or"],
    "minimum": _BITS["and"],
    "sign": _SAME,
    "abs": _SAME,
}
_POWERS: dict[Number, TritonSpelling] = {2: _helper("_square", 1), 3: _helper("_cube", 1)}
_LIMITS = ("largest", "lowest")


def _table(dtype: DType) -> dict[str, TritonSpelling]:
    if dtype == BOOL:
        return _BOOLS
    if dtype == FLOAT64:
        return _DOUBLES
    if dtype.is_floating:
        return _FLOATS
    return _UNSIGNED if dtype == UINT8 else _INTEGERS


def supports(primitive: str, dtype: DType) -> bool:
    """Whether there is a text for a primitive of `compiler.ops.scalar` on operands of a dtype."""
    return primitive == "number" or primitive in _LIMITS or primitive in _table(dtype)


def spelling(
    primitive: str, dtype: DType, *, is_coarse: bool = False, operand: Range = ANY, is_tile: bool = False
) -> TritonSpelling:
    """There may be a shorter one of a value that may be a little off, of a tile, or whose first operand is in a range.

    Raises: Unsupported.
    """
    found = None
    if dtype == FLOAT32 and primitive in _WITHIN:
        (low, high), exact, coarse = _WITHIN[primitive]
        is_inside = low <= operand[0] and operand[1] <= high
        found = (coarse if is_coarse else exact) if is_inside else None
    if found is None and is_tile and dtype == FLOAT32 and primitive in _OF_TILES:
        found = _OF_TILES[primitive][is_coarse]
    if found is None and is_coarse:
        found = _COARSE.get(primitive)
    found = found or _table(dtype).get(primitive)
    if found is None:
        raise Unsupported(f"Triton has no {primitive} of {dtype}")
    return found


def is_near(angle: Range) -> bool:
    """Whether angles are small enough for the short way to sines and cosines."""
    return angle[0] >= -LIMIT and angle[1] <= LIMIT


def power(exponent: Number) -> TritonSpelling | None:
    """A power that is a product."""
    # An open size is asked; as a key it would be none of these whatever it is.
    return next((found for known, found in _POWERS.items() if exponent == known), None)


def exact_inverse(divisor: float) -> float | None:
    """1 / divisor where that is a power of two, so that dividing is multiplying by it."""
    fraction, exponent = math.frexp(divisor)
    return 1 / divisor if abs(fraction) == 0.5 and abs(exponent) <= 100 else None


def literal(value: Number, dtype: DType) -> Text:
    """A number as a Python literal of the dtype's kind."""
    if dtype == BOOL:
        return Text(str(bool(value)))
    if not dtype.is_floating:
        return Text(str(int(value)), UNARY if value < 0 else ATOM)
    number = float(value)
    if math.isfinite(number):
        return Text(repr(number), UNARY if math.copysign(1, number) < 0 else ATOM)
    return Text('float("nan")') if math.isnan(number) else Text(f'{"-" if number < 0 else ""}float("inf")', UNARY)


def argument(value: Number, dtype: DType) -> Text:
    """A literal as a function's argument: as a tensor where Triton would make a narrower one of it."""
    if dtype in (FLOAT64, INT64) and not float(value).is_integer():
        return typed(value, dtype)
    return literal(value, dtype)


def typed(value: Number, dtype: DType) -> Text:
    """A literal of exactly a dtype."""
    return Text(f"tl.full((), {literal(value, dtype).text}, {TYPES[dtype]})")


def cast(operand: Text, dtype: DType, to: DType) -> Text:
    """A value of one dtype in another, as torch converts: to halves by way of float32."""
    if dtype == to:
        return operand
    if to == BOOL:
        return COMPARISONS["ne"].apply([operand, literal(0, dtype)])
    if dtype.is_floating and to == UINT8:
        operand = _cast("tl.int32").apply([operand])
    if to.is_half and dtype != FLOAT32:
        operand = _cast("tl.float32").apply([operand])
    return _cast(TYPES[to]).apply([operand])

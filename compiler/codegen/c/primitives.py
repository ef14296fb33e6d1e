"""How C spells the primitives of `compiler.ops.scalar`, casts, literals and dtypes.

Halves are floats once they are loaded. Each operation is rounded by itself, as torch rounds it: no product and sum
become one. Functions are `gs_NAME_f32` and `gs_NAME_f64`, helpers that the module holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....lang.light_dataclasses import dataclass
from ...ops.scalar import PRIMITIVES, WIDE_MOMENTS
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

UNARY, PRODUCT, SUM, ORDER, CHOICE, ANY = range(ATOM + 1, 7)
"""How tightly an expression binds. Of bits and shifts hardly anyone knows it: their operands are in parentheses."""

TYPES = {
    BOOL: "bool",
    UINT8: "uint8_t",
    INT8: "int8_t",
    INT16: "int16_t",
    INT32: "int32_t",
    INT64: "int64_t",
    FLOAT16: "float",
    BFLOAT16: "float",
    FLOAT32: "float",
    FLOAT64: "double",
}
"""Of values."""
STORED = {**TYPES, BOOL: "uint8_t", FLOAT16: "gs_float16", BFLOAT16: "gs_bfloat16"}
"""Of elements in memory. Bools are bytes there, which gcc loads side by side where it loads no bools so."""
KEPT = {**TYPES, BOOL: "uint8_t"}
"""Of elements of a kernel's own arrays."""
COMBINED = {**TYPES, BOOL: "int"}
"""Of what a reduction has so far."""


@dataclass(frozen=True, slots=True)
class CSpelling:
    """A template over operands; `operands` are the loosest that each may bind, without them each is an argument."""

    template: str
    level: int = ATOM
    operands: tuple[int, ...] = ()
    helper: str = ""

    def apply(self, operands: Sequence[Text]) -> Text:
        levels = self.operands or (ANY,) * len(operands)
        return Text(self.template.format(*(o.at(level) for o, level in zip(operands, levels, strict=True))), self.level)


def _infix(operator: str, level: int) -> CSpelling:
    return CSpelling(f"{{0}} {operator} {{1}}", level, (level, level - 1))


def _of_bits(operator: str) -> CSpelling:
    return CSpelling(f"{{0}} {operator} {{1}}", CHOICE, (UNARY, UNARY))


def _call(name: str, arity: int = 1) -> CSpelling:
    return CSpelling(f"{name}({', '.join(f'{{{i}}}' for i in range(arity))})")


def _helper(name: str, arity: int = 1) -> CSpelling:
    return CSpelling(_call(name, arity).template, helper=name)


_COMPARISONS = {
    "eq": CSpelling("{0} == {1}", CHOICE, (SUM, SUM)),
    "ne": CSpelling("{0} != {1}", CHOICE, (SUM, SUM)),
    "lt": CSpelling("{0} < {1}", ORDER, (SUM, SUM)),
    "le": CSpelling("{0} <= {1}", ORDER, (SUM, SUM)),
    "gt": CSpelling("{0} > {1}", ORDER, (SUM, SUM)),
    "ge": CSpelling("{0} >= {1}", ORDER, (SUM, SUM)),
}
_ANY = {**_COMPARISONS, "where": CSpelling("{0} ? {1} : {2}", CHOICE, (ORDER, SUM, SUM))}
_NUMBERS = {
    **_ANY,
    "add": _infix("+", SUM),
    "sub": _infix("-", SUM),
    "mul": _infix("*", PRODUCT),
    "neg": CSpelling("-{0}", UNARY, (ATOM,)),
}
_BITS = {
    "and": _of_bits("&"),
    "or": _of_bits("|"),
    "xor": _of_bits("^"),
    "not": CSpelling("~{0}", UNARY, (ATOM,)),
}
_SAME = CSpelling("{0}", ATOM, (ATOM,))
_IN_C = {
    **{name: name for name in ("sqrt", "floor", "ceil", "trunc", "fmod", "copysign", "nextafter")},
    "abs": "fabs",
    "round": "rint",
}
"""Functions that are one instruction, or that nobody has a better one for than C's library."""
_COMPOSED = (
    *("sign", "maximum", "minimum", "fmax", "fmin", "remainder", "floordiv", "truncdiv"),
    *("isnan", "isinf", "signbit"),
)
"""Functions that every dtype has a helper for."""
_OF_INTEGERS = (
    *("abs", "sign", "maximum", "minimum", "remainder", "floordiv", "truncdiv", "fmod", "shl", "shr", "pow"),
)
_DIVISIONS = ("remainder", "floordiv", "truncdiv", "fmod")
FUNCTIONS = frozenset(
    (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "rsqrt", "pow", "sigmoid"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("hypot", "erf", "erfc", "ndtr", "lgamma"),
    )
)
"""What the module's mathematical functions are for."""


def suffix(dtype: DType) -> str:
    """What a helper's name ends with: i8 … i64, u8, f32, f64."""
    if dtype.is_floating:
        return "f64" if dtype == FLOAT64 else "f32"
    return "b8" if dtype == BOOL else f"{'u' if dtype == UINT8 else 'i'}{8 * dtype.itemsize}"


def spelling(primitive: str, dtype: DType) -> CSpelling:
    """The text of a primitive on operands of a dtype. Raises: Unsupported."""
    found = _found(primitive, dtype)
    if found is None:
        raise Unsupported(f"C has no {primitive} of {dtype}")
    return found


def quick_log1p() -> CSpelling:
    """The text of log1p of a float32 between 0 and 1, to the same bits."""
    return _helper("gs_log1p_of_part_f32", 1)


def _found(primitive: str, dtype: DType) -> CSpelling | None:
    arity = PRIMITIVES[primitive].arity
    if dtype == BOOL:
        return _OF_BOOLS.get(primitive)
    if dtype.is_floating:
        return _of_floats(primitive, dtype, arity)
    if primitive in _OF_INTEGERS and not (dtype == UINT8 and primitive in ("abs",)):
        return _helper(f"gs_{primitive}_{suffix(dtype)}", arity)
    plain = _OF_INTEGER_VALUES.get(primitive)
    # C computes in `int` what is narrower, and the result is to wrap.
    if plain is not None and dtype.itemsize < 4 and primitive not in _ANY and plain is not _SAME:
        return CSpelling(f"({TYPES[dtype]})({plain.template})", UNARY, plain.operands)
    return plain


def _of_floats(primitive: str, dtype: DType, arity: int) -> CSpelling | None:
    if primitive in _NUMBERS:
        return _NUMBERS[primitive]
    if primitive == "div":
        return _infix("/", PRODUCT)
    if primitive in _IN_C:
        return _call(_IN_C[primitive] + ("" if dtype == FLOAT64 else "f"), arity)
    if primitive in _COMPOSED or primitive in FUNCTIONS:
        return _helper(f"gs_{primitive}_{suffix(dtype)}", arity)
    return None


_OF_BOOLS = {
    **_ANY,
    **_BITS,
    "not": CSpelling("!{0}", UNARY, (ATOM,)),
    "add": _BITS["or"],
    "mul": _BITS["and"],
    "maximum": _BITS["or"],
    "minimum": _BITS["and"],
    "sign": _SAME,
    "abs": _SAME,
}
_OF_INTEGER_VALUES = {
    **_NUMBERS,
    **_BITS,
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "abs"), _SAME),
    "fmax": CSpelling("{0} < {1} ? {1} : {0}", CHOICE, (SUM, SUM)),
    "fmin": CSpelling("{1} < {0} ? {1} : {0}", CHOICE, (SUM, SUM)),
}


def supports(primitive: str, dtype: DType) -> bool:
    """Whether kernels may have a primitive of `compiler.ops.scalar` on operands of a dtype.

    Integers are divided by the op itself, which says so where a divisor is zero.
    """
    if primitive in _DIVISIONS and not dtype.is_floating:
        return False
    return primitive in ("number", "largest", "lowest", WIDE_MOMENTS) or _found(primitive, dtype) is not None


def power(exponent: Number) -> CSpelling | None:
    """A power that is a product, given a base that may be repeated."""
    # An open size is asked; as a key it would be none of these whatever it is.
    return next((found for known, found in _POWERS.items() if exponent == known), None)


_POWERS: dict[Number, CSpelling] = {
    1: _SAME,
    2: CSpelling("{0} * {0}", PRODUCT, (ATOM,)),
    3: CSpelling("{0} * {0} * {0}", PRODUCT, (ATOM,)),
}


def literal(value: Number, dtype: DType) -> Text:
    """A number as a C literal of the dtype."""
    if dtype == BOOL:
        return Text("true" if value else "false")
    if not dtype.is_floating:
        return _integer(int(value), dtype)
    with np.errstate(over="ignore"):
        number = float(value) if dtype == FLOAT64 else float(np.float32(value))
    if math.isnan(number):
        return Text("NAN")
    if math.isinf(number):
        return Text("INFINITY" if number > 0 else "-INFINITY", ATOM if number > 0 else UNARY)
    shown = repr(number) if dtype == FLOAT64 else f"{np.float32(number)!s}f"
    return Text(shown, UNARY if math.copysign(1, number) < 0 else ATOM)


def _integer(value: int, dtype: DType) -> Text:
    bits = 8 * dtype.itemsize
    if dtype == UINT8:
        return Text(str(value % 256))
    value = (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    if value == -(1 << 63):
        return Text("INT64_MIN")
    shown = f"{value}LL" if abs(value) >= 1 << 31 else str(value)
    return Text(shown, UNARY if value < 0 else ATOM)


def loaded_bool(element: Text) -> Text:
    """A bool of the byte that holds it."""
    return _COMPARISONS["ne"].apply([element, literal(0, UINT8)])


def cast(operand: Text, dtype: DType, to: DType) -> Text:
    """A value of one dtype in another, as torch converts: floats to small integers by way of 32 bits."""
    if to == BOOL:
        return _COMPARISONS["ne"].apply([operand, literal(0, dtype)])
    if dtype == BOOL:
        # Not a conversion, which gcc does not compute side by side.
        return _ANY["where"].apply([operand, *(literal(n, FLOAT32 if to.is_half else to) for n in (1, 0))])
    if to.is_half and to != dtype:
        narrow = "" if TYPES[dtype] == "float" else "(float)"
        return Text(f"gs_rounded_{to.name}({narrow}{operand.at(UNARY if narrow else ANY)})")
    if TYPES[dtype] == TYPES[to]:
        return operand
    # What fits no int is as the processor has it, in torch as well.
    through = "(int32_t)" if dtype.is_floating and not to.is_floating and to not in (INT32, INT64) else ""
    return Text(f"({TYPES[to]}){through}{operand.at(UNARY)}", UNARY)

"""Mathematical functions of C modules: our own, whose loops vectorise, and those of C's library for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...types.dtypes import FLOAT32, FLOAT64
from .math import definitions, has_function

_COMPOSED = {
    "rsqrt": "1 / sqrtF(x)",
    "sigmoid": "1 / (1 + expF(-x))",
    "ndtr": "(T)0.5 * erfcF(x * (T)-0.7071067811865476)",
}
_OF_TWO = frozenset(("pow", "atan2", "hypot", "fmod", "copysign", "nextafter"))
_NAMES = (
    *("sqrt", "floor", "ceil", "trunc", "rint", "fabs", "exp", "expm1", "exp2", "log", "log1p", "log2", "log10"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "lgamma", "tgamma", "cbrt"),
    *_OF_TWO,
)
_CALLED = re.compile(rf"\b({'|'.join(sorted(_NAMES))})(f?)\(")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CONSTANTS = {"INFINITY": "__builtin_inff()", "NAN": '__builtin_nanf("")'}


def of_math_h(text: str) -> list[str]:
    """What a text has of <math.h>, declared: the header itself takes a compiler a tenth of what most kernels do."""
    text = _COMMENT.sub("", text)
    lines = [f"#define {name} {value}" for name, value in _CONSTANTS.items() if re.search(rf"\b{name}\b", text)]
    for name, mark in sorted(set(_CALLED.findall(text))):
        type = "float" if mark else "double"
        lines.append(f"{type} {name}{mark}({', '.join([type] * (2 if name in _OF_TWO else 1))});")
    return ["\n".join(lines)] if lines else []


def function_texts(names: Iterable[str]) -> list[str]:
    """The texts of functions `gs_NAME_f32` or `gs_NAME_f64`, with what they call."""
    ours: list[str] = []
    others: list[str] = []
    for name in names:
        primitive, _, ending = name.removeprefix("gs_").rpartition("_")
        is_ours = has_function(primitive, FLOAT64 if ending == "f64" else FLOAT32)
        (ours if is_ours else others).append(name)
    return [*([definitions(ours)] if ours else []), *map(_of_the_library, others)]


def _of_the_library(name: str) -> str:
    primitive, _, ending = name.removeprefix("gs_").rpartition("_")
    type, mark = ("double", "") if ending == "f64" else ("float", "f")
    arguments = ("x", "y") if primitive in _OF_TWO else ("x",)
    body = _COMPOSED.get(primitive, f"{primitive}F({', '.join(arguments)})")
    body = body.replace("F(", f"{mark}(").replace("(T)", f"({type})")
    given = ", ".join(f"{type} {a}" for a in arguments)
    return f"static inline {type} {name}({given})\n{{\n    return {body};\n}}"

"""Builds the C functions of `codegen.c.math` with their references and measures how far they are apart."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import c_math_rare
import numpy as np
from gradscript.compiler.codegen.c.math import EXACT, definitions

COMPILER = shutil.which("gcc") or shutil.which("cc")
UNARY = (
    *("exp", "exp2", "expm1", "sigmoid", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "ndtr"),
    *("lgamma",),
)
BINARY = ("pow", "atan2", "hypot")
RARE = tuple(c_math_rare.UNARY)
"""Applied only: their references are not C's."""
SUFFIXES = ("f32", "f64")
_SWEPT = {
    **dict.fromkeys(("exp", "exp2", "cosh"), ("within(x, 200)", "near(x, 1 + x, found)")),
    **dict.fromkeys(("expm1", "sinh", "tanh"), ("within(x, 200)", "near(x, x, found)")),
    "sigmoid": ("within(x, 200)", "near(x, 0.5, found)"),
    **dict.fromkeys(("log", "log2", "log10"), ("x > 0 && x < INFINITY ? x : 2", "of_positive(x, found)")),
    "log1p": ("x > -1 && x < INFINITY ? within(x, 1e40) : 2", "of_positive(1 + x, near(x, x, found))"),
    **dict.fromkeys(("asin", "acos"), ("fabs(x) <= 1 ? x : 0.5", "fabs(x) <= 1 ? found : NAN")),
    "erf": ("within(x, 7)", "near(x, 1.1283791670955126 * x, found)"),
    "erfc": ("within(x, 20)", "near(x, 1 - 1.1283791670955126 * x, found)"),
}
"""Over all floats, the argument of the reference and the result: what its vector variant would leave to a slow path."""
_NUMBERS = {"f32": ("float", "double", ""), "f64": ("double", "__float128", "q")}


class Report(ctypes.Structure):
    """As the driver's `report`."""

    _fields_ = [
        ("worst", ctypes.c_double),
        ("worst_at", ctypes.c_double * 2),
        ("wrong", ctypes.c_uint64),
        ("wrong_at", ctypes.c_double * 2),
    ]

    def __str__(self) -> str:
        wrong = f", wrong {self.wrong} times, first at {list(self.wrong_at)}" if self.wrong else ""
        return f"{self.worst:.3f} ulp at {list(self.worst_at)}{wrong}"


@dataclass(frozen=True)
class Functions:
    """A library of functions under test, and what its compiler said of loops."""

    library: ctypes.CDLL
    text: str
    remarks: str

    def is_vectorized(self, name: str, suffix: str) -> bool:
        """Whether the loop over a function is, by the compiler's own words."""
        heads = (f"UNARY({name}, {suffix},", f"BINARY({name}, {suffix},")
        line = next(i for i, text in enumerate(self.text.splitlines(), 1) if text.startswith(heads))
        return any(f"functions.c:{line}:" in said and "loop vectorized" in said for said in self.remarks.splitlines())

    def sweep(self, name: str, first: int, stride: int, count: int) -> Report:
        """A function of one float32, at `count` bit patterns."""
        found = Report()
        arguments = (ctypes.c_uint64(first), ctypes.c_uint64(stride), ctypes.c_uint64(count))
        self.library[f"sweep_{name}"](*arguments, ctypes.byref(found))
        return found

    def check(self, name: str, *operands: np.ndarray[Any, Any]) -> Report:
        found = Report()
        self._call(f"check_{name}", operands, ctypes.byref(found))
        return found

    def apply(self, name: str, *operands: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return self._call(f"apply_{name}", operands)

    def _call(self, name: str, operands: tuple[np.ndarray[Any, Any], ...], *rest: Any) -> np.ndarray[Any, Any]:
        arrays = [np.ascontiguousarray(operand) for operand in operands]
        result = np.empty_like(arrays[0])
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, result)]
        self.library[name](*pointers, ctypes.c_long(result.size), *rest)
        return result


def source(names: tuple[str, ...]) -> str:
    """The functions by primitive's name, in float32 and float64, with their references."""
    library = definitions(f"gs_{name}_{suffix}" for name in names for suffix in SUFFIXES)
    driver = Path(__file__).with_name("c_math_driver.h").read_text(encoding="utf-8")
    return "\n\n".join(["#include <stdint.h>", library, driver, *(_checked(name) for name in names)])


def _checked(name: str) -> str:
    kind, operands = ("BINARY", "x, y") if name in BINARY else ("UNARY", "x")
    lines = []
    for suffix, (number, wide, ending) in _NUMBERS.items():
        reference = "0" if name in RARE else f"{name}{ending}({operands})"
        lines.append(f"{kind}({name}, {suffix}, {number}, {wide}, {reference})")
    if name in UNARY:
        argument, result = _SWEPT.get(name, ("x", "found"))
        lines.append(f"UNARY_BITS({name}, {argument}, {name}(x), {result})")
    return "\n".join(lines)


@cache
def build(names: tuple[str, ...], *flags: str) -> Functions | None:
    """None where there is no compiler, or none with numbers of 128 bits."""
    if COMPILER is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file, built = Path(folder, "functions.c"), Path(folder, "functions.so")
        file.write_text(source(names), encoding="utf-8")
        options = ("-O3", *(flags or ("-march=native",)), "-fopenmp", *EXACT, "-fopt-info-vec", "-shared", "-fPIC")
        command = [COMPILER, *options, str(file), "-o", str(built), "-lquadmath", "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode and "quadmath" in done.stderr:
            return None
        assert not done.returncode, done.stderr
        return Functions(ctypes.CDLL(str(built)), source(names), done.stderr)


def doubles(random: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Numbers of every exponent, of moderate size, near 1, near multiples of pi / 2, and at edges, of both signs."""
    exponents = np.tile(np.arange(-1074, 1024), max(1, count // 4 // 2098))
    spread = np.ldexp(random.uniform(1, 2, exponents.size), exponents)
    powers = np.ldexp(1.0, np.arange(-1074, 1024))
    moderate = [random.uniform(0, bound, count // 12) for bound in (1, 2, 6, 30, 750, 1e5)]
    offsets = np.ldexp(random.uniform(1, 2, count // 8), -random.integers(1, 54, count // 8))
    turns = np.concatenate([np.arange(200), random.integers(0, 1 << 40, count // 16)]) * (np.pi / 2)
    edges = np.array([0, 1, 88.72, 708.4, 709.782712893384, 710.4758600739439, 744.44, 745.1332191019411, 2.0**52])
    found = np.concatenate([spread, powers, *moderate, 1 + offsets, 1 - offsets, turns, edges, [np.inf, np.nan]])
    found = np.concatenate([found, np.nextafter(found, 0), np.nextafter(found, np.inf)])
    return np.concatenate([found, -found])


def pairs(random: np.random.Generator, dtype: np.dtype[Any], count: int) -> tuple[Any, Any]:
    """Pairs of every size, of nearly equal and of moderate numbers, and of all special ones."""
    special = np.array([0, 1e-310, 0.5, 1, 1.5, 2, 3, 2.0**24 - 1, 2.0**53 - 1, 1e30, np.inf, np.nan], dtype)
    special = np.concatenate([special, -special])
    left, right = (found.ravel() for found in np.meshgrid(special, special))
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    any_left, any_right = (random.integers(0, np.iinfo(bits).max, count, bits).view(dtype) for _ in range(2))
    moderate = [random.uniform(-4, 4, count).astype(dtype) for _ in range(2)]
    near = moderate[0] * random.uniform(0.999, 1.001, count).astype(dtype)
    return (
        np.concatenate([left, any_left, moderate[0], moderate[0], np.abs(any_left)]),
        np.concatenate([right, any_right, moderate[1], near, moderate[1]]),
    )

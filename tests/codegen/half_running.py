"""Runs coarse spellings of primitives on every number that a half can be, under Triton's interpreter.

A script for a process of its own, for Triton decides when it is imported whether it interprets:

    TRITON_INTERPRET=1 PYTHONPATH=tests/support python tests/codegen/half_running.py

prints as JSON, for each primitive and dtype: how many of the 65,536 results are not the exact one rounded once, by how
many steps they are off at most, and whether a helper of its own spelled it; of others in float32 relative errors, and
what they are of extremes.
"""

from __future__ import annotations

import json

import numpy as np
from gradscript.compiler.codegen.triton.module import emit_triton
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.ops.scalar import PRIMITIVES
from gradscript.compiler.scheduling.choose import choose_schedule
from gradscript.compiler.scheduling.schedule import Row, Schedule
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType
from kernel_building import KernelBuilder
from kernel_running import _give_libdevice_to_the_interpreter, launch

PAIRS = (("sin", "cos"), ("cos", "sin"))
COARSE = ("exp", "expm1", "sigmoid", "tanh", "ndtr", "sin", "cos")
SINGLE = np.linspace(-13, 13, 65_536, dtype=np.float32)
EXTREMES = (np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0, -20.0, np.nan)
DENSE = np.ldexp(np.random.default_rng(3).uniform(-2, 2, 33_000), np.random.default_rng(4).integers(-140, 15, 33_000))
DENSE = DENSE.astype(np.float32)
RARE = (0.0, -0.0, 1e-40, -1e-45, np.inf, -np.inf, np.nan, 99_999.0, -100_001.0, 3e38, -87.0, -88.7, 0.55, 30.0)
DIVISORS = (1.0, -3.0, 7.0e-3, 1e-38, -1e-39, 3e38, 0.0, -0.0, np.inf, -np.inf, np.nan)


def unary(primitive: str, dtype: DType) -> Kernel:
    k = KernelBuilder(f"every_{primitive}", i=65_536)
    k.input("x", dtype, (65_536,))
    k.output("result", dtype, (65_536,))
    k.store("result", "i", k.compute(primitive, k.load("x", "i")))
    return k.build()


def both(dtype: DType, first: str, second: str) -> Kernel:
    """The sine and the cosine of every number; one of them is the result."""
    k = KernelBuilder("every_sin_cos", i=65_536)
    k.input("x", dtype, (65_536,))
    for name in ("result", "other"):
        k.output(name, dtype, (65_536,))
    x = k.load("x", "i")
    k.store("result", "i", k.compute(first, x))
    k.store("other", "i", k.compute(second, x))
    return k.build()


def logarithm(dtype: DType) -> Kernel:
    """log(1 + exp(-|x|)), of a number between 0 and 1."""
    k = KernelBuilder("every_logarithm", i=65_536)
    k.input("x", dtype, (65_536,))
    k.output("result", dtype, (65_536,))
    magnitude = k.compute("abs", k.load("x", "i"))
    k.store("result", "i", k.compute("log1p", k.compute("exp", k.compute("neg", magnitude))))
    return k.build()


def quotients(dtype: DType) -> Kernel:
    """Every number, divided by one number for each row."""
    k = KernelBuilder("every_quotient", i=len(DIVISORS), j=(65_536, "reduction"))
    k.input("x", dtype, (65_536,))
    k.input("divisor", FLOAT32, (len(DIVISORS),))
    k.output("result", dtype, (len(DIVISORS), 65_536))
    k.store("result", "ij", k.compute("div", k.load("x", "j"), k.load("divisor", "i")))
    return k.build()


def quotients_by_large(dtype: DType) -> Kernel:
    """Every number, divided by 0.015625 and the magnitudes of the others."""
    k = KernelBuilder("every_large_quotient", i=65_536)
    for name in ("x", "y"):
        k.input(name, dtype, (65_536,))
    k.output("result", dtype, (65_536,))
    divisor = k.compute("maximum", k.compute("abs", k.load("y", "i")), 0.015625)
    k.store("result", "i", k.compute("div", k.load("x", "i"), divisor))
    return k.build()


def every_number(dtype: DType) -> np.ndarray:
    return np.arange(65_536, dtype=np.uint16).view(numpy_dtype(dtype))


def compared(kernel: Kernel, schedule: Schedule, inputs: dict[str, np.ndarray], exact: np.ndarray) -> list[object]:
    """How many results differ from the exact ones rounded once, and by how many steps at most."""
    found = launch(kernel, schedule, inputs, {})["result"]
    wanted = exact.astype(found.dtype)
    steps = np.abs(_position(found) - _position(wanted))
    is_nan, should_be = np.isnan(found.astype(np.float64)), np.isnan(wanted.astype(np.float64))
    steps = np.where(should_be, np.where(is_nan, 0, 65_536), np.where(is_nan, 65_536, steps))
    # Zeros of the other sign are next to each other, and still no rounding's doing.
    steps = np.where((found == 0) & (wanted == 0) & (steps != 0), 65_536, steps)
    return [int(np.count_nonzero(steps)), int(steps.max())]


def relative_error(kernel: Kernel, exact: np.ndarray) -> float:
    """Of a kernel in float32, between -13 and 13."""
    found = launch(kernel, choose_schedule(kernel), {"x": SINGLE}, {})["result"].astype(np.float64)
    return float(np.max(np.abs(found / exact - 1)))


def units_off(kernel: Kernel, primitive: str) -> list[float]:
    """By how many units in the last place results in float32 are off at most, and whether zeros and the like are right.

    Over small and large numbers of both signs, nearly all multiples of pi among them, and then over `RARE`.
    """
    x = np.concatenate([DENSE, np.arange(32_000) * np.pi, np.resize(RARE, 65_536 - 32_000 - DENSE.size)])
    x = x.astype(np.float32)
    found = launch(kernel, choose_schedule(kernel), {"x": x}, {})["result"]
    exact = np.asarray(PRIMITIVES[primitive].evaluate(x.astype(np.float64)))
    wanted = exact.astype(np.float32)
    with np.errstate(all="ignore"):
        units = np.abs(found - exact) / np.spacing(np.maximum(np.abs(wanted), np.float32(2**-126)))
    # Where exp(-x) is above the largest float32, sigmoids are 0, as torch's are.
    units = np.where((primitive == "sigmoid") & (exact < 2.0**-128) & (found == 0), 0, units)
    is_right = np.isnan(found) == np.isnan(wanted)
    is_right &= (wanted != 0) | ((found == 0) & (np.signbit(found) == np.signbit(wanted)))
    return [float(np.nanmax(units)), bool(is_right.all())]


def values(kernel: Kernel, numbers: tuple[float, ...]) -> list[float]:
    """The first results of a kernel whose first elements are these."""
    x = np.resize(np.asarray(numbers, np.float32), 65_536)
    return [float(found) for found in launch(kernel, choose_schedule(kernel), {"x": x}, {})["result"][: len(numbers)]]


def _position(halves: np.ndarray) -> np.ndarray:
    """Where numbers stand among all halves, the negative zero below the positive one."""
    bits = halves.view(np.int16).astype(np.int64)
    return np.where(bits < 0, -32_769 - bits, bits)


def _round_to_bfloat16() -> None:
    """As a device does: the interpreter truncates, and takes subnormal numbers for others."""
    import triton.language as tl
    from triton.runtime import interpreter

    def convert(data: np.ndarray, source: object, target: object, rounding: object) -> np.ndarray:
        assert {source, target} == {tl.bfloat16, tl.float32}
        half = numpy_dtype(BFLOAT16)
        return data.astype(half).view(np.uint16) if target == tl.bfloat16 else data.view(half).astype(np.float32)

    interpreter._convert_float = convert


def main() -> None:
    _give_libdevice_to_the_interpreter()
    _round_to_bfloat16()
    wide = SINGLE.astype(np.float64)
    found: dict[str, object] = {
        "ndtr float32": relative_error(unary("ndtr", FLOAT32), np.asarray(PRIMITIVES["ndtr"].evaluate(wide))),
        "ndtr of extremes": values(unary("ndtr", FLOAT32), EXTREMES),
        "units": {name: units_off(unary(name, FLOAT32), name) for name in ("sin", "cos", "tanh", "sigmoid")},
        "units of both": {name: units_off(both(FLOAT32, name, other), name) for name, other in PAIRS},
        "logarithm float32": relative_error(logarithm(FLOAT32), np.log1p(np.exp(-np.abs(wide)))),
    }
    for dtype in (FLOAT16, BFLOAT16):
        x = every_number(dtype)
        with np.errstate(all="ignore"):
            for primitive in COARSE:
                kernel = unary(primitive, dtype)
                schedule = choose_schedule(kernel)
                exact = np.asarray(PRIMITIVES[primitive].evaluate(x.astype(np.float64)))
                is_coarse = f"_coarse_{primitive}(" in emit_triton(kernel, schedule)
                found[f"{primitive} {dtype}"] = [*compared(kernel, schedule, {"x": x}, exact), is_coarse]
            for name, other in PAIRS:
                kernel = both(dtype, name, other)
                schedule = choose_schedule(kernel)
                exact = np.asarray(PRIMITIVES[name].evaluate(x.astype(np.float64)))
                is_coarse = "_coarse_sin_cos(x, is_far)" in emit_triton(kernel, schedule)
                found[f"{name} beside {dtype}"] = [*compared(kernel, schedule, {"x": x}, exact), is_coarse]
            kernel = logarithm(dtype)
            schedule = choose_schedule(kernel)
            exact = np.log1p(np.exp(-np.abs(x.astype(np.float64))))
            is_coarse = "_coarse_log1p_of_share(" in emit_triton(kernel, schedule)
            found[f"logarithm {dtype}"] = [*compared(kernel, schedule, {"x": x}, exact), is_coarse]
            kernel, y = quotients_by_large(dtype), np.random.default_rng(5).permutation(x)
            schedule = choose_schedule(kernel)
            exact = x.astype(np.float64) / np.maximum(np.abs(y.astype(np.float64)), 0.015625)
            is_coarse = "_coarse_quotient(" in emit_triton(kernel, schedule)
            result = compared(kernel, schedule, {"x": x, "y": y}, exact)
            found[f"quotient by large {dtype}"] = [*result, is_coarse]
            kernel, schedule = quotients(dtype), Row(4, 1, 1, 65_536)
            divisor = np.asarray(DIVISORS, np.float32)
            exact = x.astype(np.float64) / divisor.astype(np.float64)[:, None]
            is_coarse = "_reciprocal(" in emit_triton(kernel, schedule)
            result = compared(kernel, schedule, {"x": x, "divisor": divisor}, exact)
            found[f"quotient {dtype}"] = [*result, is_coarse]
    print(json.dumps(found))


if __name__ == "__main__":
    main()

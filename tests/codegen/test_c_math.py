"""The vector math of C kernels: what it is held to over all floats by `make c-math`, here at samples."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import c_math_rare
import gradscript as gs
import mpmath
import numpy as np
import pytest
from c_math import BINARY, COMPILER, RARE, SUFFIXES, UNARY, build, doubles, pairs
from gradscript.compiler.codegen.c.math import EXACT, definitions, has_function, helpers
from gradscript.compiler.types.dtypes import FLOAT32, FLOAT64, INT32

BOUNDS = {"f32": 4.0, "f64": 2.0}
"""In units in the last place."""
LOOSER = {"lgamma_f64": 8.0}
"""What is the C library's own."""


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", (*UNARY, *BINARY, *RARE, "zeta"))
def test_whatever_a_function_calls_stands_above_it(name: str, suffix: str) -> None:
    text = definitions([f"gs_{name}_{suffix}"])
    positions = {match[1]: match.start() for match in re.finditer(r"^static inline .*?(gs_\w+)\(", text, re.MULTILINE)}
    for called in re.finditer(r"\b(gs_\w+)\(", text):
        assert positions[called[1]] <= called.start()


def test_functions_are_written_once_for_several_dtypes() -> None:
    text = helpers(["exp", "sigmoid", "exp"], [FLOAT32, FLOAT64])
    for defined in re.findall(r"^static inline .*?(gs_\w+\()", text, re.MULTILINE):
        assert len(re.findall(rf"^static inline .*? {re.escape(defined)}", text, re.MULTILINE)) == 1
    assert text.count("#define GS_HAS_FMA 1") == 1


def test_only_floats_have_functions() -> None:
    assert has_function("exp", FLOAT32) and not has_function("exp", INT32) and not has_function("nothing", FLOAT64)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", sorted({*UNARY, *BINARY} - {"lgamma"}))
def test_loops_over_functions_vectorize(name: str, suffix: str) -> None:
    functions = build((*UNARY, *BINARY))
    assert functions is None or functions.is_vectorized(name, suffix)


@pytest.mark.parametrize("name", UNARY)
def test_floats_are_near_enough(name: str) -> None:
    functions = build((*UNARY, *BINARY))
    if functions is None:
        return
    # A stride prime to 2 ** 32 meets every exponent, both signs and every kind of last bits.
    for first, stride, count in ((0, 4093, (1 << 32) // 4093), *_neighbourhoods()):
        found = functions.sweep(name, first, stride, count)
        assert found.worst <= BOUNDS["f32"] and not found.wrong, str(found)


@pytest.mark.parametrize("name", UNARY)
def test_doubles_are_near_enough(name: str) -> None:
    functions = build((*UNARY, *BINARY))
    if functions is None:
        return
    found = functions.check(f"{name}_f64", doubles(np.random.default_rng(0), 12_000))
    assert found.worst <= LOOSER.get(f"{name}_f64", BOUNDS["f64"]) and not found.wrong, str(found)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_are_near_enough(name: str, suffix: str) -> None:
    functions = build((*UNARY, *BINARY))
    if functions is None:
        return
    left, right = pairs(np.random.default_rng(0), np.dtype("float32" if suffix == "f32" else "float64"), 40_000)
    found = functions.check(f"{name}_{suffix}", left, right)
    assert found.worst <= BOUNDS[suffix] and not found.wrong, str(found)


@pytest.mark.parametrize("name", RARE)
def test_rare_functions_are_near_enough(name: str) -> None:
    functions = build(RARE)
    if functions is None:
        return
    reference, given, bound = c_math_rare.UNARY[name]
    found = functions.apply(f"{name}_f64", given)
    single = functions.apply(f"{name}_f32", given.astype(np.float32))
    with mpmath.workdps(60):
        for x, got in zip(given.tolist(), found.tolist(), strict=True):
            assert c_math_rare.units(got, reference(mpmath.mpf(x))) <= bound, (x, got)
    # In float32 they are those of float64, rounded.
    with np.errstate(over="ignore"):
        wide = functions.apply(f"{name}_f64", given.astype(np.float32).astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(single, wide)


def _neighbourhoods() -> list[tuple[int, int, int]]:
    """Of zero, the least normal number, 1, infinity and NaN, of both signs."""
    middles = (0x0, 0x00800000, 0x3F800000, 0x7F800000, 0x7FC00000)
    return [((sign + middle - 300) % (1 << 32), 1, 600) for middle in middles for sign in (0, 1 << 31)]


PARTS = """
long differing(uint32_t first, uint32_t step)
{
    long found = 0;
    for (uint64_t bits = first; bits <= 0x3f800000u; bits += step) {
        const float x = gs_of_bits_f32((uint32_t)bits);
        found += gs_to_bits_f32(gs_log1p_f32(x)) != gs_to_bits_f32(gs_log1p_of_part_f32(x));
    }
    const float none = gs_log1p_of_part_f32(__builtin_nanf(""));
    return found + (none == none);
}
"""


@pytest.mark.parametrize("flags", [("-march=native",), ()] if COMPILER else [])
def test_log1p_between_0_and_1_is_log1p(flags: tuple[str, ...], tmp_path: Path) -> None:
    """To the bit, so that no result depends on what a kernel knows of its operand."""
    text = f"#include <stdint.h>\n{definitions(['gs_log1p_f32', 'gs_log1p_of_part_f32'])}{PARTS}"
    built = tmp_path / "parts.so"
    command = [str(COMPILER), "-O2", *flags, *EXACT, "-shared", "-fPIC", "-x", "c", "-", "-o", str(built), "-lm"]
    subprocess.run(command, input=text, text=True, check=True)
    assert ctypes.CDLL(str(built)).differing(ctypes.c_uint32(0), ctypes.c_uint32(1021)) == 0


@pytest.mark.parametrize(
    "formula",
    ["F.binary_cross_entropy_with_logits(x, x)", "F.logsigmoid(x)", "torch.logaddexp(x, -x)"] if COMPILER else [],
)
def test_losses_take_log1p_between_0_and_1(formula: str) -> None:
    function = gs.CompilationUnit(f"def f(x):\n    return {formula}\n").f
    assert "gs_log1p_of_part_f32" in function.kernels(np.zeros(100, np.float32)).c.forward

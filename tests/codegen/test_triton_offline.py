"""Emitted kernels compile for devices that are not here, without spills and with wide loads.

A few stand for all; `python tests/codegen/compiled_kernels.py` compiles everything.
"""

from __future__ import annotations

import re

import kernel_cases as cases
import pytest
from amounts import some_of
from compiled_kernels import MATRIX, compiled, parts, wide_loads
from gradscript.compiler.codegen.triton.module import Unsupported, compile_options, emit_triton, supports
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.ops.scalar import PRIMITIVES
from gradscript.compiler.scheduling.choose import candidates, choose_schedule
from gradscript.compiler.scheduling.pressure import bytes_fetched
from gradscript.compiler.scheduling.schedule import Serial
from gradscript.compiler.types.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT8,
    DType,
)
from gradscript.runtime.kernels.failure import KernelFailure
from gradscript.runtime.kernels.triton.compile import TARGETS, compile_offline
from kernel_building import KernelBuilder

pytest.importorskip("triton")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["softmax", "layer norm backward", "dropout"])
def test_kernels_compile_without_spills(name: str, target: str) -> None:
    for part in parts(MATRIX[name](BFLOAT16)):
        binary = compiled(part, target)
        assert binary.code
        assert binary.spills == 0, part.name


@pytest.mark.parametrize("name", some_of(MATRIX))
def test_every_kernel_compiles(name: str) -> None:
    """Each for one target and dtype, those in turn."""
    position = list(MATRIX).index(name)
    target, dtype = list(TARGETS)[position % 4], (FLOAT32, FLOAT16, BFLOAT16)[position % 3]
    for part in parts(MATRIX[name](dtype)):
        assert compiled(part, target).spills == 0, part.name


@pytest.mark.parametrize(
    ("kernel", "loads"),
    [
        (cases.chain((64, 1024)), 2),
        (cases.dynamic(cases.chain((65_536,)), "i"), 2),
        (cases.dynamic(cases.chain((65_537,)), "i"), 0),
        (cases.softmax(256, 1024), 2),
    ],
    ids=["pointwise", "of a size that is passed", "of an odd one", "row"],
)
def test_contiguous_rows_are_loaded_16_bytes_at_once(kernel: Kernel, loads: int) -> None:
    assert wide_loads(compiled(parts(kernel)[0], "sm_90")) == loads


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize(
    "kernel",
    [cases.layer_norm_backward(512, 768), cases.bias_gradient(4096, 1024), cases.logsumexp(64, 32_000, BFLOAT16)],
    ids=["serial rows", "side by side", "looped row"],
)
def test_loops_fetch_their_next_turns_ahead(kernel: Kernel, target: str) -> None:
    """16 bytes at once, into shared memory: so many turns of them as the schedule has stages, less the present one."""
    first = parts(kernel)[0]
    schedule = choose_schedule(first)
    binary = compiled(first, target)
    widths = set(re.findall(r"cp\.async\.c[ag]\.shared\.global [^;]*?, 0x([0-9a-f]+)", binary.assembly))
    along = frozenset(a.name for a in first.axes if a.role == ("serial" if first.with_role("serial") else "reduction"))
    tile = schedule.rows * (schedule.columns if isinstance(schedule, Serial) else schedule.block)
    ahead = (schedule.num_stages - 1) * tile * bytes_fetched(first, along)
    assert "10" in widths and widths <= {"10", "4"}
    assert ahead <= binary.shared <= ahead + 4096


@pytest.mark.parametrize("target", TARGETS)
def test_a_walk_over_wide_rows_fits(target: str) -> None:
    """Rows of 8192 columns in float32 beside two sums: no spills, and shared memory that all devices have."""
    first = parts(cases.layer_norm_backward(4096, 8192))[0]
    binary = compiled(first, target)
    assert binary.spills == 0 and binary.shared <= 99 * 1024


def test_every_candidate_of_tuning_compiles() -> None:
    for kernel in (cases.softmax(256, 1000), cases.transposed()):
        (part,) = parts(kernel)
        for schedule in candidates(part):
            assert compiled(part, "sm_90", schedule).code


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize("dtype", some_of([FLOAT32, FLOAT64, INT32, UINT8, BOOL]), ids=str)
def test_every_primitive_with_a_text_compiles(dtype: DType, target: str) -> None:
    """In one kernel, so that it is quick."""
    assert compiled(_all_primitives(dtype), target).code


@pytest.mark.parametrize("target", TARGETS)
def test_coarse_spellings_compile(target: str) -> None:
    k = KernelBuilder("coarse", i=1024, j=(1024, "reduction"))
    k.input("x", BFLOAT16, (1024, 1024))
    x = k.load("x", "ij")
    found = [k.compute(primitive, x) for primitive in ("exp", "expm1", "sigmoid", "tanh", "ndtr")]
    share = k.compute("exp", k.compute("neg", k.compute("abs", x)))
    quotient = k.compute("div", share, k.reduce("sum", share, "j"))
    for number, value in enumerate([*found, k.compute("log1p", share), quotient, k.compute("div", x, share)]):
        k.output(f"out_{number}", BFLOAT16, (1024, 1024))
        k.store(f"out_{number}", "ij", value)
    assert compiled(k.build(), target).spills == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=str)
def test_sines_compile(dtype: DType, target: str) -> None:
    """One of a number, and both of another."""
    k = KernelBuilder("sines", i=4096)
    values = []
    for name in ("x", "y"):
        k.input(name, dtype, (4096,))
        values.append(k.load(name, "i"))
    x, y = values
    for number, value in enumerate((k.compute("sin", x), k.compute("cos", y), k.compute("sin", y))):
        k.output(f"out_{number}", dtype, (4096,))
        k.store(f"out_{number}", "i", value)
    kernel = k.build()
    text = emit_triton(kernel, choose_schedule(kernel)).partition("def sines(")[2]
    assert text.count("sin_cos(y, is_far)") == text.count("_sin(x, is_far)") == 1
    assert "tl.max(tl.maximum(tl.abs(x), tl.abs(y)), axis=None)" in text
    assert compiled(kernel, target).spills == 0


def _all_primitives(dtype: DType) -> Kernel:
    k = KernelBuilder("primitives", i=128)
    for number in range(3):
        k.input(f"x{number}", dtype, (128,))
    k.input("flag", BOOL, (128,))
    flag, values = k.load("flag", "i"), [k.load(f"x{number}", "i") for number in range(3)]
    for name, primitive in PRIMITIVES.items():
        if not supports(name, dtype):
            continue
        operands = [flag if kind == "bool" else values[i] for i, kind in enumerate(primitive.operands)]
        result = BOOL if primitive.result == "bool" else dtype
        k.output(f"out_{name}", result, (128,))
        k.store(f"out_{name}", "i", k.compute(name, *operands, dtype=result))
    return k.build()


def test_floats_have_all_primitives_but_these() -> None:
    """What libdevice lacks stays outside of kernels; bits are none of floats."""
    lacking = {name for name in PRIMITIVES if not supports(name, FLOAT32)}
    assert lacking == {"ndtri", "digamma", "zeta", "bessel_i0e", "bessel_i1e", "and", "or", "xor", "not", "shl", "shr"}


def test_a_primitive_without_a_text_is_refused() -> None:
    k = KernelBuilder("refused", i=8)
    k.input("x", FLOAT32, (8,))
    k.output("result", FLOAT32, (8,))
    k.store("result", "i", k.compute("digamma", k.load("x", "i")))
    with pytest.raises(Unsupported, match="Triton has no digamma of float32"):
        compiled(k.build(), "sm_90")


SAME = ("exp", "log", "log10", "log2", "ndtr", "sigmoid", "tanh", "sin", "cos")
"""Functions whose results were the same on a GPU over all floats, whether libdevice takes subnormals for 0 or not."""


@pytest.mark.parametrize("name", [n for n in PRIMITIVES if supports(n, FLOAT32) and PRIMITIVES[n].floating])
def test_subnormal_numbers_are_not_taken_for_nothing(name: str) -> None:
    """Where that would make another result, libdevice is not told to: its code has no `.ftz` then."""
    kernel = _one_primitive(name)
    text = emit_triton(kernel, choose_schedule(kernel))
    if compile_options(text)["enable_reflect_ftz"] and name not in SAME:
        assert ".ftz" not in compiled(kernel, "sm_90").assembly


def _one_primitive(name: str) -> Kernel:
    k = KernelBuilder("one", i=128)
    operands = []
    for number in range(len(PRIMITIVES[name].operands)):
        k.input(f"x{number}", FLOAT32, (128,))
        operands.append(k.load(f"x{number}", "i"))
    result = BOOL if PRIMITIVES[name].result == "bool" else FLOAT32
    k.output("result", result, (128,))
    k.store("result", "i", k.compute(name, *operands, dtype=result))
    return k.build()


BINARY = [n for n, p in PRIMITIVES.items() if len(p.operands) == 2 and p.operands[0] == p.operands[1]]


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, INT64])
def test_numbers_stand_beside_values_of_every_dtype(dtype: DType) -> None:
    """On either side, of rows and of what is one for all: `2 ** x` of float64 did not compile."""
    k = KernelBuilder("numbers", i=128)
    k.input("x", dtype, (128,))
    k.input("y", dtype, ())
    values = {"i": k.load("x", "i"), "": k.load("y", "")}
    number = 3 if dtype == INT64 else 3.0
    for name in BINARY:
        if not supports(name, dtype) or (PRIMITIVES[name].floating and not dtype.is_floating):
            continue
        result = BOOL if PRIMITIVES[name].result == "bool" else dtype
        for axes, value in values.items():
            for side, operands in (("left", (number, value)), ("right", (value, number))):
                k.output(f"{name}_{side}_{axes}", result, (128,) if axes else ())
                k.store(f"{name}_{side}_{axes}", axes, k.compute(name, *operands, dtype=result))
    assert compiled(k.build(), "sm_90").code


def test_kernels_say_whether_subnormal_numbers_are_kept() -> None:
    texts = {
        name: emit_triton(k, choose_schedule(k)) for name in ("atan2", "rsqrt", "exp") for k in [_one_primitive(name)]
    }
    assert {name: compile_options(text)["enable_reflect_ftz"] for name, text in texts.items()} == {
        "atan2": False,
        "rsqrt": False,
        "exp": True,
    }


def test_unknown_targets_and_broken_texts_are_told() -> None:
    with pytest.raises(KernelFailure, match="unknown target 'sm_20'"):
        compile_offline("", "kernel", {}, "sm_20")
    text = "import triton\n\n\n@triton.jit\ndef kernel(x_ptr):\n    nothing\n"
    with pytest.raises(KernelFailure, match="does not compile kernel for sm_90"):
        compile_offline(text, "kernel", {"x_ptr": "*fp32"}, "sm_90", compile_options(text))

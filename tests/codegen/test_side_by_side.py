"""Loops of kernels in C go through several points at once: gcc tells which of them it could not make so."""

from __future__ import annotations

import re
import subprocess

import gradscript as gs
import numpy as np
import pytest
from amounts import some_of
from gradscript.compiler.codegen.c.primitives import supports
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.ops.scalar import PRIMITIVES
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
from gradscript.runtime.kernels.c.compiler import compiler, flags
from gradscript.runtime.kernels.c.kernel import module_of
from kernel_building import KernelBuilder
from kernel_cases import dropout

SHAPE = (64, 1000)
POINT_BY_POINT = {"floordiv", "remainder", "fmod", "nextafter", "lgamma"}
"""Functions of C's library, and one whose ways part too far."""
OF_INTEGERS = {"pow"}
FLOATS = (FLOAT32, FLOAT64, FLOAT16, BFLOAT16)
DTYPES = (*FLOATS, INT64, INT32, UINT8, BOOL)


def is_gcc() -> bool:
    made_by = compiler()
    if made_by is None:
        return False
    shown = subprocess.run([*made_by.command, "--version"], capture_output=True, text=True, check=False).stdout
    return "Free Software Foundation" in shown


@pytest.mark.parametrize("dtype", some_of(DTYPES) if is_gcc() else [], ids=lambda dtype: dtype.name)
def test_primitives_are_computed_side_by_side(dtype: DType) -> None:
    kernels = [primitive(name, dtype) for name in PRIMITIVES if is_tried(name, dtype)]
    assert len(kernels) > 5
    assert alone(kernels) == []


@pytest.mark.parametrize("dtype", FLOATS if is_gcc() else [], ids=lambda dtype: dtype.name)
def test_reductions_draws_and_masks_are_computed_side_by_side(dtype: DType) -> None:
    kernels = [reduction(combine, dtype) for combine in ("sum", "max", "min", "prod", "any", "all")]
    extremes = [extreme(combine, dtype) for combine in ("max", "min")]
    assert alone([*kernels, *extremes, dropout(*SHAPE, dtype), masked(dtype)]) == []


def is_tried(name: str, dtype: DType) -> bool:
    computed = FLOAT32 if dtype.is_half else dtype
    lacks = POINT_BY_POINT if dtype.is_floating else OF_INTEGERS
    return bool(PRIMITIVES[name].operands) and supports(name, computed) and name not in lacks


def primitive(name: str, dtype: DType) -> Kernel:
    k = KernelBuilder(f"of_{name}", i=SHAPE[0], j=SHAPE[1])
    operands = []
    for number, kind in enumerate(PRIMITIVES[name].operands):
        k.input(f"x{number}", BOOL if kind == "bool" else dtype, SHAPE)
        operands.append(k.load(f"x{number}", "ij"))
    k.output("result", BOOL if PRIMITIVES[name].result == "bool" else dtype, SHAPE)
    k.store("result", "ij", k.compute(name, *operands))
    return k.build()


def reduction(combine: str, dtype: DType) -> Kernel:
    """A row less what is combined of it; of bools, where that holds."""
    k = KernelBuilder(f"less_{combine}", i=SHAPE[0], j=(SHAPE[1], "reduction"))
    k.input("x", dtype, SHAPE)
    k.output("result", dtype, SHAPE)
    x = k.load("x", "ij")
    if combine in ("any", "all"):
        found = k.reduce(combine, k.compute("gt", x, 0.0), "j", name="found")
        k.store("result", "ij", k.compute("where", found, x, 0.0))
    else:
        k.store("result", "ij", k.compute("sub", x, k.reduce(combine, x, "j", name="found")))
    return k.build()


def masked(dtype: DType) -> Kernel:
    """The largest of a row where a mask is, less that, and elsewhere what is lowest."""
    k = KernelBuilder("masked", i=SHAPE[0], j=(SHAPE[1], "reduction"))
    k.input("x", dtype, SHAPE)
    k.input("mask", BOOL, SHAPE)
    k.output("result", dtype, SHAPE)
    x = k.compute("where", k.load("mask", "ij"), k.load("x", "ij"), -1e4)
    largest = k.reduce("max", k.compute("exp", x, name="power"), "j", name="largest")
    k.store("result", "ij", k.compute("sub", x, largest))
    return k.build()


def extreme(combine: str, dtype: DType) -> Kernel:
    """The largest or the smallest of a row where a mask is, less that."""
    k = KernelBuilder(f"{combine}_of_some", i=SHAPE[0], j=(SHAPE[1], "reduction"))
    k.input("x", dtype, SHAPE)
    k.input("mask", BOOL, SHAPE)
    k.output("result", dtype, SHAPE)
    x = k.compute("where", k.load("mask", "ij"), k.load("x", "ij"), float("-inf" if combine == "max" else "inf"))
    k.store("result", "ij", k.compute("sub", x, k.reduce(combine, x, "j", name="found")))
    return k.build()


STRIDED = (
    "F.gelu(x)",
    "F.elu(x)",
    "torch.exp(x)",
    "torch.softmax(x, -1)",
    "F.layer_norm(x, [x.size(-1)])",
    "F.relu(x)",
)


@pytest.mark.parametrize("step", [2, -1] if is_gcc() else [])
def test_elements_with_gaps_and_backwards_are_computed_side_by_side(step: int) -> None:
    """What has gaps is not read by a mask, nor what lies the other way round."""
    texts = [text if step > 0 else text.replace("(x", "(x.flip(-1)") for text in STRIDED]
    unit = gs.CompilationUnit("\n".join(f"def f{n}(x):\n    return {text}\n" for n, text in enumerate(texts)))
    x = np.zeros((512, 1026), np.float32)[:, :: max(step, 1)]
    listings = [unit[name].kernels(x) for name in unit.functions]
    kernels = [info.kernel for found in listings for info in (*found.forward, *found.backward)]
    assert alone(kernels) == []


def alone(kernels: list[Kernel]) -> list[str]:
    """The functions with a loop that goes point by point."""
    lines = module_of(kernels).text.splitlines()
    # Nothing is left out because another function has it, or because the library copies memory.
    options = [*flags(), "-fno-ipa-icf", "-fno-tree-loop-distribute-patterns", "-fopt-info-vec-optimized"]
    made_by = compiler()
    assert made_by is not None
    found = subprocess.run(
        [*made_by.command, *options, "-x", "c", "-", "-o", "/dev/null", "-lm"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    at = {int(number) for number in re.findall(r":(\d+):\d+: optimized: loop vectorized", found.stderr)}
    names: list[str] = []
    name = ""
    for number, line in enumerate(lines):
        name = line.removeprefix("int ").removesuffix("(") if line.startswith("int ") else name
        if "#pragma omp simd" in line and not at & set(range(number + 2, end_of_loop(lines, number + 1) + 2)):
            names.append(name)
    return names


def end_of_loop(lines: list[str], start: int) -> int:
    indent = re.match(" *", lines[start])
    assert indent is not None
    return next(n for n in range(start, len(lines)) if lines[n] == indent.group() + "}")


FORMULAS = (
    *(
        "F.relu(x)",
        "F.relu6(x)",
        "F.elu(x)",
        "F.selu(x)",
        "F.celu(x)",
        "F.leaky_relu(x)",
        "F.hardtanh(x)",
        "F.hardswish(x)",
    ),
    *(
        "F.hardsigmoid(x)",
        "F.softshrink(x)",
        "F.hardshrink(x)",
        "F.softsign(x)",
        "F.tanhshrink(x)",
        "F.threshold(x, 0.1, 0.0)",
    ),
    *("F.silu(x)", "F.mish(x)", "F.softplus(x)", "F.logsigmoid(x)", "F.gelu(x)", "F.gelu(x, approximate='tanh')"),
    *("torch.clamp(x, -1, 1)", "torch.clamp(x, min=0.5)", "torch.maximum(x, x * x)", "torch.minimum(x, -x)", "x.abs()"),
    *("torch.where(x > 0, x, torch.exp(x))", "x.abs() ** 1.5", "torch.pow(2.0, x)", "x ** 3", "torch.sign(x) * x"),
    *("torch.xlogy(x, x.abs() + 1)", "torch.logaddexp(x, 2 * x)", "torch.nan_to_num(x)", "torch.hypot(x, x + 1)"),
    *("F.smooth_l1_loss(x, 2 * x, reduction='none')", "F.huber_loss(x, 2 * x, reduction='none')", "torch.sinc(x)"),
    *(
        "F.binary_cross_entropy_with_logits(x, x * x, reduction='none')",
        "torch.relu(x).sum(-1)",
        "torch.softmax(x, -1)",
    ),
    *("F.layer_norm(torch.relu(x), [x.size(-1)])", "torch.logsumexp(torch.clamp(x, -3, 3), -1)", "torch.frac(x)"),
    *(
        "torch.heaviside(x, x)",
        "torch.copysign(x, -x)",
        "torch.fmax(x, -x)",
        "F.relu(x) * F.relu(-x)",
        "x.clamp(0, 1).log1p()",
    ),
)
SHAPES = ((1 << 18,), (64, 1000), (300, 61), (8, 64, 64))
"""Blocks of a tensor, of whose end there is a part; rows, long and short; columns."""


@pytest.mark.parametrize("shape", some_of(SHAPES) if is_gcc() else [], ids=str)
@pytest.mark.parametrize("dtype", some_of((np.float32, np.float64, np.float16)) if is_gcc() else [])
def test_formulas_and_their_gradients_are_computed_side_by_side(shape: tuple[int, ...], dtype: type) -> None:
    """What is chosen by a mask, then by a value, is no branch."""
    sources = [f"def f{n}(x):\n    return {formula}\n" for n, formula in enumerate(FORMULAS)]
    unit = gs.CompilationUnit("\n".join(sources))
    kernels: list[Kernel] = []
    for name in unit.functions:
        listing = unit[name].kernels(np.zeros(shape, dtype))
        kernels += [info.kernel for info in (*listing.forward, *listing.backward)]
    assert alone(kernels) == []

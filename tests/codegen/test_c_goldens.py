"""The C functions of kernels, as people review them. REWRITE_GOLDENS=1 writes them anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import kernel_cases as cases
import pytest
from gradscript.compiler.codegen.c.module import emit_function
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.scheduling.collapse import collapse_axes
from gradscript.compiler.scheduling.cpu import split_for_cpu
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16

GOLDENS = Path(__file__).parent / "goldens" / "c"
KERNELS: dict[str, Callable[[], Kernel]] = {
    "pointwise": cases.chain,
    "broadcast": lambda: cases.broadcast(dtype=BFLOAT16),
    "transposed": cases.transposed,
    "dynamic": lambda: cases.dynamic(cases.broadcast(37, 128), "i"),
    "softmax": lambda: cases.softmax(dtype=FLOAT16),
    "softmax_columns": lambda: cases.softmax_columns(500, 130),
    "layer_norm": cases.layer_norm,
    "layer_norm_backward": cases.layer_norm_backward,
    "layer_norm_backward_short": lambda: cases.layer_norm_backward(1001, 61),
    "bias_gradient": lambda: cases.bias_gradient(4096, 1024),
    "channel_sum": cases.outer_statistics,
    "argmax": cases.argmax,
    "cross_entropy": cases.cross_entropy,
    "dropout": cases.dropout,
    "integers": cases.integers,
    "pad": cases.padded,
    "reversed": cases.windows,
    "scalar": cases.scalar,
}


def text_of(kernel: Kernel) -> str:
    """All the functions that one kernel becomes, each after its schedule."""
    parts = [collapse_axes(part) for part in split_for_cpu(collapse_axes(kernel))]
    functions = [emit_function(part, part.name) for part in parts]
    return "\n\n".join(f"/* {function.schedule} */\n\n{function.text}\n" for function in functions)


@pytest.mark.parametrize("name", KERNELS)
def test_text_is_the_golden(name: str) -> None:
    path = GOLDENS / f"{name}.c"
    text = text_of(KERNELS[name]())
    if os.environ.get("REWRITE_GOLDENS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_has_a_kernel() -> None:
    assert {path.stem for path in GOLDENS.glob("*.c")} == set(KERNELS)

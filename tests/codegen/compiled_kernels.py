"""The kernels that are compiled for devices that are not here, and what must hold of the binaries.

As a script it compiles all of them, for every target and dtype, and prints a line for each:

    python tests/codegen/compiled_kernels.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import kernel_cases as cases
from gradscript.compiler.codegen.triton.module import (
    compile_options,
    configuration,
    divisible_sizes,
    emit_triton,
    function_name,
    triton_signature,
)
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.scheduling.choose import candidates, choose_schedule
from gradscript.compiler.scheduling.collapse import collapse_axes
from gradscript.compiler.scheduling.schedule import Schedule
from gradscript.compiler.scheduling.split import split_reductions
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType
from gradscript.runtime.kernels.triton.compile import TARGETS, Binary, compile_offline

FLOATS = (FLOAT32, FLOAT16, BFLOAT16)
MATRIX: dict[str, Callable[[DType], Kernel]] = {
    "chain": lambda dtype: cases.chain((64, 1000), dtype),
    "chain of odd size": lambda dtype: cases.chain((7, 101), dtype),
    "chain of 64-bit size": lambda dtype: cases.chain((2**31 + 8,), dtype),
    "chain, dynamic": lambda dtype: cases.dynamic(cases.chain((64, 1000), dtype), "i"),
    "broadcast": lambda dtype: cases.broadcast(dtype=dtype),
    "transposed": lambda dtype: cases.transposed(1000, 500, dtype),
    "softmax": lambda dtype: cases.softmax(256, 1000, dtype),
    "softmax of short rows": lambda dtype: cases.softmax(4096, 61, dtype),
    "softmax of longest rows in registers": lambda dtype: cases.softmax(64, 16384, dtype),
    "tile": lambda dtype: cases.tile(4096, 4, 4, dtype),
    "tile of odd sizes": lambda dtype: cases.tile(512, 7, 30, dtype),
    "tile, batch innermost": lambda dtype: cases.tile(4096, 4, 4, dtype, outermost=False),
    "tile backward": lambda dtype: cases.tile_backward(4096, 8, 1024, dtype),
    "softmax, looped": lambda dtype: cases.softmax(8, 100_000, dtype),
    "softmax of columns": lambda dtype: cases.softmax_columns(500, 130, dtype),
    "log of a sum of exponentials": lambda dtype: cases.logsumexp(256, 50_257, dtype),
    "layer norm": lambda dtype: cases.layer_norm(256, 768, dtype),
    "layer norm of longer rows": lambda dtype: cases.layer_norm(256, 8192, dtype),
    "layer norm, looped": lambda dtype: cases.layer_norm(8, 100_000, dtype),
    "layer norm backward": lambda dtype: cases.layer_norm_backward(4096, 768, dtype),
    "layer norm backward of short rows": lambda dtype: cases.layer_norm_backward(4096, 61, dtype),
    "layer norm backward of longer rows": lambda dtype: cases.layer_norm_backward(4096, 8192, dtype),
    "layer norm backward, apart": lambda dtype: cases.layer_norm_backward(4096, 20_001, dtype),
    "bias gradient": lambda dtype: cases.bias_gradient(4096, 1024, dtype),
    "column sum": lambda dtype: cases.column_sum(5000, 130, dtype),
    "sum of everything": lambda dtype: cases.full_sum(10_000_000, dtype),
    "loss and gradient": lambda dtype: cases.loss_and_gradient(1_000_001, dtype),
    "argmax": lambda dtype: cases.argmax(33, 257, dtype),
    "argmax of long rows": lambda dtype: cases.argmax(4, 1_000_000, dtype),
    "embedding": lambda dtype: cases.embedding(450, 768, dtype),
    "cross entropy": lambda dtype: cases.cross_entropy(512, 1000, dtype),
    "cross entropy of long rows": lambda dtype: cases.cross_entropy(512, 50_257, dtype),
    "dropout": lambda dtype: cases.dropout(512, 768, dtype),
    "any, all": lambda dtype: cases.any_all(31, 67, dtype),
    "pad": lambda dtype: cases.padded(dtype=dtype),
    "reversed": lambda dtype: cases.windows(dtype=dtype),
    "scalar": cases.scalar,
    "sums of channels": lambda dtype: cases.outer_statistics(64, 32, 3136, dtype),
    "specials": lambda dtype: cases.specials(10_000, dtype),
}
"""Kernels by dtype."""


def parts(kernel: Kernel) -> list[Kernel]:
    """The kernels that run in place of one."""
    return [collapse_axes(part) for part in split_reductions(kernel)]


def compiled(kernel: Kernel, target: str, schedule: Schedule | None = None) -> Binary:
    schedule = schedule or choose_schedule(kernel)
    text = emit_triton(kernel, schedule)
    options = {**compile_options(text), **configuration(schedule)}
    sizes = divisible_sizes(kernel)
    return compile_offline(text, function_name(kernel), triton_signature(kernel, schedule), target, options, sizes)


def wide_loads(binary: Binary) -> int:
    """Loads of 16 bytes at once."""
    names = ("ld.global.v4", "ld.global.b128", "load_dwordx4")
    return sum(binary.assembly.count(name) for name in names)


def _all() -> Iterator[tuple[str, Kernel]]:
    for name, make in MATRIX.items():
        for dtype in FLOATS:
            yield f"{name}, {dtype}", make(dtype)
    yield "softmax, float64", cases.softmax(256, 1000, FLOAT64)
    for dtype in (INT32, INT64):
        yield f"integers, {dtype}", cases.integers(1001, dtype)


def main() -> int:
    spilled = 0
    for name, kernel in _all():
        for part in parts(kernel):
            for target in TARGETS:
                binary = compiled(part, target)
                spilled += bool(binary.spills)
                print(f"{name:45} {part.name:30} {target:7} {binary.registers:4} registers", end="")
                print(f" {binary.spills:4} spills {wide_loads(binary):3} wide loads", flush=True)
    print(f"{spilled} spill")
    return min(spilled, 1)


__all__ = ["MATRIX", "candidates", "compiled", "parts", "wide_loads"]

if __name__ == "__main__":
    sys.exit(main())

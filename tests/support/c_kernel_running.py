"""Kernels in C, built and run, and held to what their IR means."""

from __future__ import annotations

from functools import partial

import numpy as np
from gradscript.compiler.codegen.c.module import supports
from gradscript.compiler.kernel_ir.kernel import Compute, Kernel, Store
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.scheduling.collapse import collapse_axes
from gradscript.compiler.scheduling.cpu import split_for_cpu
from gradscript.compiler.types.dtypes import BOOL, FLOAT64
from gradscript.lang.light_dataclasses import replace
from gradscript.runtime.kernels.c.kernel import Kernels, module_of
from kernel_cases import GROUPS, Case, softmax
from kernel_running import Arrays
from kernel_running import assert_as_meant as meant

CASES = [case for cases in GROUPS.values() for case in cases if case.schedule is None]
CASES += [Case("softmax, no columns", softmax(5, 0)), Case("float64 softmax, no columns", softmax(5, 0, FLOAT64))]
"""Those that no schedule is asked for: processors have their own."""


def assert_as_meant(case: Case, threads: int) -> None:
    kernel = with_text(case.kernel)
    meant(case, kernel, split_for_cpu(collapse_axes(kernel)), partial(run, threads=threads))


def with_text(kernel: Kernel) -> Kernel:
    """The kernel without the outputs of functions that C has no text for."""
    lacking = {
        s.name
        for s in kernel.body
        if isinstance(s, Compute) and s.dtype.is_floating and not supports(s.primitive, s.dtype)
    }
    stores = {s.buffer for s in kernel.body if isinstance(s, Store) and s.operand in lacking}
    body = [s for s in kernel.body if not (isinstance(s, Store) and s.buffer in stores)]
    body = [s for s in body if getattr(s, "name", "") not in lacking]
    return replace(kernel, body=tuple(body), buffers=tuple(b for b in kernel.buffers if b.name not in stores))


def run(kernel: Kernel, arrays: Arrays, numbers: dict[str, float], threads: int) -> Arrays:
    """The outputs of one kernel. What lies between the elements of a buffer is not a number."""
    memory = {}
    for buffer in kernel.buffers:
        extent = 1 + sum((n - 1) * s for n, s in zip(buffer.shape, buffer.strides, strict=True) if n)
        dtype = numpy_dtype(buffer.dtype)
        filler = 0 if buffer.dtype == BOOL else 9 if not buffer.dtype.is_floating else np.nan
        memory[buffer.name] = flat = np.full(max(extent, 1), filler, dtype)
        if buffer.name in arrays and buffer.numel:
            strides = [s * dtype.itemsize for s in buffer.strides]
            np.lib.stride_tricks.as_strided(flat, buffer.shape, strides)[...] = arrays[buffer.name]
    Kernels(module_of([kernel])).run(
        [memory[b.name] for b in kernel.buffers], [numbers[p.name] for p in kernel.parameters], threads
    )
    return {
        b.name: np.lib.stride_tricks.as_strided(
            memory[b.name], b.shape, [s * memory[b.name].itemsize for s in b.strides]
        )
        for b in kernel.outputs
    }

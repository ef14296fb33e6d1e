"""Kernels that read numbers from memory mean what those mean that are passed these, and compile."""

from __future__ import annotations

import kernel_cases as cases
import numpy as np
import pytest
from gradscript.compiler.codegen.triton.module import emit_triton, function_name, triton_signature
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.kernel_ir.read_numbers import with_numbers_read
from gradscript.compiler.kernel_ir.verifier import verify_kernel
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.scheduling.choose import choose_schedule
from gradscript.runtime.kernels.triton.compile import compile_offline
from kernel_running import inputs_of

ALL = {case.name: case.kernel for group in cases.GROUPS.values() for case in group if case.kernel.parameters}
"""Every kernel that is passed a number."""


def _numbers(kernel: Kernel) -> dict[str, float]:
    return {p.name: 0.625 if p.dtype.is_floating else (1 << 62) + 12345 for p in kernel.parameters}


@pytest.mark.parametrize("name", ALL)
def test_a_number_read_is_the_number_passed(name: str) -> None:
    kernel = ALL[name]
    arrays, numbers = inputs_of(kernel), _numbers(kernel)
    read = with_numbers_read(kernel, numbers)
    verify_kernel(read)
    assert not read.parameters
    held = {p.name: np.asarray(numbers[p.name], numpy_dtype(p.dtype)) for p in kernel.parameters}
    want, have = run_kernel(kernel, arrays, numbers), run_kernel(read, {**arrays, **held}, {})
    for buffer in kernel.outputs:
        np.testing.assert_array_equal(have[buffer.name], want[buffer.name])


def test_what_is_not_read_is_passed() -> None:
    kernel = ALL["dropout"]
    assert with_numbers_read(kernel, []) == kernel


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_it_compiles_for_a_device(target: str) -> None:
    pytest.importorskip("triton")
    kernel = with_numbers_read(cases.dropout(), ["seed"])
    schedule = choose_schedule(kernel)
    assert schedule == choose_schedule(cases.dropout())
    text = emit_triton(kernel, schedule)
    assert "seed = tl.load(seed_ptr)" in text
    binary = compile_offline(text, function_name(kernel), triton_signature(kernel, schedule), target)
    assert binary.code and not binary.spills

"""Kernels that differ in names alone are one kernel: equal layers share a text, and what is compiled of it.

    kernel f_1(%x : float32[4] in, %y : float32[4] out)      kernel f_2(%a : float32[4] in, %b : float32[4] out)
      axes i < 4 parallel                                      axes i < 4 parallel
      %x : float32 [i] = load %x[i]                 =          %a : float32 [i] = load %a[i]
      %1 : float32 [i] = exp(%x)                               %t : float32 [i] = exp(%a)
      store %y[i], %1                                          store %b[i], %t

The names are those of the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...lang.light_dataclasses import replace
from ..kernel_ir.kernel import Kernel
from ..kernel_ir.printer import print_kernel
from ..types.open_sizes import Symbols
from .program import KernelStep, Program, ProgramStep

_NAME = re.compile(r"%[\w.]+")


class SharedKernels:
    """The first kernel of each structure that was met."""

    def __init__(self) -> None:
        self._first: dict[str, Kernel] = {}

    def steps(self, steps: Sequence[ProgramStep]) -> list[ProgramStep]:
        """The same steps, by the kernels that were met first."""
        return [self._step(step) if isinstance(step, KernelStep) else step for step in steps]

    def of_program(self, program: Program, symbols: Symbols | None) -> Program:
        """The program by these kernels; by its own where sizes are open, for their names are those of one plan."""
        if symbols is None:
            return replace(program, steps=tuple(self.steps(program.steps)))
        with symbols.named():
            return replace(program, steps=tuple(SharedKernels().steps(program.steps)))

    def _step(self, step: KernelStep) -> KernelStep:
        first = self._first.setdefault(kernel_structure(step.kernel), step.kernel)
        if first is step.kernel:
            return step
        pairs = zip(_taken(first), _taken(step.kernel), strict=True)
        return KernelStep(first, {theirs: step.arguments[own] for theirs, own in pairs})


def kernel_structure(kernel: Kernel) -> str:
    """The text of a kernel with numbers for names, in the order in which they come up."""
    numbers: dict[str, str] = {}
    text = print_kernel(kernel).removeprefix(f"kernel {kernel.name}")
    return _NAME.sub(lambda found: numbers.setdefault(found[0], f"%{len(numbers)}"), text)


def _taken(kernel: Kernel) -> list[str]:
    return [*(buffer.name for buffer in kernel.buffers), *(number.name for number in kernel.parameters)]

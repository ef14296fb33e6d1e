"""A program as torch's tracers record it: allocations and ops are torch's own, kernels go through `wrap_triton`.

What is recorded holds the kernels as such, so that Inductor compiles and places them among its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...compiler.codegen.triton.module import supports
from ...compiler.fusion.fuse import Unfusable, fuse
from ...compiler.fusion.program import ExternStep
from ...compiler.ir.graph import Graph
from ...compiler.kernel_ir.kernel import Kernel
from ...compiler.ops.meta import Meta
from ...compiler.ops.registry import OPS
from ..values.torch_dtypes import torch_dtypes
from .by_torch.ops import is_literal, is_of_torch, without_autocast
from .program import DeviceProgram
from .runner import common_device, given
from .triton.wrapped import WrappedKernel

MAX_CONSTANT = 1024
"""Elements of a constant that a trace holds."""


def traced_program(graph: Graph, values: Sequence[Any]) -> TracedProgram:
    """The program of a graph for tensors of these shapes, all of them numbers, and for these very floats.

    Raises: Unfusable, where a part of it cannot be recorded; ShapeError.
    """
    program = fuse(graph, [given(value, True) for value in values], supports)
    device = common_device(values)
    refused = next((step for step in program.steps if isinstance(step, ExternStep) and not _is_recorded(step)), None)
    if refused is not None:
        raise Unfusable(f"torch has no such op as {refused.node.kind}")
    if any(array.size > MAX_CONSTANT for array in program.constants.values()):
        raise Unfusable("it holds a large constant")
    if any(isinstance(value, torch.Tensor) and value.device != device for value in values):
        raise Unfusable("a number is on the CPU")
    return TracedProgram(program, values, device)


class TracedProgram(DeviceProgram):
    """A DeviceProgram run on tensors that are recorded. It is made for one run."""

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs, for one value per input."""
        with torch.no_grad(), without_autocast(self.device):
            return self._run(values, None)

    def _constant(self, array: Any) -> torch.Tensor:
        array = np.asarray(array)
        # As a list: a tensor of an array's memory is none that a tracer knows where it came from.
        return torch.tensor(array.tolist(), dtype=torch_dtypes()[Meta.of(array).dtype], device=self.device)

    def _memory_of_constants(self) -> set[int]:
        # Who asks for the results copies what is none of a kernel's.
        return set()

    def _kernel(self, kernel: Kernel) -> WrappedKernel:
        return WrappedKernel(kernel, self.device)


def _is_recorded(step: ExternStep) -> bool:
    op = OPS.of(step.node.schema)
    return op is not None and (is_of_torch(op) or is_literal(op))

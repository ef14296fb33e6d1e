"""A device with kernels: the CPU under another name. Kernels run by the meaning of kernel IR, in any precision."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from gradscript.compiler.fusion.fuse import fuse
from gradscript.compiler.fusion.program import Program
from gradscript.compiler.fusion.refusals import Unsettled
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.types.dtypes import BFLOAT16
from gradscript.compiler.types.open_sizes import Symbols
from gradscript.runtime.execution.function_executor import forget_compiled
from gradscript.runtime.face import function, transforms
from gradscript.runtime.kernels.runner import KernelGraph, KernelGroup
from gradscript.runtime.torch import calls
from gradscript.runtime.torch.devices import DeviceRunner, register_runner
from gradscript.runtime.torch.kinds import SYMBOLIC, is_batched
from gradscript.runtime.torch.recorded import node
from gradscript.runtime.torch.tensors import tensors_in
from gradscript.runtime.values.arrays import any_torch
from gradscript.runtime.values.torch_dtypes import tensor_of
from kernel_reference import run_program

NAME = "kernels"


class KernelRuns:
    """What ran: of each straight graph and each group the number of its kernels, -1 for one that is none."""

    def __init__(self) -> None:
        self.kernels: list[int] = []

    def runner(self, graph: Graph) -> InterpretedGraph:
        return InterpretedGraph(self, graph)


class InterpretedGraph(KernelGraph):
    def __init__(self, runs: KernelRuns, graph: Graph) -> None:
        super().__init__(graph)
        self._runs = runs

    def _fused(self, values: Sequence[Any], key: Hashable, settled: bool) -> Any:
        found = super()._fused(values, key, settled)
        if found is None and settled:
            self._runs.kernels.append(-1)
        return found

    def _planned(self, known: Sequence[Any], values: Sequence[Any], symbols: Symbols | None = None) -> Any:
        if symbols is not None:
            raise Unsettled("what kernels mean is asked of given sizes")
        return FixedProgram(self._runs, fuse(self._graph, known, lambda primitive, dtype: True))

    def _group(self, graph: Graph, device: torch.device) -> KernelGraph:
        return InterpretedGroup(self._runs, graph)


class InterpretedGroup(KernelGroup, InterpretedGraph):
    """A group of such a graph."""


class FixedProgram:
    def __init__(self, runs: KernelRuns, program: Program) -> None:
        self._runs = runs
        self._program = program
        self.is_new = [True] * len(program.outputs)
        self.is_settled = True

    def run(self, values: Sequence[Any]) -> list[Any]:
        self._runs.kernels.append(len(self._program.kernels))
        results: list[Any] = _tensors(run_program(self._program, _arrays(values)))
        return results


def _arrays(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_arrays(item) for item in value]
    if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16:
        bits: Any = value.detach().view(torch.int16).numpy()
        return bits.view(numpy_dtype(BFLOAT16))
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def _tensors(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensors(item) for item in value]
    return tensor_of(value.copy()) if hasattr(value, "dtype") else value


def _device_of(values: Sequence[Any]) -> str:
    return SYMBOLIC if any(isinstance(t, torch.Tensor) and is_batched(t) for t in tensors_in(values)) else NAME


@contextmanager
def kernel_device(monkeypatch: pytest.MonkeyPatch, runner: DeviceRunner | None = None) -> Iterator[KernelRuns]:
    """Have all tensors be on that device meanwhile; `runner` stands for the one that goes by the kernels' meaning."""
    runs = KernelRuns()
    remove = register_runner(NAME, runner or runs.runner)
    with monkeypatch.context() as patch:
        for module in (calls, node):
            patch.setattr(module, "device_of", _device_of)
        for module in (function, transforms):
            patch.setattr(module, "any_on_device", any_torch)
        # What was prepared for the CPU is not for this device, nor the other way round.
        calls.forget_calls()
        _forget_other_runners(runner or runs)
        yield runs
    calls.forget_calls()
    remove()


def _forget_other_runners(runner: object) -> None:
    """Graphs keep what runs them: of another runner than the last one, all that was compiled goes."""
    if _LAST and _LAST[0] is not runner:
        forget_compiled()
    _LAST[:] = [runner]


_LAST: list[object] = []

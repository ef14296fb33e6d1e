"""A device that captures graphs: the CPU under another name, on which work is recorded and done again on replay.

What a CUDA graph holds is addresses, so a replay here does what was recorded on the very tensors: launches of kernels,
by their meaning, and torch's ops, whose results go where they went.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from gradscript.compiler.fusion.refusals import Unsettled
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.types.open_sizes import Symbols
from gradscript.runtime.execution.function_executor import forget_compiled
from gradscript.runtime.kernels import program, runner
from gradscript.runtime.kernels.runner import KernelGraph, KernelGroup
from gradscript.runtime.kernels.triton.kernel import TritonKernel, within_int64
from gradscript.runtime.settings.seeds_in_memory import SeedInMemory
from gradscript.runtime.torch.graphs import driver, inputs, step
from kernel_device import kernel_device
from kernel_reference import run_written
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WAIT = "called a synchronizing CUDA operation"
WAITING = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal")
Done = Callable[[], None]


class _Recording(TorchDispatchMode):  # type: ignore[misc] # torch is not typed here
    """Ops as they are called: to be done again, or looked through for waits."""

    def __init__(self, recorded: list[Done] | None) -> None:
        super().__init__()
        self._recorded = recorded

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in WAITING or (func._schema.name == "aten::index" and _has_mask(args[1])):
            raise RuntimeError(WAIT if self._recorded is None else "operation not permitted when stream is capturing")
        result = func(*args, **(kwargs or {}))
        if self._recorded is not None:
            self._recorded.append(_again(func, args, kwargs or {}, result))
        return result


def _again(func: Any, args: Any, kwargs: Any, result: Any) -> Done:
    given = {tensor.untyped_storage().data_ptr() for tensor in tree_leaves((args, kwargs)) if _is_tensor(tensor)}
    # Of its own shape, whatever becomes of the tensor's: what a graph holds is an address.
    made = {
        place: leaf.detach()
        for place, leaf in enumerate(tree_leaves(result))
        if _is_tensor(leaf) and leaf.untyped_storage().data_ptr() not in given
    }

    def do() -> None:
        found = tree_leaves(func(*args, **kwargs))
        for place, tensor in made.items():
            tensor.copy_(found[place])

    return do if made or func._schema.is_mutable else lambda: None


def _has_mask(indices: Sequence[Any]) -> bool:
    return any(_is_tensor(index) and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


class RecordingDriver:
    """Captures by recording. `launches` are the names of the kernels that ran, replays included;
    `at_addresses` counts those by addresses alone."""

    def __init__(self, launches: list[str]) -> None:
        self.launches = launches
        self.at_addresses = 0
        self._recorded: list[Done] | None = None

    def warm_up(self, work: Callable[[], Any], *, strictly: bool) -> Any:
        if not strictly:
            return work()
        with _Recording(None):
            return work()

    def capture(self, work: Callable[[], Any]) -> tuple[Done, Any]:
        recorded: list[Done] = []
        self._recorded = recorded
        try:
            with _Recording(recorded):
                result = work()
        finally:
            self._recorded = None

        def replay() -> None:
            with torch.no_grad():
                for do in recorded:
                    do()

        return replay, result

    def is_capturing(self) -> bool:
        return self._recorded is not None

    def launch(self, kernel: Any, tensors: Sequence[torch.Tensor], numbers: Sequence[float], stream: Any) -> None:
        """In the place of TritonKernel.launch."""
        if any(isinstance(number, SeedInMemory) for number in numbers):
            kernel, tensors, numbers = kernel.reading(tensors, numbers)

        def do() -> None:
            self.launches.append(kernel.kernel.name)
            _run(kernel.kernel, tensors, numbers)

        self.do(do)

    def do(self, work: Done) -> None:
        """Done now, and by each replay of what is captured."""
        work()
        if self._recorded is not None:
            self._recorded.append(work)


STREAM = 1234


def _direct(found: RecordingDriver, kernel: Any, aligned: tuple[bool, ...]) -> tuple[Any, ...]:
    """In the place of TritonKernel.direct: a launch finds tensors by their addresses alone, as a GPU does."""

    def run(across: int, down: int, deep: int, stream: int, behind: str, *given: Any) -> None:
        assert stream == STREAM and behind == "behind"
        count = len(kernel.kernel.buffers)
        assert given[count] == "sizes"
        found.at_addresses += 1
        found.do(lambda: _run_at(kernel.kernel, aligned, given[:count], given[count + 1 :]))

    return (run, (1, 1, 1), ("behind",), ("sizes",), (), [], [])


def _run_at(kernel: Any, aligned: tuple[bool, ...], addresses: Sequence[int], passed: Sequence[Any]) -> None:
    assert len(passed) == len(kernel.parameters)
    assert aligned == tuple(address % 16 == 0 for address in addresses)
    tensors = [_tensor_at(buffer, address) for buffer, address in zip(kernel.buffers, addresses, strict=True)]
    _run(kernel, tensors, passed)


def _tensor_at(buffer: Any, address: int) -> torch.Tensor:
    dtype = numpy_dtype(buffer.dtype)
    if not buffer.numel:
        return torch.from_numpy(np.empty(buffer.shape, dtype))
    last = sum((size - 1) * stride for size, stride in zip(buffer.shape, buffer.strides, strict=True))
    memory = (ctypes.c_char * ((last + 1) * dtype.itemsize)).from_address(address)
    strides = [stride * dtype.itemsize for stride in buffer.strides]
    return torch.from_numpy(np.ndarray(buffer.shape, dtype, memory, strides=strides))


def _run(kernel: Any, tensors: Sequence[torch.Tensor], numbers: Sequence[float]) -> None:
    given = {b.name: tensor.detach().numpy() for b, tensor in zip(kernel.buffers, tensors, strict=True)}
    arrays = {buffer.name: given[buffer.name].copy() for buffer in kernel.inputs}
    passed = {p.name: within_int64(number) for p, number in zip(kernel.parameters, numbers, strict=True)}
    found = run_kernel(kernel, arrays, passed)
    for buffer in kernel.outputs:
        written = run_written(kernel, buffer.name, arrays, passed)
        given[buffer.name][...] = _where(written, found[buffer.name], given[buffer.name])


def _where(written: Any, new: Any, old: Any) -> Any:
    result = old.copy()
    result[written] = new[written]
    return result


class _ExactGraph(KernelGraph):
    """Kernels for the sizes at hand: of open ones their meaning is not asked."""

    def _planned(self, known: Sequence[Any], values: Sequence[Any], symbols: Symbols | None = None) -> Any:
        if symbols is not None:
            raise Unsettled("what kernels mean is asked of given sizes")
        return super()._planned(known, values)

    def _group(self, graph: Graph, device: torch.device) -> KernelGraph:
        return _ExactGroup(graph, device)


class _ExactGroup(KernelGroup, _ExactGraph):
    """A group of such a graph."""


@contextmanager
def graph_device(monkeypatch: pytest.MonkeyPatch, *, by_address: bool = False) -> Iterator[RecordingDriver]:
    """Have all tensors be on a device that captures meanwhile; `by_address`: where a kernel is launched again, it is
    given addresses."""
    found = RecordingDriver([])

    def launch(kernel: Any, tensors: Any, numbers: Any, stream: Any) -> None:
        found.launch(kernel, tensors, numbers, stream)

    with kernel_device(monkeypatch, _ExactGraph), monkeypatch.context() as patch:
        # Lists of launches hold what launched them: what an earlier device did would be no part of a graph of this one.
        forget_compiled()
        patch.setattr(TritonKernel, "launch", launch)
        if by_address:
            patch.setattr(TritonKernel, "direct", lambda kernel, aligned: _direct(found, kernel, aligned))
            for module in (program, runner):
                patch.setattr(module, "on_stream", lambda device, run: run(STREAM))
        patch.setitem(driver.DRIVERS, "cpu", lambda device: found)
        for module in (inputs, step):
            patch.setattr(module, "has_driver", _is_tensor)
        yield found

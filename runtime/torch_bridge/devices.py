"""Where a device other than the CPU plugs in: what runs a graph on tensors that live there.

    register_runner("cuda", run)         run(graph, values) -> results

`graph` is ready to run: no tuples in its signature, functions inlined, an undefined gradient only as None. It is the
same object whenever the same program runs again and knows no dtypes or ranks, so what is compiled of it is kept by
its identity and by what the values are. `values` holds one value per input: tensors of the device, CPU tensors
without dimensions (Python numbers and NumPy scalars), lists of tensors, numbers, strings, None; `results` one per
output, likewise. A tensor among the results is new, one of the values, or a view of one by torch's own means, so that
torch knows of it; no value is written to. What is wrong with the data is a RuntimeFailure. A runner is called with
gradients off, from any thread.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...compiler.ir import Graph
from .places import each

Runner = Callable[[Graph, Sequence[Any]], list[Any]]

_RUNNERS: dict[str, Runner] = {}


def register_runner(device: str, runner: Runner) -> Callable[[], None]:
    """Have `runner` run what is called on tensors of a kind of device, as `torch.device.type` names it.

    Returns what takes it away again.
    """
    _RUNNERS[device] = runner
    return lambda: _RUNNERS.pop(device, None) and None


def has_runner(device: str) -> bool:
    """Whether functions run on a kind of device. Those of CUDA and ROCm have kernels, where Triton is installed."""
    return device in _RUNNERS or _adopts_kernels(device)


def _adopts_kernels(device: str) -> bool:
    if device != "cuda" or importlib.util.find_spec("triton") is None:
        return False
    from ..kernels.runner import KernelRunner

    register_runner(device, KernelRunner())
    return True


def run_on_device(device: str, graph: Graph, values: Sequence[Any]) -> list[Any]:
    """Run a graph on tensors of a device that has a runner, nothing recorded."""
    with torch.no_grad():
        return _RUNNERS[device](graph, values)


class DeviceMemory:
    """Whose memory results are views of, as `tensors.Memory` knows it of arrays."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._storages: set[int] = set()
        each(values, self._keep)

    def owned(self, value: Any) -> Any:
        """A tensor that shares no memory with any seen before."""
        if not isinstance(value, torch.Tensor):
            return value
        result = value.clone() if value.untyped_storage().data_ptr() in self._storages else value
        self._keep(result)
        return result.detach() if result._is_view() else result

    def shared(self, value: Any) -> Any:
        """To autograd a tensor of its own; its version counter is that of the tensor that it is a view of."""
        return value.detach() if isinstance(value, torch.Tensor) else value

    def _keep(self, value: Any) -> None:
        if isinstance(value, torch.Tensor) and value.numel():
            self._storages.add(value.untyped_storage().data_ptr())

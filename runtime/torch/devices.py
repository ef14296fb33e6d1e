"""Where a device other than the CPU plugs in: what runs graphs on tensors that live there.

    register_runner("cuda", runner)      runner(graph) is a DeviceRun: called with values, it gives results

`graph` is ready to run: no tuples in its signature, functions inlined, an undefined gradient only as None. It knows no
dtypes or ranks. `values` holds one value per input: tensors of the device, CPU tensors without dimensions (Python
numbers and NumPy scalars), lists of tensors, numbers, strings, None; `results` one per output, likewise. A tensor among
the results is new, one of the values, or a view of one by torch's own means, so that torch knows of it; no value is
written to. What is wrong with the data is a RuntimeFailure. All of it is called from any thread, and where torch
records nothing: with gradients off, or on values of which none requires one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from ...compiler.ir.graph import Graph
from ..settings.counters import CONSTRUCTED, HITS, MISSES
from .places import each


class FixedRun(Protocol):
    """A graph on values of one signature: as many calls as one likes, without a question of what the values are."""

    @property
    def is_new(self) -> Sequence[bool]:
        """Per output, whether it is sure to be a tensor that shares no memory with any other value."""

    @property
    def is_settled(self) -> bool:
        """Whether the host decides all that is done, so that what comes out is of the same kinds each time."""

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The results."""


class DeviceRun(Protocol):
    """A graph on a device."""

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The results."""

    def fixed(self, values: Sequence[Any]) -> FixedRun | None:
        """What runs it on values of the same devices, dtypes, shapes, strides, and, but for floats, of the same
        values where they are no tensors; None where that does not settle it."""


DeviceRunner = Callable[[Graph], DeviceRun]

_RUNNERS: dict[str, DeviceRunner] = {}


def register_runner(device: str, runner: DeviceRunner) -> Callable[[], None]:
    """Have `runner` run what is called on tensors of a kind of device, as `torch.device.type` names it.

    It is asked once for each graph. Returns what puts back the one before; graphs that ran keep what they have.
    """
    before = _RUNNERS.get(device)
    _RUNNERS[device] = runner

    def put_back() -> None:
        if before is None:
            _RUNNERS.pop(device, None)
        else:
            _RUNNERS[device] = before

    return put_back


def has_runner(device: str) -> bool:
    """Whether functions run on a kind of device. Those of CUDA and ROCm have kernels, where Triton is installed."""
    return device in _RUNNERS or _adopts_kernels(device)


def _adopts_kernels(device: str) -> bool:
    if device != "cuda" or importlib.util.find_spec("triton") is None:
        return False
    from ..kernels.runner import KernelGraph

    register_runner(device, KernelGraph)
    return True


def graph_run(device: str, graph: Graph) -> DeviceRun:
    """A graph on a kind of device that has a runner: the executor of such a graph, and counted as one."""
    return _CountedRun(_RUNNERS[device](graph))


class _CountedRun:
    """A DeviceRun. Finding out how to run a graph on values is a miss, running it so again is a hit."""

    def __init__(self, run: DeviceRun) -> None:
        CONSTRUCTED.add()
        self._run = run
        self._count = MISSES.add

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        self._count()
        self._count = HITS.add
        return self._run(values)

    def fixed(self, values: Sequence[Any]) -> FixedRun | None:
        found = self._run.fixed(values)
        return None if found is None else _CountedFixedRun(found)


class _CountedFixedRun:
    """A FixedRun, of which each run is a hit."""

    def __init__(self, fixed: FixedRun) -> None:
        self._fixed = fixed
        self._run = fixed.run
        self._run_listed: Callable[..., Any] | None = getattr(fixed, "run_listed", None)
        self.is_new = fixed.is_new

    @property
    def is_settled(self) -> bool:
        """As of what runs."""
        return self._fixed.is_settled

    def run(self, values: Sequence[Any]) -> list[Any]:
        HITS.add()
        return self._run(values)

    def run_listed(self, values: Sequence[Any]) -> tuple[list[Any], Any]:
        """The results, and what did just what it does each time, where that ran."""
        HITS.add()
        return (self._run(values), None) if self._run_listed is None else self._run_listed(values)


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

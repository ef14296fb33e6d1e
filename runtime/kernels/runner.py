"""A graph run on torch tensors of a device, by fused kernels: planned once for each combination of layouts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch

from ...compiler.codegen.triton import supports
from ...compiler.fusion.fuse import Unfusable, fuse
from ...compiler.fusion.layout import Layout
from ...compiler.ir import Graph
from ...compiler.meta import UNKNOWN
from ...compiler.shapes import ShapeError
from ...lang.collection import collection_paused
from ..failure import RuntimeFailure
from .program import DeviceProgram
from .torch_ops import TORCH_DTYPES
from .whole import run_graph

DTYPE_OF = {torch_dtype: dtype for dtype, torch_dtype in TORCH_DTYPES.items()}
MAX_PROGRAMS = 128
"""Of one graph; beyond, the one planned first is dropped."""

Key = tuple[Hashable, ...]


class KernelRunner:
    """What `runtime.torch_bridge.devices.register_runner` takes, with the programs of every graph that ran."""

    def __init__(self) -> None:
        self._programs: WeakKeyDictionary[Graph, dict[Key, DeviceProgram | None]] = WeakKeyDictionary()
        self._lock = RLock()

    def __call__(self, graph: Graph, values: Sequence[Any]) -> list[Any]:
        """The results. Where control flow depends on what is in tensors, ops run one by one."""
        device = device_of(values)
        program = self._find(graph, values, device)
        with torch.no_grad():
            if program is not None:
                return program.run([_on(device, value) for value in values])
            try:
                return run_graph(graph, values, device)
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                raise RuntimeFailure("R101", graph.name, str(error), span=graph.span) from error

    def program(self, graph: Graph, values: Sequence[Any]) -> DeviceProgram | None:
        """The program for such values, planned if need be; None where there can be none."""
        return self._find(graph, values, device_of(values))

    def _find(self, graph: Graph, values: Sequence[Any], device: torch.device) -> DeviceProgram | None:
        """Floats are parameters of kernels, unless something has to be decided by them."""
        known = self._programs.get(graph) or {}
        for settled in (False, True):
            key = (device, settled, *[_key(value, settled) for value in values])
            program = known[key] if key in known else self._plan(graph, values, key, device, settled)
            if program is not None:
                return program
        return None

    def _plan(
        self, graph: Graph, values: Sequence[Any], key: Key, device: torch.device, settled: bool
    ) -> DeviceProgram | None:
        with self._lock, collection_paused():
            known = self._programs.setdefault(graph, {})
            if key not in known:
                if len(known) >= MAX_PROGRAMS:
                    del known[next(iter(known))]
                known[key] = _planned(graph, values, device, settled)
            return known[key]


def _planned(graph: Graph, values: Sequence[Any], device: torch.device, settled: bool) -> DeviceProgram | None:
    try:
        return DeviceProgram(fuse(graph, [given(value, settled) for value in values], supports), device)
    except (Unfusable, ShapeError):
        # What the data has wrong is told by the ops themselves, run one by one.
        return None


def given(value: Any, settled: bool) -> Any:
    """What is known of an argument before it runs: the layout of a tensor; of a float nothing, unless `settled`."""
    if isinstance(value, torch.Tensor):
        return Layout(tuple(value.shape), DTYPE_OF[value.dtype], tuple(value.stride()))
    if isinstance(value, list):
        return [given(item, settled) for item in value]
    return UNKNOWN if isinstance(value, float) and not settled else value


def _key(value: Any, settled: bool) -> Hashable:
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.shape, value.stride())
    if isinstance(value, list):
        return tuple([_key(item, settled) for item in value])
    return float if isinstance(value, float) and not settled else (type(value), value)


def _on(device: torch.device, value: Any) -> Any:
    """A single number on the CPU goes along to the device."""
    if isinstance(value, torch.Tensor):
        return value if value.device == device else value.to(device)
    return [_on(device, item) for item in value] if isinstance(value, list) else value


def device_of(values: Sequence[Any]) -> torch.device:
    """That of the tensors; of several, one that is not the CPU."""
    found = torch.device("cpu")
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, list | tuple):
            pending += value
        elif isinstance(value, torch.Tensor) and value.device.type != "cpu":
            found = value.device
    return found

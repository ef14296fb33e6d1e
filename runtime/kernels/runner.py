"""A graph run on torch tensors of a device, by fused kernels: planned once for each combination of layouts."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from threading import RLock
from typing import Any

import torch

from ...compiler.codegen.triton.module import supports
from ...compiler.fusion.fuse import Unfusable, fuse
from ...compiler.fusion.seeds import seed_inputs
from ...compiler.ir.graph import Graph
from ...compiler.kernel_ir.layout import Layout
from ...compiler.ops.meta import UNKNOWN
from ...compiler.shapes.propagate import ShapeError
from ...lang.collection import collection_paused
from ..values.torch_dtypes import dtypes_of_torch
from .program import DeviceProgram
from .torch_ops import without_autocast
from .whole import run_graph

_DTYPE_OF = dtypes_of_torch()
MAX_PROGRAMS = 128
"""Of one graph; beyond, the one planned first is dropped."""
_PLANNING = RLock()


class KernelGraph:
    """A graph with its programs; what `runtime.torch.devices.register_runner` takes makes one of these."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._seeds = seed_inputs(graph)
        self._programs: dict[Hashable, DeviceProgram | None] = {}

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The results. Where control flow depends on what is in tensors, ops run one by one."""
        program = self.fixed(values) or self._program(values, settled=True)
        if program is not None:
            return program.run(values)
        device = device_of(values)
        with torch.no_grad(), without_autocast(device):
            return run_graph(self._graph, values, device)

    def fixed(self, values: Sequence[Any]) -> DeviceProgram | None:
        """The program for values that differ from these in the elements of tensors, in seeds and in floats, which
        are parameters of kernels; None where something has to be decided by them."""
        return self._program(values, settled=False)

    def _program(self, values: Sequence[Any], *, settled: bool) -> DeviceProgram | None:
        values = open_seeds(values, self._seeds)
        key: list[Hashable] = [settled]
        _describe(values, settled, key)
        described = tuple(key)
        try:
            return self._programs[described]
        except KeyError:
            return self._plan(values, described, settled)

    def _plan(self, values: Sequence[Any], key: Hashable, settled: bool) -> DeviceProgram | None:
        with _PLANNING, collection_paused():
            if key not in self._programs:
                if len(self._programs) >= MAX_PROGRAMS:
                    del self._programs[next(iter(self._programs))]
                self._programs[key] = self._planned(values, settled)
            return self._programs[key]

    def _planned(self, values: Sequence[Any], settled: bool) -> DeviceProgram | None:
        try:
            program = fuse(self._graph, [given(value, settled) for value in values], supports)
        except (Unfusable, ShapeError):
            # What the data has wrong is told by the ops themselves, run one by one.
            return None
        return DeviceProgram(program, values, device_of(values))


def open_seeds(values: Sequence[Any], seeds: Collection[int]) -> Sequence[Any]:
    """The values, with UNKNOWN in the places of seeds: each call has its own."""
    return [UNKNOWN if i in seeds else value for i, value in enumerate(values)] if seeds else values


def given(value: Any, settled: bool) -> Any:
    """What is known of an argument before it runs: the layout of a tensor; of a float nothing, unless `settled`."""
    if isinstance(value, torch.Tensor):
        return Layout(tuple(value.shape), _DTYPE_OF[value.dtype], tuple(value.stride()))
    if isinstance(value, list):
        return [given(item, settled) for item in value]
    return UNKNOWN if isinstance(value, float) and not settled else value


def _describe(values: Sequence[Any], settled: bool, key: list[Hashable]) -> None:
    """Add what a program depends on: of each value something that says what it is of, then the rest."""
    for value in values:
        if isinstance(value, torch.Tensor):
            key += (value.device, value.dtype, value.shape, value.stride())
        elif isinstance(value, list):
            key += (list, len(value))
            _describe(value, settled, key)
        elif isinstance(value, float):
            # Zeros differ in their signs, which equality does not see.
            key += (float, value.hex() if settled else None)
        else:
            key.append((type(value), value))


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

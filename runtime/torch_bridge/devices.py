"""Where a device other than the CPU plugs in: what runs a graph on tensors that live there.

    register_runner("cuda", run)         run(graph, values) -> results

`graph` is ready to run: no tuples in its signature, functions inlined, an undefined gradient only as None. It is the
same object whenever the same program runs again and knows no dtypes or ranks, so what is compiled of it is kept by
its identity and by what the values are. `values` holds one value per input: tensors of the device, CPU tensors
without dimensions (Python numbers and NumPy scalars), lists of tensors, numbers, strings, None; `results` one per
output, likewise. A tensor among the results shares no memory with one of the values, nor with another result. What is
wrong with the data is a RuntimeFailure. A runner is called with gradients off, from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...compiler.ir import Graph

Runner = Callable[[Graph, Sequence[Any]], list[Any]]

_RUNNERS: dict[str, Runner] = {}


def register_runner(device: str, runner: Runner) -> Callable[[], None]:
    """Have `runner` run what is called on tensors of a kind of device, as `torch.device.type` names it.

    Returns what takes it away again.
    """
    _RUNNERS[device] = runner
    return lambda: _RUNNERS.pop(device, None) and None


def has_runner(device: str) -> bool:
    return device in _RUNNERS


def run_on_device(device: str, graph: Graph, values: Sequence[Any]) -> list[Any]:
    """Run a graph on tensors of a device that has a runner."""
    return _RUNNERS[device](graph, values)

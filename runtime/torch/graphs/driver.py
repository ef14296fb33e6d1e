"""What captures work on a device, and replays it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import torch

from ....lang.collection import collection_paused

T = TypeVar("T")
Replay = Callable[[], None]
"""Puts all that was captured on the device's current stream."""


class Driver(Protocol):
    """Captures on one device. What one of them captures shares memory: it is replayed in the order of captures."""

    def warm_up(self, work: Callable[[], T], *, strictly: bool) -> T:
        """Run work on a stream beside the current one; `strictly` has a wait of the host for the device raise a
        RuntimeError."""

    def capture(self, work: Callable[[], T]) -> tuple[Replay, T]:
        """Run work so that nothing of it happens until it is replayed, which writes into the very tensors that it gave.
        Raises whatever the work does, and RuntimeError for what the device cannot capture."""

    def is_capturing(self) -> bool:
        """Whether what is done now becomes part of somebody's graph."""


class CudaDriver:
    """Captures by torch: NVIDIA's devices and, under the same names, AMD's."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        # One for all: torch accumulates gradients on the stream where a leaf was first met.
        self._side = torch.cuda.Stream(device)

    def warm_up(self, work: Callable[[], T], *, strictly: bool) -> T:
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._side.wait_stream(current)
            before = torch.cuda.get_sync_debug_mode()
            try:
                with torch.cuda.stream(self._side):
                    if strictly:
                        _notice_waits("error")
                    return work()
            finally:
                _notice_waits(before)
                current.wait_stream(self._side)

    def capture(self, work: Callable[[], T]) -> tuple[Replay, T]:
        with torch.cuda.device(self._device), collection_paused():
            graph = torch.cuda.CUDAGraph()
            # What is under way may still free memory by events, which nobody may ask of meanwhile.
            torch.cuda.synchronize()
            with torch.cuda.stream(self._side):
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    result = work()
                except BaseException:
                    with suppress(RuntimeError):
                        graph.capture_end()
                    raise
                graph.capture_end()
            return graph.replay, result

    def is_capturing(self) -> bool:
        with torch.cuda.device(self._device):
            return bool(torch.cuda.is_current_stream_capturing())


def _notice_waits(mode: int | str) -> None:
    with warnings.catch_warnings():
        # Once in a process torch tells that this is a prototype.
        warnings.filterwarnings("ignore", message="Synchronization debug mode")
        torch.cuda.set_sync_debug_mode(mode)


DRIVERS: dict[str, Callable[[torch.device], Driver]] = {"cuda": CudaDriver}
"""By kind of device, as `torch.device.type` names it."""


def has_driver(value: Any) -> bool:
    """Whether a value is a tensor of a device whose work can be captured."""
    return isinstance(value, torch.Tensor) and value.device.type in DRIVERS

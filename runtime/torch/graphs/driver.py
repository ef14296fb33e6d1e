"""What captures work on a device, and replays it."""

from __future__ import annotations

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

    def warm_up(self, work: Callable[[], T], *, strictly: bool) -> T:
        with torch.cuda.device(self._device):
            current, side = torch.cuda.current_stream(), torch.cuda.Stream()
            side.wait_stream(current)
            before = torch.cuda.get_sync_debug_mode()
            try:
                with torch.cuda.stream(side):
                    if strictly:
                        torch.cuda.set_sync_debug_mode("error")
                    return work()
            finally:
                torch.cuda.set_sync_debug_mode(before)
                current.wait_stream(side)

    def capture(self, work: Callable[[], T]) -> tuple[Replay, T]:
        with torch.cuda.device(self._device), collection_paused():
            graph = torch.cuda.CUDAGraph()
            # What is under way may still free memory by events, which nobody may ask of meanwhile.
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.Stream()):
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


DRIVERS: dict[str, Callable[[torch.device], Driver]] = {"cuda": CudaDriver}
"""By kind of device, as `torch.device.type` names it."""


def has_driver(value: Any) -> bool:
    """Whether a value is a tensor of a device whose work can be captured."""
    return isinstance(value, torch.Tensor) and value.device.type in DRIVERS

"""Times on a device, by its own clock: contenders take turns, and what they left in its caches is overwritten."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

Work = Callable[[], object]
FLUSH = 1 << 30
"""Bytes written between works: more than any cache holds, and so long that the host is ahead when the work begins."""


class Timer:
    """For a CUDA device; the CPU's own clock is taken for "cpu", which only tries the measurement out."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._is_cuda = device != "cpu"
        self._flush = torch.empty(FLUSH if self._is_cuda else 1, dtype=torch.uint8, device=device)

    def medians(self, contenders: Mapping[str, Work], turns: int, warm: int = 3) -> dict[str, float]:
        """Seconds of one call of each contender, by name, from its first kernel's start to its last one's end."""
        for work in contenders.values():
            for _ in range(warm):
                work()
        self.wait()
        taken: dict[str, list[Any]] = {name: [] for name in contenders}
        for _ in range(turns):
            for name, work in contenders.items():
                taken[name].append(self._on_device(work) if self._is_cuda else self._on_host(work))
        self.wait()
        return {name: statistics.median(map(self._seconds, pairs)) for name, pairs in taken.items()}

    def overheads(self, contenders: Mapping[str, Work], turns: int, calls: int = 200) -> dict[str, float]:
        """Seconds of the host for one call of each, the device's work being next to nothing."""
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        for turn in range(turns + 1):
            for name, work in contenders.items():
                self.wait()
                started = time.perf_counter()
                for _ in range(calls):
                    work()
                self.wait()
                if turn:
                    taken[name].append((time.perf_counter() - started) / calls)
        return {name: statistics.median(times) for name, times in taken.items()}

    def wait(self) -> None:
        if self._is_cuda:
            torch.cuda.synchronize()

    def _on_device(self, work: Work) -> tuple[Any, Any]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flush.zero_()
        start.record()
        work()
        end.record()
        return start, end

    def _on_host(self, work: Work) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    def _seconds(self, taken: Any) -> float:
        return taken[0].elapsed_time(taken[1]) / 1e3 if isinstance(taken, tuple) else taken

"""Memory for results of kernels that is used again: fresh pages cost ten times what it costs to write to them.

Large arrays lie in blocks of some sizes. A block belongs to the array that was made in it, and to every view of that;
when the last of them is gone, the arena has it back and gives it to the next array of that size. What it holds in
waiting is bounded. All of it may be called from any thread, and from a collection in the middle of a call.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod
from threading import RLock
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ...lang.light_dataclasses import dataclass

LEAST = 1 << 16
"""Bytes from which an array lies in a block: what is smaller the system has ready."""
STEPS = 8
"""Sizes between a power of two and the next."""
ALIGNMENT = 64
_Memory: TypeAlias = tuple[np.ndarray[Any, Any], dict[str, Any]]
"""Memory, and how it is told to whoever makes an array of it: to ask an array anew takes longer than all the rest."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Bytes of blocks, in arrays that live and waiting for others; how many were used again, and made, so far."""

    in_use: int
    waiting: int
    most_waiting: int
    reused: int
    made: int


class BlockCounts(NamedTuple):
    """Bytes of blocks, in use and waiting; how many were used again, and made."""

    in_use: int
    waiting: int
    reused: int
    made: int


class OtherBlocks(Protocol):
    """Blocks that a module in C has for results that no array is made of."""

    def counts(self) -> BlockCounts: ...

    def shrink(self, most: int, *, stays: bool) -> None:
        """Give back what waits but for so many bytes; where that `stays`, no more will wait from now on."""


class Arena:
    """Blocks by size, the one that came back last first."""

    def __init__(self, most_waiting: int) -> None:
        self.most_waiting = most_waiting
        self._room = most_waiting
        self._others: OtherBlocks | None = None
        self._lock = RLock()
        self._waiting: dict[int, list[_Memory]] = {}
        self._bytes_waiting = self._bytes_in_use = self._reused = self._made = 0

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array with whatever elements. MemoryError where there is no memory for it."""
        nbytes = prod(shape) * dtype.itemsize
        if nbytes < LEAST:
            return np.empty(shape, dtype)
        block = _Block(self, self._taken(_size_class(nbytes)))
        return np.ndarray(shape, dtype, np.asarray(block))

    def stats(self) -> Stats:
        with self._lock:
            own = BlockCounts(self._bytes_in_use, self._bytes_waiting, self._reused, self._made)
        others = (0,) * 4 if self._others is None else self._others.counts()
        in_use, waiting, reused, made = map(sum, zip(own, others, strict=True))
        return Stats(in_use, waiting, self.most_waiting, reused, made)

    def counts_with(self, others: OtherBlocks) -> None:
        """Have others counted with these. Half of what may wait waits in either."""
        self._room = self.most_waiting // 2
        others.shrink(self._room, stays=True)
        self._others = others

    def clear(self) -> None:
        """Give what waits back to the system."""
        if self._others is not None:
            self._others.shrink(0, stays=False)
        with self._lock:
            self._waiting.clear()
            self._bytes_waiting = 0

    def _taken(self, size: int) -> _Memory:
        with self._lock:
            found = self._waiting.get(size)
            if found:
                memory = found.pop()
                self._bytes_waiting -= size
                self._bytes_in_use += size
                self._reused += 1
                return memory
        try:
            memory = _aligned(size)
        except MemoryError:
            self.clear()
            memory = _aligned(size)
        with self._lock:
            self._bytes_in_use += size
            self._made += 1
        return memory

    def back(self, memory: _Memory) -> None:
        """A block that nobody uses any more; the least used wait no longer where there are too many."""
        size = memory[0].nbytes
        with self._lock:
            self._bytes_in_use -= size
            if size > self._room:
                return
            self._waiting.setdefault(size, []).append(memory)
            self._bytes_waiting += size
            while self._bytes_waiting > self._room:
                oldest = next(iter(self._waiting))
                blocks = self._waiting[oldest]
                if blocks:
                    blocks.pop(0)
                    self._bytes_waiting -= oldest
                if not blocks:
                    del self._waiting[oldest]

    def begin_anew(self) -> None:
        """In a process that was forked: the thread that held the lock may not be here."""
        self._lock = RLock()


class _Block:
    """What an array of the arena is a view of. Its memory goes back when the last view is gone."""

    __slots__ = ("__array_interface__", "_arena", "_memory")

    def __init__(self, arena: Arena, memory: _Memory) -> None:
        self._arena = arena
        self._memory = memory
        _, self.__array_interface__ = memory

    def __del__(self) -> None:
        self._arena.back(self._memory)


def _size_class(nbytes: int) -> int:
    """The least size of a block that holds so many bytes."""
    step = max(1 << max(nbytes - 1, 0).bit_length() - 1, LEAST) // STEPS
    return -(-nbytes // step) * step


def _aligned(size: int) -> _Memory:
    room = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.__array_interface__["data"][0] % ALIGNMENT
    memory = room[start : start + size]
    return memory, memory.__array_interface__


def _quarter_of_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    except (AttributeError, OSError, ValueError):
        return 1 << 30


ARENA = Arena(min(_quarter_of_memory(), 1 << 30))
"""That of this process: a quarter of the machine's memory may wait in it, and a gigabyte at most."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ARENA.begin_anew)

"""gs.memory: what kernels in C keep for the results of later calls."""

from __future__ import annotations

from ..values.arena import ARENA, Stats

__all__ = ["Stats", "empty_cache", "stats"]


def stats() -> Stats:
    """Bytes in arrays that live, and waiting to be used again; how often that came true."""
    return ARENA.stats()


def empty_cache() -> None:
    """Give what waits back to the system."""
    ARENA.clear()

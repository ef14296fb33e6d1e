"""Torch's threads for our kernels: after each op of theirs they wait for the next without sleep, for milliseconds, and
what runs on threads of its own meanwhile has half of each processor."""

from __future__ import annotations

import ctypes
from functools import cache
from types import ModuleType

from .launcher import use_team

_told = 0
"""How many threads the launcher knows that torch has."""


def join_team(torch: ModuleType, threads: int) -> None:
    """Have kernels that are shared by as many threads as torch has run on those, where torch's are OpenMP's."""
    global _told
    if threads == _told:
        return
    parallel = _parallel(torch)
    if parallel is not None:
        use_team(parallel, threads)
    _told = threads


@cache
def _parallel(torch: ModuleType) -> int | None:
    """Where `GOMP_parallel` is that torch calls; the libraries of LLVM and Intel have it too."""
    if "parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return None
    try:
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, ctypes.c_void_p).value
    except (AttributeError, OSError):
        return None

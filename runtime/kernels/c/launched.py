"""Kernels that are loaded, on memory: several of them, one after the other, by one call."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ....compiler.types.open_sizes import closed
from ....lang.light_dataclasses import dataclass
from ...settings.modes import NUM_THREADS
from .compiler import processors
from .launcher import Launch, NumberSlot, launcher
from .library import Library
from .team import join_team

SERIAL = 1 << 15
"""Points up to which one thread is quicker than to have others join."""
PIECE = 1 << 14
"""Points that a thread takes at once at least."""


class OutOfRange(Exception):
    """An index that a kernel was given, or computed, lies out of range, or an int has more than 64 bits: what it wrote
    is of no use."""


IN_VAIN = (OutOfRange, MemoryError)
"""What ends a run that has done nothing: ops one by one do it then, or say what is wrong, and where."""


@dataclass(frozen=True, slots=True)
class Launches:
    """What some kernels of one library are launched with, numbers all of it, or open sizes.

    `fields` has for each kernel the buffers, sizes and numbers before its own, how many programs it has, of how many
    points each, and bytes of scratch; `sizes` has what is passed of sizes, `integers` which parameters are such,
    `buffers` how many buffers all of them have.
    """

    functions: tuple[str, ...]
    fields: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    integers: tuple[bool, ...]
    buffers: int

    def closed(self, atoms: Sequence[int]) -> Launches:
        """With values for what is open."""
        fields, sizes = closed(self.fields, atoms), closed(self.sizes, atoms)
        return Launches(self.functions, fields, sizes, self.integers, self.buffers)


class LaunchedKernels:
    """Some kernels, loaded. `run` takes the arrays of their buffers, one kernel's behind the other's.

    `launches` and `sizes` are what the launcher takes; `integers` says which numbers are such; `shares` whether threads
    have something to share out.
    """

    def __init__(self, library: Library, plan: Launches) -> None:
        self.library = library
        self.plan = plan
        self.launches = (Launch * len(plan.functions))()
        for launch, function, fields in zip(self.launches, plan.functions, plan.fields, strict=True):
            launch.function = library.address(function)
            launch.buffers, launch.sizes, launch.numbers, launch.programs, points, launch.scratch = fields
            launch.grain = _grain(launch.programs, points)
        self.sizes = (ctypes.c_int64 * max(len(plan.sizes), 1))(*plan.sizes)
        self.integers = plan.integers
        self.shares = any(launch.programs > launch.grain for launch in self.launches)
        self._addresses = ctypes.c_void_p * plan.buffers
        self._numbers = NumberSlot * max(len(plan.integers), 1)
        self._run = launcher()

    def run(self, arrays: Sequence[np.ndarray[Any, Any]], numbers: Sequence[float], threads: int) -> None:
        """Raises: MemoryError, OutOfRange."""
        given = self._numbers()
        for place, number, is_integer in zip(given, numbers, self.integers, strict=False):
            if is_integer:
                place.integer = whole = int(number)
                if place.integer != whole:
                    raise OutOfRange
            else:
                place.real = float(number)
        pointers = self._addresses(*map(_address, arrays))
        failed = self._run(
            self.launches, len(self.launches), pointers, len(arrays), _OFFSET, self.sizes, given, threads
        )
        if failed == 1:
            raise MemoryError("no memory for what kernels need besides their arguments")
        if failed:
            raise OutOfRange


def _grain(programs: int, points: int) -> int:
    """Programs that a thread takes at once; all of them where one thread is to run them."""
    if programs * points <= SERIAL:
        return max(programs, 1)
    return max(-(-PIECE // max(points, 1)), programs // 64, 1)


def _offset_of_data() -> int:
    """Where an array's object holds the address of its elements: behind what every object begins with.

    0 where it is not there; then each address is asked for, which takes longer than most kernels of few elements do.
    """
    offset = object.__basicsize__
    probe = np.zeros(3, np.float32)
    found = ctypes.c_void_p.from_address(id(probe) + offset).value
    return offset if found == probe.__array_interface__["data"][0] else 0


_OFFSET = _offset_of_data()


def _address_of_elements(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


_address: Callable[[Any], int] = id if _OFFSET else _address_of_elements


def thread_count() -> int:
    """Threads that kernels share: as the settings say, else as torch has them where it is, else as the system says."""
    chosen = NUM_THREADS.get()
    if chosen is not None:
        return chosen
    torch = sys.modules.get("torch")
    found = getattr(torch, "get_num_threads", None)
    if torch is None or found is None:
        return _threads_of_process()
    count = int(found())
    if count > 1:
        join_team(torch, count)
    return count


@cache
def _threads_of_process() -> int:
    """What OMP_NUM_THREADS says, else one for each processor that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if given.isdigit() and int(given):
        return int(given)
    return processors()

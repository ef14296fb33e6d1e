"""Kernels on memory: several of them, one after the other, by one call."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ....compiler.codegen.c.module import CFunction, emit_c, emit_function, program_count
from ....compiler.kernel_ir.kernel import Kernel
from ....compiler.kernel_ir.kernel import Number as Literal
from ....compiler.kernel_ir.passed import passed_sizes
from ....compiler.types.sizes import closed
from ....lang.light_dataclasses import dataclass
from ...settings.modes import NUM_THREADS
from .launcher import Launch, Number, launcher
from .library import load_module

SERIAL = 1 << 15
"""Points up to which one thread is quicker than to have others join."""
PIECE = 1 << 14
"""Points that a thread takes at once at least."""


@dataclass(frozen=True, slots=True)
class CModule:
    """The functions of some kernels, one for each, and the text that holds them, each once.

    `programs` has how many programs each has, `sizes` what is passed of its sizes; either may be open.
    """

    kernels: tuple[Kernel, ...]
    functions: tuple[CFunction, ...]
    programs: tuple[int, ...]
    sizes: tuple[tuple[Literal, ...], ...]
    text: str


def module_of(kernels: Sequence[Kernel]) -> CModule:
    """The module of kernels, in the order in which they run."""
    distinct = {id(kernel): kernel for kernel in kernels}
    names = _names([*distinct.values()])
    made = {key: emit_function(kernel, name) for (key, kernel), name in zip(distinct.items(), names, strict=True)}
    functions = tuple([made[id(kernel)] for kernel in kernels])
    programs = [program_count(kernel, f.schedule) for kernel, f in zip(kernels, functions, strict=True)]
    sizes = [(*passed_sizes(kernel).values(), *f.numbers) for kernel, f in zip(kernels, functions, strict=True)]
    return CModule(tuple(kernels), functions, tuple(programs), tuple(sizes), emit_c([*made.values()]))


def _names(kernels: Sequence[Kernel]) -> list[str]:
    """A name for each, its own with a number where another has it."""
    found: dict[str, None] = {}
    for kernel in kernels:
        own = _name_in_c(kernel.name)
        name, number = own, 1
        while name in found:
            name, number = f"{own}_{number}", number + 1
        found[name] = None
    return list(found)


def _name_in_c(name: str) -> str:
    """A kernel's name, unless a word, a type or a function of C, or a helper, might be called so."""
    is_own = "_" in name.strip("_") and not name.startswith(("_", "gs_")) and not name.endswith("_t")
    return name if is_own else f"{name}_kernel"


class OutOfRange(Exception):
    """An index that a kernel was given, or computed, lies out of range: what it wrote is of no use."""


IN_VAIN = (OutOfRange, MemoryError)
"""What ends a run that has done nothing: ops one by one do it then, or say what is wrong, and where."""


class Kernels:
    """Some kernels, loaded. `run` takes the arrays of their buffers, one kernel's behind the other's.

    `launches` and `sizes` are what the launcher takes; `integers` says which numbers are such; `shares` whether threads
    have something to share out. `atoms` are values for what is open in the module.
    """

    def __init__(self, module: CModule, atoms: Sequence[int] = ()) -> None:
        library = load_module(module.text, [function.name for function in module.functions])
        self.module = module
        self.launches = (Launch * len(module.functions))()
        buffers = sizes = numbers = 0
        passed: list[int] = []
        each = zip(self.launches, module.kernels, module.functions, module.programs, module.sizes, strict=True)
        for launch, kernel, function, programs, own_sizes in each:
            programs, points = closed(programs, atoms), closed(function.points, atoms)
            launch.function = ctypes.cast(getattr(library, function.name), ctypes.c_void_p).value
            launch.buffers, launch.sizes, launch.numbers = buffers, sizes, numbers
            launch.programs, launch.scratch = programs, closed(function.scratch, atoms)
            launch.grain = _grain(programs, points)
            passed += closed(own_sizes, atoms)
            buffers += len(kernel.buffers)
            sizes = len(passed)
            numbers += len(kernel.parameters)
        self.sizes = (ctypes.c_int64 * max(sizes, 1))(*passed)
        self.integers = [not p.dtype.is_floating for kernel in module.kernels for p in kernel.parameters]
        self.shares = any(launch.programs > launch.grain for launch in self.launches)
        self._addresses = ctypes.c_void_p * buffers
        self._numbers = Number * max(numbers, 1)
        self._run = launcher()

    def run(self, arrays: Sequence[np.ndarray[Any, Any]], numbers: Sequence[float], threads: int) -> None:
        """Raises: MemoryError, OutOfRange."""
        given = self._numbers()
        for place, number, is_integer in zip(given, numbers, self.integers, strict=False):
            if is_integer:
                place.integer = int(number)
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


def _grain(programs: int, points: int) -> int:
    """Programs that a thread takes at once; all of them where one thread is to run them."""
    if programs * points <= SERIAL:
        return max(programs, 1)
    return max(-(-PIECE // max(points, 1)), programs // 64, 1)


def thread_count() -> int:
    """Threads that kernels share: as the settings say, else as torch has them where it is, else as the system says."""
    chosen = NUM_THREADS.get()
    if chosen is not None:
        return chosen
    torch = sys.modules.get("torch")
    found = getattr(torch, "get_num_threads", None)
    return int(found()) if found is not None else _threads_of_process()


@cache
def _threads_of_process() -> int:
    """What OMP_NUM_THREADS says, else one for each processor that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if given.isdigit() and int(given):
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

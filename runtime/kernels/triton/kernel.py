"""One kernel, run by Triton: its text, its build, and launches that cost little."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from functools import cache, cached_property
from operator import index
from statistics import median
from threading import RLock
from typing import Any

import torch

from ....compiler.codegen.triton.module import (
    compile_options,
    configuration,
    constants,
    emit_for_open_sizes,
    function_name,
    grid,
    portable_options,
)
from ....compiler.kernel_ir.kernel import Kernel
from ....compiler.kernel_ir.passed_sizes import passed_sizes
from ....compiler.kernel_ir.read_numbers import with_numbers_read
from ....compiler.scheduling.choose import choose_schedule
from ....compiler.scheduling.schedule import Schedule
from ....compiler.types.dtypes import Number
from ....compiler.types.open_sizes import closed, whole
from ....lang.light_dataclasses import fields, replace
from ...failures.failure import RuntimeFailure
from ...settings.modes import AUTOTUNE
from ...settings.seeds_in_memory import SeedInMemory
from ..cache.folder import unusable
from ..cache.private_files import UnsafeFolder
from ..capture import is_captured, unrestricted
from ..failure import KernelFailure
from .compile import kernel_function
from .tuning import FAILED, tuned_schedule

ALIGNMENT = 16
"""Bytes. Triton makes wide loads of pointers that are multiples of it, and takes them for granted in what it built."""
TRIALS = 15
"""Launches by which a schedule is timed, after as many as warm it up."""
FLUSH = 1 << 28
"""Bytes written before a launch that is timed: more than caches hold, and for so long that the host gets ahead."""
_BUILDING = RLock()
Grid = tuple[int, int, int]


class Built:
    """A kernel under one schedule. Nothing touches a driver before the first launch.

    What sizes may be is in none of its parts, so that it serves all of a class.
    """

    def __init__(self, kernel: Kernel, schedule: Schedule) -> None:
        self.kernel = kernel
        self.schedule = schedule
        # Blocks along the axes of a tile follow from their sizes, which may be open.
        self.constants = {name: index(block) for name, block in constants(kernel, schedule).items()}
        self.configuration = configuration(schedule)
        self._compiled: dict[Hashable, Any] = {}
        self._reading: dict[tuple[str, ...], Built] = {}

    def reading(self, numbers: tuple[str, ...]) -> Built:
        """The same with these parameters read from memory, each a buffer behind the others."""
        with _BUILDING:
            found = self._reading.get(numbers)
            if found is None:
                found = self._reading[numbers] = Built(with_numbers_read(self.kernel, numbers), self.schedule)
            return found

    @cached_property
    def emitted(self) -> tuple[str, list[Number]]:
        """The Triton module, and the numbers that it takes behind the sizes."""
        return emit_for_open_sizes(self.kernel, self.schedule)

    @cached_property
    def _options(self) -> dict[str, Any]:
        return {**self.configuration, **compile_options(self.emitted[0])}

    @cached_property
    def function(self) -> Any:
        """Triton's own object for the kernel, or for its interpretation."""
        with _BUILDING:
            return kernel_function(self.emitted[0], function_name(self.kernel))

    def interpret(self, arguments: Sequence[Any], programs: Grid) -> None:
        """Run by Triton's interpreter, on the CPU."""
        self.function[programs](*arguments, **self.constants, **portable_options(self._options))

    def prepare(self, arguments: Sequence[Any], programs: Grid, kinds: Hashable = None) -> Callable[..., None]:
        """A launch for arguments of these types and alignments, on the current device.

        What was compiled for `kinds` serves all arguments of these.
        """
        from triton.compiler.errors import CompilationError

        from .store import checked_cache

        with _BUILDING, checked_cache(), unrestricted():
            compiled = self._compiled.get(kinds) if kinds is not None else None
            if compiled is None:
                options = self._options if torch.version.hip is None else portable_options(self._options)
                try:
                    compiled = self.function.warmup(*arguments, grid=programs, **self.constants, **options)
                except CompilationError as error:
                    raise KernelFailure(f"Triton does not compile {self.kernel.name}: {error}") from error
                self._compiled[kinds] = compiled
            launch: Callable[..., None] = compiled[programs]
        return _direct(compiled, programs, launch, tuple(self.constants.values()))


class TritonKernel:
    """A kernel, ready to be launched on one device; its schedule is the default one, or a tuned one.

    One of open sizes is not launched: `closed` makes of it one for given sizes.
    """

    def __init__(self, kernel: Kernel, device: torch.device, *, is_open: bool = False) -> None:
        self.kernel = kernel
        self.device = device
        self.is_interpreted = device.type == "cpu"
        schedule = choose_schedule(kernel)
        self._built = Built(kernel, _settled(schedule) if is_open else schedule)
        self._grid = grid(kernel, self._built.schedule)
        self._sizes = tuple(passed_sizes(kernel).values())
        if is_open:
            # What the text holds of sizes is among what has to be noted of them.
            self._sizes += tuple(map(whole, self._built.emitted[1]))
        self._is_empty = not is_open and 0 in self._grid
        self._prepared: dict[tuple[bool, ...], Callable[..., None]] = {}
        self._reading: dict[tuple[str, ...], TritonKernel] = {}
        self._tunes = AUTOTUNE.get() and not is_open

    def closed(self, atoms: Sequence[int]) -> TritonKernel:
        """The kernel for sizes at which atoms have these values; the text and what is compiled of it are the same."""
        found = copy(self)
        found._grid, found._sizes = closed(self._grid, atoms), closed(self._sizes, atoms)
        found._is_empty = 0 in found._grid
        found._prepared, found._reading = {}, {}
        return found

    @property
    def text(self) -> str:
        """The Triton module, under the default schedule."""
        return self._built.emitted[0]

    def launch(self, tensors: Sequence[torch.Tensor], numbers: Sequence[float], stream: int | None) -> None:
        """Run on a stream of the device, which is the current one. Tensors are those of the buffers, in their order.

        On the CPU, Triton's interpreter runs it.
        """
        if self._is_empty:
            return
        if numbers and any(isinstance(number, SeedInMemory) for number in numbers):
            kernel, tensors, numbers = self.reading(tensors, numbers)
            kernel.launch(tensors, numbers, stream)
            return
        if self.is_interpreted:
            self._built.interpret((*tensors, *self._sizes, *map(within_int64, numbers)), self._grid)
            return
        # Numbers, and not tensors: for these Triton would ask the driver where each of them is.
        try:
            pointers = [tensor.data_ptr() for tensor in tensors]
        except RuntimeError as error:
            raise _without_memory(self.kernel.name, error) from error
        aligned = tuple([not pointer % ALIGNMENT for pointer in pointers])
        run = self._prepared.get(aligned) or self._prepare(aligned, (*tensors, *self._sizes, *numbers))
        try:
            run(*pointers, *self._sizes, *numbers, stream=stream)
        except OverflowError:
            run(*pointers, *self._sizes, *map(within_int64, numbers), stream=stream)

    def reading(
        self, tensors: Sequence[torch.Tensor], numbers: Sequence[Any]
    ) -> tuple[TritonKernel, Sequence[torch.Tensor], Sequence[float]]:
        """The kernel that reads from memory what of the numbers is there, with what it is launched on."""
        given = list(zip(self.kernel.parameters, numbers, strict=True))
        held = {parameter.name: n.memory for parameter, n in given if type(n) is SeedInMemory}
        kernel = self._reading.get(tuple(held))
        if kernel is None:
            kernel = copy(self)
            kernel._built = self._built.reading(tuple(held))
            kernel.kernel = kernel._built.kernel
            kernel._prepared, kernel._reading = {}, {}
            self._reading[tuple(held)] = kernel
        return kernel, [*tensors, *held.values()], [n for parameter, n in given if parameter.name not in held]

    def direct(self, aligned: tuple[bool, ...]) -> tuple[Any, ...] | None:
        """What launches it at addresses aligned like this, once it was: what is called, with a grid, a stream, what
        comes behind these, the addresses, sizes, numbers and blocks; then lists of hooks, empty where it may be called.
        None where that is not known.
        """
        found = getattr(self._prepared.get(aligned), "parts", None)
        if found is None:
            return None
        run, programs, behind, blocks, *hooks = found
        return (run, programs, behind, self._sizes, blocks, *hooks)

    def _prepare(self, aligned: tuple[bool, ...], arguments: Sequence[Any]) -> Callable[..., None]:
        try:
            # What is captured does not run, so there is nothing to time.
            built = self._tuned(arguments) if self._tunes and not is_captured(self.device) else self._built
            kinds = (aligned, *map(_kind, self._sizes)) if built is self._built else None
            run = self._prepared[aligned] = built.prepare(arguments, self._grid, kinds)
        except KernelFailure as error:
            raise RuntimeFailure("R104", self.kernel.name, str(error)) from error
        except UnsafeFolder as error:
            raise RuntimeFailure("R104", self.kernel.name, f"no schedule can be kept: {unusable(error)}") from error
        return run

    def _tuned(self, arguments: Sequence[Any]) -> Built:
        name = f"{torch.cuda.get_device_name(self.device)}, torch {torch.__version__}"
        schedule = tuned_schedule(self.kernel, name, lambda tried: self._seconds(tried, arguments))
        return Built(self.kernel, schedule)

    def _seconds(self, schedule: Schedule, arguments: Sequence[Any]) -> float:
        """The median time of a launch; a kernel writes the same results each time."""
        try:
            run = Built(self.kernel, schedule).prepare(arguments, grid(self.kernel, schedule))
            flush = torch.empty(FLUSH, dtype=torch.uint8, device=self.device)
            times = [_timed(run, arguments, flush) for _ in range(2 * TRIALS)]
        except Exception:
            # Triton has many ways to say that a schedule asks for more than a device has.
            return FAILED
        return median(times[TRIALS:])


def _direct(compiled: Any, programs: Grid, launch: Callable[..., None], blocks: tuple[Any, ...]) -> Callable[..., None]:
    """What launches on a stream, as Triton's own `launch` does, less what that does for hooks while there are none."""
    from triton import knobs

    runtime = knobs.runtime
    try:
        run, function, packed = compiled.run, compiled.function, compiled.packed_metadata
        # What a profiler adds is added to these.
        entering, leaving = runtime.launch_enter_hook, runtime.launch_exit_hook
        enter_calls, leave_calls = entering.calls, leaving.calls
    except AttributeError:
        return lambda *given, stream=None: launch(*given, *blocks, stream=stream)
    across, down, deep = programs
    behind: tuple[Any, ...] = (function, packed, None, None, None)
    called, behind = _unwrapped(run, programs, behind) or (run, behind)

    def launched(*given: Any, stream: Any = None) -> None:
        if stream is None or enter_calls or leave_calls:
            launch(*given, *blocks, stream=stream)
        else:
            called(across, down, deep, stream, *behind, *given, *blocks)

    launched.parts = (called, programs, behind, blocks, enter_calls, leave_calls)  # type: ignore[attr-defined]
    return launched


def _unwrapped(run: Any, programs: Grid, behind: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """What Triton's launcher of a kernel calls in its turn, and what stands behind the stream there; None where that
    is not the same each time, or what is passed goes there in another order.

    It is asked: a copy of the launcher, which calls what notes.
    """
    try:
        needs_memory = run.global_scratch_size or run.profile_scratch_size
        asked, heard = copy(run), []
        asked.launch = lambda *given: heard.append(given)
        stream, passed = object(), (object(), object(), object())
        if needs_memory or asked.launch is run.launch:
            return None
        asked(*programs, stream, *behind, *passed)
        (given,) = heard
    except Exception:
        # Launchers are none of what Triton has documented.
        return None
    known = given[4 : -len(passed)]
    is_so = (*programs, stream) == given[:4] and given[-len(passed) :] == passed
    if not is_so or any(value is one for value in known for one in (stream, *passed)):
        return None
    if not all(
        value is None or isinstance(value, bool | int) or any(value is one for one in behind) for value in known
    ):
        return None
    return run.launch, known


def within_int64(number: float) -> float:
    """A number that is passed; of an int what it is modulo 2^64, as seeds are taken."""
    return number if isinstance(number, float) else ((number + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def _settled(schedule: Schedule) -> Schedule:
    """The schedule with numbers alone in it: those of open sizes become what they are at hand, which is noted."""
    found = {field.name: getattr(schedule, field.name) for field in fields(schedule)}
    return replace(schedule, **{name: index(value) for name, value in found.items() if isinstance(value, int)})


def _kind(size: int) -> tuple[bool, bool, bool]:
    """What Triton compiles apart for."""
    return size % ALIGNMENT == 0, size == 1, -(2**31) <= size < 2**31


def _without_memory(name: str, error: RuntimeError) -> RuntimeFailure:
    """For a batched tensor of `is_grads_batched=True`, or a traced one."""
    message = f"a tensor has no memory of its own: {str(error).splitlines()[0]}"
    notes = ["batches of gradients go through torch.func: `torch.func.vmap`, `torch.func.jacrev`"]
    return RuntimeFailure("R003", name, message, notes=notes)


@cache
def _stream_of() -> Callable[[int], int]:
    from triton.runtime import driver

    from .store import checked_cache

    try:
        # The first to ask has Triton build and load the library by which it talks to the driver.
        with checked_cache():
            found: Callable[[int], int] = driver.active.get_current_stream
    except KernelFailure as error:
        raise RuntimeFailure("R104", "", str(error)) from error
    return found


def current_stream(index: int) -> int:
    """The stream that work for a device goes to at present, as Triton takes it."""
    return _stream_of()(index)


def _timed(run: Callable[..., None], arguments: Sequence[Any], flush: torch.Tensor) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush.zero_()
    start.record()
    run(*arguments)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3

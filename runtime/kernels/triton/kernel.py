"""One kernel, run by Triton: its text, its build, and launches that cost little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from statistics import median
from threading import RLock
from typing import Any

import torch

from ....compiler.codegen.triton.module import (
    COMPILE_OPTIONS,
    configuration,
    constants,
    emit_triton,
    function_name,
    grid,
)
from ....compiler.kernel_ir.kernel import Kernel
from ....compiler.kernel_ir.passed import passed_sizes
from ....compiler.scheduling.schedule import Schedule, choose_schedule
from ...failures.failure import RuntimeFailure
from ...settings.modes import AUTOTUNE
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


class Built:
    """A kernel under one schedule. Nothing touches a driver before the first launch."""

    def __init__(self, kernel: Kernel, schedule: Schedule) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.grid = grid(kernel, schedule)
        self._constants = constants(kernel, schedule)
        self._options = {**configuration(schedule), **COMPILE_OPTIONS}

    @cached_property
    def text(self) -> str:
        """The Triton module."""
        return emit_triton(self.kernel, self.schedule)

    @cached_property
    def function(self) -> Any:
        """Triton's own object for the kernel, or for its interpretation."""
        with _BUILDING:
            return kernel_function(self.text, function_name(self.kernel))

    def interpret(self, arguments: Sequence[Any]) -> None:
        """Run by Triton's interpreter, on the CPU."""
        self.function[self.grid](*arguments, **self._constants, **self._options)

    def prepare(self, arguments: Sequence[Any]) -> Callable[..., None]:
        """A launch for arguments of these types and alignments, on the current device."""
        from .store import checked_cache

        options = dict(self._options)
        if torch.version.hip is not None:
            del options["maxnreg"]
        with _BUILDING, checked_cache(), unrestricted():
            compiled = self.function.warmup(*arguments, grid=self.grid, **self._constants, **options)
            launch: Callable[..., None] = compiled[self.grid]
        blocks = tuple(self._constants.values())
        return lambda *given, stream=None: launch(*given, *blocks, stream=stream)


class TritonKernel:
    """A kernel, ready to be launched on one device; its schedule is the default one, or a tuned one."""

    def __init__(self, kernel: Kernel, device: torch.device) -> None:
        self.kernel = kernel
        self.device = device
        self._built = Built(kernel, choose_schedule(kernel))
        self._is_empty = 0 in self._built.grid
        self._sizes = tuple(passed_sizes(kernel).values())
        self._prepared: dict[tuple[bool, ...], Callable[..., None]] = {}
        self._tunes = AUTOTUNE.get()

    @property
    def text(self) -> str:
        """The Triton module, under the default schedule."""
        return self._built.text

    def launch(self, tensors: Sequence[torch.Tensor], numbers: Sequence[float], stream: int | None) -> None:
        """Run on a stream of the device, which is the current one. Tensors are those of the buffers, in their order.

        On the CPU, Triton's interpreter runs it.
        """
        if self._is_empty:
            return
        if self.device.type == "cpu":
            self._built.interpret((*tensors, *self._sizes, *numbers))
            return
        # Numbers, and not tensors: for these Triton would ask the driver where each of them is.
        try:
            pointers = [tensor.data_ptr() for tensor in tensors]
        except RuntimeError as error:
            raise _without_memory(self.kernel.name, error) from error
        aligned = tuple([not pointer % ALIGNMENT for pointer in pointers])
        run = self._prepared.get(aligned) or self._prepare(aligned, (*tensors, *self._sizes, *numbers))
        run(*pointers, *self._sizes, *numbers, stream=stream)

    def _prepare(self, aligned: tuple[bool, ...], arguments: Sequence[Any]) -> Callable[..., None]:
        try:
            # What is captured does not run, so there is nothing to time.
            built = self._tuned(arguments) if self._tunes and not is_captured(self.device) else self._built
            run = self._prepared[aligned] = built.prepare(arguments)
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
            run = Built(self.kernel, schedule).prepare(arguments)
            flush = torch.empty(FLUSH, dtype=torch.uint8, device=self.device)
            times = [_timed(run, arguments, flush) for _ in range(2 * TRIALS)]
        except Exception:
            # Triton has many ways to say that a schedule asks for more than a device has.
            return FAILED
        return median(times[TRIALS:])


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

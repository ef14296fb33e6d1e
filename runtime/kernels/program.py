"""A program on torch tensors: tensors allocated, kernels launched and ops of torch called, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from operator import index
from threading import Lock
from typing import Any

import torch

from ...compiler.fusion.program import ExternStep, KernelStep, Passed, Program, Ref
from ...compiler.fusion.sharing import SharedKernels
from ...compiler.kernel_ir.kernel import Kernel
from ...compiler.kernel_ir.layout import Layout, contiguous_strides
from ...compiler.ops.registry import OPS
from ...compiler.types.open_sizes import Symbols, closed, is_open
from ...lang.light_dataclasses import dataclass, replace
from ..failures.failed_node import failure_at
from ..values.torch_dtypes import torch_dtypes
from .torch_ops import constant_tensor, is_literal, op_runner, without_autocast
from .triton.kernel import TritonKernel, current_stream

_SHARED = SharedKernels()
_SHARING = Lock()
"""Of the process: equal kernels are built once."""
KernelSlots = list[Any]
RunStep = Callable[[KernelSlots, Any], None]
"""A step: what it reads and writes, and the stream that it is put on."""


@dataclass(frozen=True, slots=True)
class LaunchedKernel:
    """A kernel: what it makes, slot, shape, strides and dtype; the slots of what it makes in the memory of what is in
    another, and those of its arguments."""

    kernel: TritonKernel
    made: Sequence[tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype]]
    moved: Sequence[tuple[int, int, tuple[int, ...]]]
    buffers: Sequence[int]
    numbers: Sequence[int]

    def closed(self, atoms: Sequence[int]) -> LaunchedKernel:
        """With values for what is open."""
        made, moved = closed(self.made, atoms), closed(self.moved, atoms)
        return LaunchedKernel(self.kernel.closed(atoms), made, moved, self.buffers, self.numbers)

    def __call__(self, slots: KernelSlots, stream: Any) -> None:
        device = self.kernel.device
        for number, shape, strides, dtype in self.made:
            # It takes half of the time that `torch.empty` does to parse its arguments.
            slots[number] = _empty(shape, strides, dtype=dtype, device=device)
        for number, source, shape in self.moved:
            slots[number] = slots[source].view(shape)
        self.kernel.launch([slots[n] for n in self.buffers], [slots[n] for n in self.numbers], stream)


@dataclass(frozen=True, slots=True)
class CalledOp:
    """An op of torch; `again` makes it for given sizes where it is for open ones."""

    run: RunStep
    again: Callable[[Sequence[int]], CalledOp] | None

    def closed(self, atoms: Sequence[int]) -> CalledOp:
        """With values for what is open."""
        return self if self.again is None else self.again(atoms)

    def __call__(self, slots: KernelSlots, stream: Any) -> None:
        self.run(slots, stream)


_empty = torch.empty_strided


class DeviceProgram:
    """A program for one device and for values like `values`, with a slot per value; a tensor leaves its slot after its
    last use.

    Runs on the device's current stream and waits for nothing. May run in several threads at once. One of open sizes,
    those of `symbols`, is not run: `closed` makes of it one for given sizes.
    """

    def __init__(
        self, program: Program, values: Sequence[Any], device: torch.device, symbols: Symbols | None = None
    ) -> None:
        with _SHARING:
            program = _SHARED.of_program(program, symbols)
        self.program = program
        self.device = device
        self._is_open = symbols is not None
        self._has_lists = any(isinstance(name, tuple) for name in program.inputs)
        constants = {**program.constants, **_literals(program.steps)}
        steps = [step for step in program.steps if constants.keys().isdisjoint(step.written)]
        names = [*constants, *program.input_names]
        names += [name for step in steps for name in step.written if name not in names]
        self._slot = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self._constants = [self._constant(array) for array in constants.values()]
        self._lasting = self._memory_of_constants()
        self._foreign = [
            len(self._constants) + i for i, value in enumerate(program.flat(values)) if _is_foreign(value, device)
        ]
        self._made: set[str] = set()
        last_uses = program.last_uses([[step] for step in steps])
        self._steps = [
            (self._step(step), [self._slot[name] for name in names])
            for step, names in zip(steps, last_uses, strict=True)
        ]
        self._results = [self._result(output) for output in program.outputs]
        self._empty = [None] * (len(self._slot) - len(self._constants) - len(program.input_names))
        self.is_new = [self._is_from_kernel(output) for output in program.outputs]
        self._has_ops = any(isinstance(step, ExternStep) for step in steps)
        self._has_kernels = any(isinstance(step, KernelStep) for step in steps)

    @property
    def kernels(self) -> list[TritonKernel]:
        """The kernels, in the order in which they run."""
        return [step.kernel for step, _ in self._steps if isinstance(step, LaunchedKernel)]

    def closed(self, atoms: Sequence[int]) -> DeviceProgram:
        """The program for sizes at which atoms have these values."""
        found = copy(self)
        found.program = replace(self.program, outputs=closed(self.program.outputs, atoms))
        found._results = [found._result(output) for output in found.program.outputs]
        found._steps = [(step.closed(atoms), free) for step, free in self._steps]
        return found

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs, for one value per input."""
        if not self._has_ops:
            return self._run_there(values)
        with without_autocast(self.device):
            return self._run_there(values)

    def _run_there(self, values: Sequence[Any]) -> list[Any]:
        if not self._has_kernels or self.device.type == "cpu":
            return self._run(values, None)
        if torch.cuda.current_device() == self.device.index:
            return self._run(values, current_stream(self.device.index))
        with torch.cuda.device(self.device):
            return self._run(values, current_stream(self.device.index))

    def _run(self, values: Sequence[Any], stream: Any) -> list[Any]:
        slots: KernelSlots = [
            *self._constants,
            *(self.program.flat(values) if self._has_lists else values),
            *self._empty,
        ]
        for number in self._foreign:
            # A fill takes the number along, where a copy would have the host wait.
            slots[number] = torch.full((), slots[number].item(), dtype=slots[number].dtype, device=self.device)
        for step, free in self._steps:
            step(slots, stream)
            for number in free:
                slots[number] = None
        results = [slots[result] if isinstance(result, int) else result(slots) for result in self._results]
        return [self._own(result) for result in results] if self._lasting else results

    def _own(self, result: Any) -> Any:
        """The result; a copy of one in the memory of a constant, which a caller must not write to."""
        if isinstance(result, list | tuple):
            return type(result)(self._own(item) for item in result)
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() in self._lasting:
            return result.clone()
        return result

    def _constant(self, array: Any) -> torch.Tensor:
        return constant_tensor(array, self.device)

    def _memory_of_constants(self) -> set[int]:
        return {tensor.untyped_storage().data_ptr() for tensor in self._constants} - {0}

    # --- steps ---

    def _step(self, step: KernelStep | ExternStep) -> LaunchedKernel | CalledOp:
        return self._launch(step) if isinstance(step, KernelStep) else self._extern(step)

    def _launch(self, step: KernelStep) -> LaunchedKernel:
        buffers = [self._slot[step.arguments[buffer.name]] for buffer in step.kernel.buffers]
        numbers = [self._slot[step.arguments[parameter.name]] for parameter in step.kernel.parameters]
        made = [(n, b) for n, b in zip(buffers, step.kernel.buffers, strict=True) if self._is_new(b, step)]
        allocated = [
            (n, b.shape, contiguous_strides(b.shape), torch_dtypes()[b.dtype]) for n, b in made if not b.place_of
        ]
        places = {buffer.name: n for n, buffer in zip(buffers, step.kernel.buffers, strict=True)}
        moved = [(n, places[b.place_of], b.shape) for n, b in made if b.place_of]
        return LaunchedKernel(self._kernel(step.kernel), allocated, moved, buffers, numbers)

    def _kernel(self, kernel: Kernel) -> TritonKernel:
        return TritonKernel(kernel, self.device, is_open=self._is_open)

    def _is_new(self, buffer: Any, step: KernelStep) -> bool:
        """Whether an output is written here first: kernels may share one, each writing a part."""
        name = step.arguments[buffer.name]
        if not buffer.is_output or name in self._made:
            return False
        self._made.add(name)
        return True

    def _extern(self, step: ExternStep, atoms: Sequence[int] = ()) -> CalledOp:
        op = OPS.of(step.node.schema)
        assert op is not None
        arguments = closed(step.arguments, atoms) if atoms else step.arguments
        readers = [self._reader(argument) for argument in arguments]
        results = [self._slot[name] for name in step.results]
        layouts = [self.program.layouts.get(name) for name in step.results]
        is_single = len(step.node.outputs) == 1 and len(results) == 1
        evaluate, is_view = op_runner(op, self.device), step.is_view

        def run(slots: KernelSlots, stream: Any) -> None:
            arguments = [read(slots) for read in readers]
            try:
                result = evaluate(arguments)
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                # What is wrong with an index shows only where it is used.
                raise failure_at(step.node, arguments, error, self.program.title, ()) from error
            # A list of tensors has a slot for each, one of unknown length has one for all.
            is_whole = is_single and (layouts[0] is None or not isinstance(result, list | tuple))
            found = [result] if is_whole else list(result)
            for number, layout, value in zip(results, layouts, found, strict=True):
                slots[number] = value if is_view or layout is None else _as_planned(value, layout)

        # Only what holds open sizes is made anew for given ones.
        again = (lambda atoms: self._extern(step, atoms)) if is_open(step.arguments) else None
        return CalledOp(run, again)

    def _reader(self, argument: Passed) -> Callable[[KernelSlots], Any]:
        if isinstance(argument, Ref):
            number = self._slot[argument.name]
            return lambda slots: slots[number]
        if isinstance(argument, list | tuple):
            readers, kind = [self._reader(item) for item in argument], type(argument)
            return lambda slots: kind([read(slots) for read in readers])
        return lambda slots: argument

    def _result(self, output: Passed) -> int | Callable[[KernelSlots], Any]:
        """The slot that holds an output, or what reads it."""
        return self._slot[output.name] if isinstance(output, Ref) else self._reader(output)

    def _is_from_kernel(self, output: Passed) -> bool:
        """Whether kernels alone write an output, in memory that they were given for it."""
        return isinstance(output, Ref) and output.name in self._made


def _as_planned(value: Any, layout: Layout) -> Any:
    """A result of the library as kernels were planned for: contiguous, where it may be another view, and of the dtype,
    where the statistics of halves may be float32."""
    dtype = torch_dtypes()[layout.dtype]
    return (value if value.dtype is dtype else value.to(dtype)).contiguous()


def _literals(steps: Sequence[KernelStep | ExternStep]) -> dict[str, Any]:
    """The results of ops on numbers alone, by name: constants, where each call would copy them to the device anew."""
    found: dict[str, Any] = {}
    for step in steps:
        if isinstance(step, KernelStep) or step.read:
            continue
        op = OPS.of(step.node.schema)
        if op is not None and is_literal(op):
            (name,) = step.results
            found[name] = op.evaluate(*_at_hand(step.arguments))
    return found


def _at_hand(argument: Any) -> Any:
    """An argument with numbers for open sizes, which is noted."""
    if isinstance(argument, list | tuple):
        return type(argument)([_at_hand(item) for item in argument])
    return index(argument) if is_open(argument) else argument


def _is_foreign(value: Any, device: torch.device) -> bool:
    """Whether a value is a single number on the CPU, which goes along to the device."""
    return isinstance(value, torch.Tensor) and value.device != device

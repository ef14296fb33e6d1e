"""A program on torch tensors: tensors allocated, kernels launched and ops of torch called, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from operator import index
from threading import Lock
from typing import Any

import torch

from ...compiler.fusion.program import ExternStep, KernelStep, Passed, Program, Ref
from ...compiler.fusion.sharing import SharedKernels
from ...compiler.kernel_ir.kernel import Kernel
from ...compiler.kernel_ir.layout import contiguous_strides
from ...compiler.ops.registry import OPS
from ...compiler.types.open_sizes import Symbols, closed, is_open
from ..values.torch_dtypes import torch_dtypes
from .by_torch.ops import constant_tensor, is_literal, op_function, without_autocast
from .launches.memory import memory_of_slots
from .launches.native import native_steps
from .launches.steps import CalledOp, LaunchedKernel
from .lists.row import LaunchRow
from .lists.slots import KernelSlots, RunStep, SlotOf, moved_to, reader_of
from .triton.kernel import TritonKernel, current_stream

_SHARED = SharedKernels()
_SHARING = Lock()
"""Of the process: equal kernels are built once."""


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
        self._outputs = [self._argument(output) for output in program.outputs]
        self._runs: list[tuple[RunStep, list[int]]] | None = None
        self._native: Callable[[KernelSlots, Any], None] | None = None
        self._empty = [None] * (len(self._slot) - len(self._constants) - len(program.input_names))
        self.is_new = [self._is_from_kernel(output) for output in program.outputs]
        self._has_ops = any(isinstance(step, ExternStep) for step in steps)
        self._has_kernels = any(isinstance(step, KernelStep) for step in steps)

    @property
    def kernels(self) -> list[TritonKernel]:
        """The kernels, in the order in which they run."""
        kernels = [step.kernel for step, _ in self._steps if isinstance(step, LaunchedKernel)]
        return [kernel for kernel in kernels if isinstance(kernel, TritonKernel)]

    @property
    def is_settled(self) -> bool:
        """As of any FixedRun: it is straight."""
        return True

    def closed(self, atoms: Sequence[int]) -> DeviceProgram:
        """The program for sizes at which atoms have these values."""
        found = copy(self)
        found._outputs = closed(self._outputs, atoms)
        found._steps = [(step.closed(atoms), free) for step, free in self._steps]
        found._runs = found._native = None
        found.__dict__.pop("memory", None)
        return found

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs, for one value per input."""
        if not self._has_ops:
            return self._run_there(values)
        with without_autocast(self.device):
            return self._run_there(values)

    def run_listed(self, values: Sequence[Any]) -> tuple[list[Any], DeviceProgram]:
        """The outputs, and what gave them: it does the same each time."""
        return self.run(values), self

    @cached_property
    def memory(self) -> list[Any]:
        """Whose memory each output has, as `memory_of_slots` says."""
        return memory_of_slots([step for step, _ in self._steps], self._outputs)

    def _run_there(self, values: Sequence[Any]) -> list[Any]:
        if not self._has_kernels:
            return self._run(values, None)
        return on_stream(self.device, lambda stream: self._run(values, stream))

    def _run(self, values: Sequence[Any], stream: Any) -> list[Any]:
        slots: KernelSlots = [
            *self._constants,
            *(self.program.flat(values) if self._has_lists else values),
            *self._empty,
        ]
        for number in self._foreign:
            slots[number] = self._brought(slots[number])
        if self._native is not None:
            self._native(slots, stream)
        else:
            self._run_steps(slots, stream)
        results = self._read(slots)
        return [self._own(result) for result in results] if self._lasting else results

    def _run_steps(self, slots: KernelSlots, stream: Any) -> None:
        if self._runs is None:
            self._read = reader_of(self._outputs)
            self._runs = [(step.prepared(), free) for step, free in self._steps]
        else:
            # What has run before will again; sizes that are met once do not pay for it.
            self._native = native_steps([step for step, _ in self._steps], [free for _, free in self._steps])
        for step, free in self._runs:
            step(slots, stream)
            for number in free:
                slots[number] = None

    def note(self, row: LaunchRow, values: Sequence[Any], results: Sequence[Any]) -> None:
        """Add what a run did to a row, whose values these are. Raises: Unlisted."""
        places = [row.place_of_constant(tensor) for tensor in self._constants]
        places += [row.place_of(value) for value in (self.program.flat(values) if self._has_lists else values)]
        for number in self._foreign:
            places[number] = row.evaluate(self._brought, [SlotOf(places[number])])
        places += [row.new_place() for _ in self._empty]
        for step, _ in self._steps:
            row.add(step.at(places))
        for output, result in zip(self._outputs, results, strict=True):
            row.found(moved_to(output, places), result, self._own if self._lasting else None)

    def _brought(self, number: torch.Tensor) -> torch.Tensor:
        """A single number of the CPU on the device. A fill takes it along, where a copy would have the host wait."""
        return torch.full((), number.item(), dtype=number.dtype, device=self.device)

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

    def _extern(self, step: ExternStep) -> CalledOp:
        op = OPS.of(step.node.schema)
        assert op is not None
        layouts = [self.program.layouts.get(name) for name in step.results]
        return CalledOp(
            op_function(op, self.device),
            [self._argument(argument) for argument in step.arguments],
            [self._slot[name] for name in step.results],
            layouts,
            step.is_view,
            step.node,
            self.program.title,
        )

    def _argument(self, argument: Passed) -> Any:
        """An argument with a slot's number for each value of the program."""
        if isinstance(argument, Ref):
            return SlotOf(self._slot[argument.name])
        if isinstance(argument, list | tuple):
            return type(argument)([self._argument(item) for item in argument])
        return argument

    def _is_from_kernel(self, output: Passed) -> bool:
        """Whether kernels alone write an output, in memory that they were given for it."""
        return isinstance(output, Ref) and output.name in self._made


def on_stream(device: torch.device, run: Callable[[Any], list[Any]]) -> list[Any]:
    """What `run` gives for the device's current stream, with the device as the current one."""
    if device.type == "cpu":
        return run(None)
    if torch.cuda.current_device() == device.index:
        return run(current_stream(device.index))
    with torch.cuda.device(device):
        return run(current_stream(device.index))


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

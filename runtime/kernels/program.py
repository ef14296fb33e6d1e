"""A program on torch tensors: tensors allocated, kernels launched and ops of torch called, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...compiler.fusion.program import Argument, ExternStep, KernelStep, Program, Ref
from ...compiler.ops.registry import OPS
from .torch_ops import TORCH_DTYPES, constant_tensor, run_op
from .triton_kernel import TritonKernel

Slots = list[Any]


class DeviceProgram:
    """A program for one device, with a slot per value; a tensor leaves its slot after its last use.

    Runs on the device's current stream and waits for nothing. May run in several threads at once.
    """

    def __init__(self, program: Program, device: torch.device) -> None:
        self.program = program
        self.device = device
        self._has_lists = any(isinstance(name, tuple) for name in program.inputs)
        names = [*program.constants, *_flat(program.inputs)]
        names += [name for step in program.steps for name in _written(step) if name not in names]
        self._slot = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self._constants = [constant_tensor(array, device) for array in program.constants.values()]
        self.kernels: list[TritonKernel] = []
        self._made: set[str] = set()
        self._steps = [self._step(step) for step in program.steps]
        self._free = self._last_uses()
        self._outputs = [self._reader(output) for output in program.outputs]
        self._size = len(self._slot)

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs, for one value per input."""
        slots: Slots = [*self._constants, *(_flat(values) if self._has_lists else values)]
        slots += [None] * (self._size - len(slots))
        for step, free in zip(self._steps, self._free, strict=True):
            step(slots)
            for number in free:
                slots[number] = None
        return [read(slots) for read in self._outputs]

    # --- steps ---

    def _step(self, step: KernelStep | ExternStep) -> Callable[[Slots], None]:
        return self._kernel(step) if isinstance(step, KernelStep) else self._extern(step)

    def _kernel(self, step: KernelStep) -> Callable[[Slots], None]:
        kernel = TritonKernel(step.kernel)
        self.kernels.append(kernel)
        buffers = [self._slot[step.arguments[buffer.name]] for buffer in step.kernel.buffers]
        numbers = [self._slot[step.arguments[parameter.name]] for parameter in step.kernel.parameters]
        made = [(n, b) for n, b in zip(buffers, step.kernel.buffers, strict=True) if self._is_new(b, step)]
        allocate = [(number, buffer.shape, TORCH_DTYPES[buffer.dtype]) for number, buffer in made]
        device, launch = self.device, kernel.launch

        def run(slots: Slots) -> None:
            for number, shape, dtype in allocate:
                slots[number] = torch.empty(shape, dtype=dtype, device=device)
            launch([slots[number] for number in buffers], [slots[number] for number in numbers])

        return run

    def _is_new(self, buffer: Any, step: KernelStep) -> bool:
        """Whether an output is written here first: kernels may share one, each writing a part."""
        name = step.arguments[buffer.name]
        if not buffer.is_output or name in self._made:
            return False
        self._made.add(name)
        return True

    def _extern(self, step: ExternStep) -> Callable[[Slots], None]:
        op = OPS.of(step.node.schema)
        assert op is not None
        readers = [self._reader(argument) for argument in step.arguments]
        results = [self._slot[name] for name in step.results]
        layouts = [self.program.layouts.get(name) for name in step.results]
        is_single = len(step.node.outputs) == 1 and len(results) == 1
        device, is_view = self.device, step.is_view

        def run(slots: Slots) -> None:
            result = run_op(op, [read(slots) for read in readers], device)
            # A list of tensors has a slot for each, one of unknown length has one for all.
            found = [result] if is_single and (layouts[0] is None or not _is_several(result)) else list(result)
            for number, layout, value in zip(results, layouts, found, strict=True):
                # Kernels were planned for contiguous tensors; what a library gives may be another view of them.
                slots[number] = value if is_view or layout is None else value.contiguous()

        return run

    def _reader(self, argument: Argument) -> Callable[[Slots], Any]:
        if isinstance(argument, Ref):
            number = self._slot[argument.name]
            return lambda slots: slots[number]
        if isinstance(argument, list):
            readers = [self._reader(item) for item in argument]
            return lambda slots: [read(slots) for read in readers]
        return lambda slots: argument

    def _last_uses(self) -> list[list[int]]:
        """After each step, the slots that nothing reads any more."""
        kept = {name for output in self.program.outputs for name in _names(output)}
        last: dict[str, int] = {}
        for position, step in enumerate(self.program.steps):
            for name in (*_read(step), *_written(step)):
                last[name] = position
        free: list[list[int]] = [[] for _ in self.program.steps]
        for name, position in last.items():
            if name not in kept:
                free[position].append(self._slot[name])
        return free


def _is_several(result: Any) -> bool:
    return isinstance(result, list | tuple)


def _flat(values: Sequence[Any]) -> list[Any]:
    """With lists, of inputs and of their names, put in their places."""
    return [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]


def _names(argument: Argument) -> list[str]:
    if isinstance(argument, Ref):
        return [argument.name]
    return [name for item in argument for name in _names(item)] if isinstance(argument, list) else []


def _read(step: KernelStep | ExternStep) -> list[str]:
    if isinstance(step, KernelStep):
        return list(step.arguments.values())
    return [name for argument in step.arguments for name in _names(argument)]


def _written(step: KernelStep | ExternStep) -> list[str]:
    if isinstance(step, ExternStep):
        return list(step.results)
    return [step.arguments[buffer.name] for buffer in step.kernel.outputs]

"""A program of kernels on NumPy arrays: results allocated, kernels and ops of the library run, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from threading import Lock
from typing import Any

import numpy as np

from ....compiler.fusion.program import Argument, ExternStep, KernelStep, Program, Ref, names_in
from ....compiler.fusion.sharing import SharedKernels
from ....compiler.ops.arrays import numpy_dtype
from ....compiler.ops.registry import OPS
from ....compiler.types.guards import values_of_atoms
from ....compiler.types.sizes import Symbols, at_hand, closed
from ....lang.light_dataclasses import dataclass, replace
from ...failures.failed_node import failure_at
from ...values.arena import ARENA
from .kernel import IN_VAIN, CModule, Kernels, OutOfRange, module_of

__all__ = ["IN_VAIN", "CProgram", "OutOfRange"]

_SHARED = SharedKernels()
_SHARING = Lock()
"""Of the process: equal kernels are built once."""
Slots = list[Any]
Run = Callable[[Slots, int], None]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Kernels that run one after the other: what they make, slot, shape and dtype, the slots of what they make in the
    memory of what is in another, and those of their arguments."""

    kernels: Kernels
    made: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]]
    moved: Sequence[tuple[int, int, tuple[int, ...]]]
    buffers: Sequence[int]
    numbers: Sequence[int]

    def closed(self, atoms: Sequence[int]) -> Stretch:
        """With values for what is open."""
        made = [(number, closed(shape, atoms), dtype) for number, shape, dtype in self.made]
        moved = closed(self.moved, atoms)
        return Stretch(Kernels(self.kernels.module, atoms), made, moved, self.buffers, self.numbers)

    def __call__(self, slots: Slots, threads: int) -> None:
        for number, shape, dtype in self.made:
            slots[number] = ARENA.empty(shape, dtype)
        for number, source, shape in self.moved:
            array = slots[source]
            slots[number] = array if array.shape == shape else array.reshape(shape)
        arrays = [slots[number] for number in self.buffers]
        self.kernels.run(arrays, [slots[number] for number in self.numbers], threads)


@dataclass(frozen=True, slots=True)
class Extern:
    """An op of the library."""

    step: ExternStep
    run: Run

    def __call__(self, slots: Slots, threads: int) -> None:
        self.run(slots, threads)


@dataclass(frozen=True, slots=True)
class Straight:
    """A program that is one stretch. Slots of constants come first, then those of inputs."""

    stretch: Stretch
    constants: Sequence[Any]
    results: Sequence[int]


class CProgram:
    """A program for values of given layouts, with a slot per value; an array leaves its slot after its last use.

    May run in several threads at once. One of open sizes, those of `symbols`, is not run: `closed` makes of it one for
    given sizes.
    """

    def __init__(self, program: Program, symbols: Symbols | None = None) -> None:
        with _SHARING:
            program = _SHARED.of_program(program, symbols)
        self.program = program
        self._asked = 0
        names = [*program.constants, *program.input_names]
        names += [name for step in program.steps for name in step.written]
        self._slot = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self._constants = list(program.constants.values())
        self._made: set[str] = set()
        parts = _parts(program.steps)
        self._has_lists = any(isinstance(name, tuple) for name in program.inputs)
        kernels = [[step for step in part if isinstance(step, KernelStep)] for part in parts]
        self.modules = [module_of([step.kernel for step in part]) for part in kernels if part]
        self._atoms = values_of_atoms(symbols, [at_hand(size) for size in symbols.sizes]) if symbols else []
        modules = iter(self.modules)
        self._steps = [
            (self._stretch(part, next(modules)) if part else self._extern(steps[0]), self._slots(free))
            for part, steps, free in zip(kernels, parts, program.last_uses(parts), strict=True)
        ]
        self._results = [self._reader(output) for output in program.outputs]
        self._empty = [None] * (len(self._slot) - len(self._constants) - len(program.input_names))

    def closed(self, atoms: Sequence[int]) -> CProgram:
        """The program for sizes at which atoms have these values."""
        found = copy(self)
        names = {name for output in self.program.outputs for name in names_in(output)}
        names.update(name for step in self.program.steps if isinstance(step, ExternStep) for name in step.results)
        layouts = {name: layout.closed(atoms) for name, layout in self.program.layouts.items() if name in names}
        found.program = replace(self.program, layouts=layouts, outputs=closed(self.program.outputs, atoms))
        found._asked = 0
        found._atoms = list(atoms)
        found._results = [found._reader(output) for output in found.program.outputs]
        found._steps = [
            (step.closed(atoms) if isinstance(step, Stretch) else found._extern(step.step), free)
            for step, free in self._steps
        ]
        return found

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """The outputs, for one value per input."""
        slots: Slots = [
            *self._constants,
            *(self.program.flat(values) if self._has_lists else values),
            *self._empty,
        ]
        for step, free in self._steps:
            step(slots, threads)
            for number in free:
                slots[number] = None
        results = [read(slots) for read in self._results]
        return [self._own(result) for result in results] if self._constants else results

    def _own(self, result: Any) -> Any:
        """The result; a copy of one in the memory of a constant, which a caller must not write to."""
        if isinstance(result, list | tuple):
            return type(result)(self._own(item) for item in result)
        is_shared = isinstance(result, np.ndarray) and any(np.may_share_memory(result, c) for c in self._constants)
        return result.copy() if is_shared else result

    def meets_again(self) -> bool:
        """Whether this is asked for the second time."""
        self._asked += 1
        return self._asked == 2

    @property
    def takes_lists(self) -> bool:
        """Whether a list is among the inputs."""
        return self._has_lists

    @property
    def straight(self) -> Straight | None:
        """The program as one stretch of kernels, which return what they make; None where it is more."""
        if len(self._steps) != 1 or self._has_lists:
            return None
        ((step, _),) = self._steps
        outputs = self.program.outputs
        if not isinstance(step, Stretch) or not all(isinstance(output, Ref) for output in outputs):
            return None
        made = {number for number, _, _ in step.made}
        results = [self._slot[output.name] for output in outputs]
        return Straight(step, self._constants, results) if made.issuperset(results) else None

    # --- steps ---

    def _stretch(self, steps: Sequence[KernelStep], module: CModule) -> Stretch:
        buffers = [self._slot[step.arguments[b.name]] for step in steps for b in step.kernel.buffers]
        numbers = [self._slot[step.arguments[p.name]] for step in steps for p in step.kernel.parameters]
        made: list[tuple[int, tuple[int, ...], Any]] = []
        moved: list[tuple[int, int, tuple[int, ...]]] = []
        for step in steps:
            for buffer in step.kernel.outputs:
                name = step.arguments[buffer.name]
                if name in self._made:
                    continue
                self._made.add(name)
                if buffer.place_of:
                    moved.append((self._slot[name], self._slot[step.arguments[buffer.place_of]], buffer.shape))
                else:
                    made.append((self._slot[name], buffer.shape, numpy_dtype(buffer.dtype)))
        return Stretch(Kernels(module, self._atoms), made, moved, buffers, numbers)

    def _extern(self, step: KernelStep | ExternStep) -> Extern:
        assert isinstance(step, ExternStep)
        op = OPS.of(step.node.schema)
        assert op is not None
        readers = [self._reader(closed(argument, self._atoms)) for argument in step.arguments]
        results = [self._slot[name] for name in step.results]
        layouts = [self.program.layouts.get(name) for name in step.results]
        is_single = len(step.node.outputs) == 1 and len(results) == 1
        evaluate, is_view, node, name = op.evaluate, step.is_view, step.node, self.program.title

        def run(slots: Slots, threads: int) -> None:
            arguments = [read(slots) for read in readers]
            try:
                with np.errstate(all="ignore"):
                    result = evaluate(*arguments)
            except MemoryError:
                raise
            except Exception as error:
                raise failure_at(node, arguments, error, name, ()) from error
            is_whole = is_single and (layouts[0] is None or not isinstance(result, list | tuple))
            found = [result] if is_whole else list(result)
            for number, layout, value in zip(results, layouts, found, strict=True):
                slots[number] = value if is_view or layout is None else _in_order(value)

        return Extern(step, run)

    def _slots(self, names: Sequence[str]) -> list[int]:
        return [self._slot[name] for name in names]

    def _reader(self, argument: Argument) -> Callable[[Slots], Any]:
        if isinstance(argument, Ref):
            number = self._slot[argument.name]
            return lambda slots: slots[number]
        if isinstance(argument, list | tuple):
            readers, kind = [self._reader(item) for item in argument], type(argument)
            return lambda slots: kind([read(slots) for read in readers])
        return lambda slots: argument


def _in_order(value: Any) -> np.ndarray[Any, Any]:
    """An array with its elements in order: the very array where they are."""
    is_so = type(value) is np.ndarray and value.flags.c_contiguous
    return value if is_so else np.ascontiguousarray(value).reshape(value.shape)


def _parts(steps: Sequence[KernelStep | ExternStep]) -> list[list[KernelStep | ExternStep]]:
    """Kernels that run one after the other in one part, and each op of the library in its own."""
    parts: list[list[KernelStep | ExternStep]] = []
    for step in steps:
        if isinstance(step, KernelStep) and parts and isinstance(parts[-1][0], KernelStep):
            parts[-1].append(step)
        else:
            parts.append([step])
    return parts

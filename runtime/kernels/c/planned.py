"""Programs of kernels in C that were planned in this process: their kernels built, for given sizes or for open ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from ....compiler.fusion.program import ExternStep, KernelStep, Passed, Program, Ref
from ....compiler.fusion.sharing import SharedKernels
from ....compiler.ops.arrays import numpy_dtype
from ....compiler.ops.registry import OPS
from ....compiler.types.guards import values_of_atoms
from ....compiler.types.open_sizes import Symbols, at_hand, closed, is_open
from ....lang.light_dataclasses import dataclass
from ...failures.failed_node import failure_at
from .kernel import CModule, Kernels, build_modules, module_of
from .program import Act, CProgram, Extern, Slot, Stretch

_SHARED = SharedKernels()
_SHARING = Lock()
"""Of the process: equal kernels are built once."""


@dataclass(frozen=True, slots=True)
class WrittenProgram:
    """A program in its parts, with the module of the kernels in each; None of an op of the library."""

    program: Program
    parts: Sequence[Sequence[KernelStep | ExternStep]]
    modules: Sequence[CModule | None]

    @property
    def built(self) -> list[CModule]:
        return [module for module in self.modules if module is not None]


def written_program(program: Program, symbols: Symbols | None = None) -> WrittenProgram:
    """The texts of a program. Raises: Unsupported."""
    with _SHARING:
        program = _SHARED.of_program(program, symbols)
    parts = _parts(program.steps)
    kernels = [[step.kernel for step in _kernels(part)] for part in parts]
    return WrittenProgram(program, parts, [module_of(part) if part else None for part in kernels])


def built_together(programs: Sequence[WrittenProgram], symbols: Symbols | None = None) -> list[PlannedProgram]:
    """Programs whose kernels are built side by side. Raises: KernelFailure."""
    build_modules([module for program in programs for module in program.built])
    return [PlannedProgram(program, symbols) for program in programs]


class PlannedProgram(CProgram):
    """A program for values of given layouts. One of open sizes, those of `symbols`, is not run: `closed` makes of it
    one for given sizes. Raises: KernelFailure, Unsupported."""

    def __init__(self, program: Program | WrittenProgram, symbols: Symbols | None = None) -> None:
        written = program if isinstance(program, WrittenProgram) else written_program(program, symbols)
        build_modules(written.built)
        program, parts = written.program, written.parts
        names = [*program.constants, *program.input_names]
        names += [name for step in program.steps for name in step.written]
        self.program = program
        self._slot = {name: number for number, name in enumerate(dict.fromkeys(names))}
        free = program.last_uses(parts)
        made: set[str] = set()
        self._open = [
            self._stretch(_kernels(steps), module, made) if module is not None else self._extern(steps[0])
            for steps, module in zip(parts, written.modules, strict=True)
        ]
        self._free = [[self._slot[name] for name in names] for names in free]
        atoms = values_of_atoms(symbols, [at_hand(size) for size in symbols.sizes]) if symbols else []
        constants, inputs = list(program.constants.values()), program.input_names
        super().__init__(
            constants,
            [len(given) if isinstance(given, tuple) else None for given in program.inputs],
            len(self._slot) - len(constants) - len(inputs),
            self._closed_steps(atoms),
            [self._placed(closed(output, atoms)) for output in program.outputs],
            [self._layout(output, atoms) for output in program.outputs],
        )

    def closed(self, atoms: Sequence[int]) -> PlannedProgram:
        """The program for sizes at which atoms have these values. What has none of them in it is that of all."""
        found = PlannedProgram.__new__(PlannedProgram)
        found.__dict__.update(self.__dict__, steps=self._closed_steps(atoms))
        found.layouts = [self._layout(output, atoms) for output in self.program.outputs]
        if is_open(self.program.outputs):
            found.returns([self._placed(closed(output, atoms)) for output in self.program.outputs])
        return found

    def _closed_steps(self, atoms: Sequence[int]) -> list[tuple[Act, Sequence[int]]]:
        return [(step.closed(atoms), free) for step, free in zip(self._open, self._free, strict=True)]

    def _layout(self, output: Passed, atoms: Sequence[int]) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        layout = self.program.layouts.get(output.name) if isinstance(output, Ref) else None
        return None if layout is None else (tuple(closed(layout.shape, atoms)), numpy_dtype(layout.dtype))

    def _placed(self, argument: Passed) -> Any:
        if isinstance(argument, Ref):
            return Slot(self._slot[argument.name])
        return type(argument)([*map(self._placed, argument)]) if isinstance(argument, list | tuple) else argument

    # --- steps ---

    def _stretch(self, steps: Sequence[KernelStep], module: CModule, before: set[str]) -> OpenStretch:
        """Those of kernels, which make what they have not been given and no step `before` has made."""
        buffers = [self._slot[step.arguments[b.name]] for step in steps for b in step.kernel.buffers]
        numbers = [self._slot[step.arguments[p.name]] for step in steps for p in step.kernel.parameters]
        made: list[tuple[int, tuple[int, ...], Any]] = []
        moved: list[tuple[int, int, tuple[int, ...]]] = []
        for step in steps:
            for buffer in step.kernel.outputs:
                name = step.arguments[buffer.name]
                if name in before:
                    continue
                before.add(name)
                if buffer.place_of:
                    moved.append((self._slot[name], self._slot[step.arguments[buffer.place_of]], buffer.shape))
                else:
                    made.append((self._slot[name], buffer.shape, numpy_dtype(buffer.dtype)))
        return OpenStretch(module, made, moved, buffers, numbers)

    def _extern(self, step: KernelStep | ExternStep) -> OpenExtern | Extern:
        assert isinstance(step, ExternStep)
        tensors = [self.program.layouts.get(name) is not None for name in step.results]
        arguments, results = [*map(self._placed, step.arguments)], [self._slot[name] for name in step.results]
        found = OpenExtern(step, self.program.title, arguments, results, tensors)
        return found if is_open(arguments) else found.closed(())


@dataclass(frozen=True, slots=True)
class OpenStretch:
    """A Stretch whose sizes may be open."""

    module: CModule
    made: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]]
    moved: Sequence[tuple[int, int, tuple[int, ...]]]
    buffers: Sequence[int]
    numbers: Sequence[int]

    def closed(self, atoms: Sequence[int]) -> Stretch:
        """With values for what is open."""
        made = [(number, closed(shape, atoms), dtype) for number, shape, dtype in self.made]
        return Stretch(Kernels(self.module, atoms), made, closed(self.moved, atoms), self.buffers, self.numbers)


@dataclass(frozen=True, slots=True)
class OpenExtern:
    """An Extern among whose arguments some sizes are open."""

    step: ExternStep
    title: str
    arguments: Sequence[Any]
    results: Sequence[int]
    tensors: Sequence[bool]

    def closed(self, atoms: Sequence[int]) -> Extern:
        """With values for what is open."""
        node = self.step.node
        op = OPS.of(node.schema)
        assert op is not None
        is_single = len(node.outputs) == 1 and len(self.results) == 1
        arguments = closed(list(self.arguments), atoms)
        is_view = self.step.is_view
        return Extern(
            op, arguments, self.results, self.tensors, is_view=is_view, is_single=is_single, failed=self._failed
        )

    @property
    def _failed(self) -> Callable[[Sequence[Any], Exception], Exception]:
        return lambda arguments, error: failure_at(self.step.node, arguments, error, self.title, ())


def _kernels(steps: Sequence[KernelStep | ExternStep]) -> list[KernelStep]:
    return [step for step in steps if isinstance(step, KernelStep)]


def _parts(steps: Sequence[KernelStep | ExternStep]) -> list[list[KernelStep | ExternStep]]:
    """Kernels that run one after the other in one part, and each op of the library in its own."""
    parts: list[list[KernelStep | ExternStep]] = []
    for step in steps:
        if isinstance(step, KernelStep) and parts and isinstance(parts[-1][0], KernelStep):
            parts[-1].append(step)
        else:
            parts.append([step])
    return parts

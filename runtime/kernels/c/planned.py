"""Programs of kernels in C that were planned in this process: their kernels built, for given sizes or for open ones."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from ....compiler.fusion.program import ExternStep, KernelStep, Passed, Program, Ref
from ....compiler.fusion.sharing import SharedKernels
from ....compiler.ops.arrays import numpy_dtype
from ....compiler.ops.registry import OPS
from ....compiler.types.guards import values_of_atoms
from ....compiler.types.open_sizes import Symbols, at_hand, is_open
from ....lang.light_dataclasses import dataclass
from ...failures.failed_node import failure_at
from .kept.open_programs import OpenExtern, OpenProgram, OpenStretch
from .kept.plans import JsonValue
from .kept.programs import program_data
from .kernel import CModule, build_modules, built_module, module_of
from .program import CProgram, Extern, Slot

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
        self.open = _Placing(written.program).program(written)
        super().__init__(*self.open.parts(atoms_at_hand(symbols) if symbols else []))

    def closed(self, atoms: Sequence[int]) -> CProgram:
        """The program for sizes at which atoms have these values."""
        return self.open.closed(atoms)

    def data(self) -> JsonValue:
        """What keeps it. Raises: Unkept."""
        return program_data(self.open)


def atoms_at_hand(symbols: Symbols) -> list[int]:
    """The values of all atoms for the sizes by which questions are answered."""
    return values_of_atoms(symbols, [at_hand(size) for size in symbols.sizes])


class _Placing:
    """A slot for each value of a program: constants first, then inputs, then what steps make."""

    def __init__(self, program: Program) -> None:
        names = [*program.constants, *program.input_names]
        names += [name for step in program.steps for name in step.written]
        self._program = program
        self._slot = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self._made: set[str] = set()

    def program(self, written: WrittenProgram) -> OpenProgram:
        program = self._program
        steps = [
            self._stretch(_kernels(steps), module) if module is not None else self._extern(steps[0])
            for steps, module in zip(written.parts, written.modules, strict=True)
        ]
        free = [[self._slot[name] for name in names] for names in program.last_uses(written.parts)]
        constants = list(program.constants.values())
        return OpenProgram(
            constants,
            [len(given) if isinstance(given, tuple) else None for given in program.inputs],
            len(self._slot) - len(constants) - len(program.input_names),
            [*zip(steps, free, strict=True)],
            [self._placed(output) for output in program.outputs],
            [self._layout(output) for output in program.outputs],
        )

    def _layout(self, output: Passed) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        layout = self._program.layouts.get(output.name) if isinstance(output, Ref) else None
        return None if layout is None else (layout.shape, numpy_dtype(layout.dtype))

    def _placed(self, argument: Passed) -> Any:
        if isinstance(argument, Ref):
            return Slot(self._slot[argument.name])
        return type(argument)([*map(self._placed, argument)]) if isinstance(argument, list | tuple) else argument

    def _stretch(self, steps: Sequence[KernelStep], module: CModule) -> OpenStretch:
        """Those of kernels, which make what they have not been given and no step before has made."""
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
        return OpenStretch(*built_module(module), made, moved, buffers, numbers)

    def _extern(self, step: KernelStep | ExternStep) -> OpenExtern | Extern:
        assert isinstance(step, ExternStep)
        node, title = step.node, self._program.title
        op = OPS.of(node.schema)
        assert op is not None
        tensors = [self._program.layouts.get(name) is not None for name in step.results]
        arguments, results = [*map(self._placed, step.arguments)], [self._slot[name] for name in step.results]
        is_single = len(node.outputs) == 1 and len(results) == 1

        def failed(arguments: Sequence[Any], error: Exception) -> Exception:
            return failure_at(node, arguments, error, title, ())

        found = OpenExtern(op, arguments, results, tensors, step.is_view, is_single, failed)
        return found if is_open(arguments) else found.closed(())


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

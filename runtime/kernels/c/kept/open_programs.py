"""Programs for sizes that may be open, as plain data, from which that for given sizes follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .....compiler.ops.registry import Op
from .....compiler.types.open_sizes import closed, is_open
from .....lang.light_dataclasses import dataclass
from ..launched import LaunchedKernels, Launches
from ..library import Library
from ..program import CProgram, Extern, Stretch


@dataclass(frozen=True, slots=True)
class OpenStretch:
    """A Stretch whose sizes may be open."""

    library: Library
    launches: Launches
    made: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]]
    moved: Sequence[tuple[int, int, tuple[int, ...]]]
    buffers: Sequence[int]
    numbers: Sequence[int]

    def closed(self, atoms: Sequence[int]) -> Stretch:
        """With values for what is open."""
        made = [(number, closed(shape, atoms), dtype) for number, shape, dtype in self.made]
        kernels = LaunchedKernels(self.library, self.launches.closed(atoms))
        return Stretch(kernels, made, closed(self.moved, atoms), self.buffers, self.numbers)


@dataclass(frozen=True, slots=True)
class OpenExtern:
    """An Extern among whose arguments some sizes are open."""

    op: Op
    arguments: Sequence[Any]
    results: Sequence[int]
    tensors: Sequence[bool]
    is_view: bool
    is_single: bool
    failed: Callable[[Sequence[Any], Exception], Exception] | None = None

    def closed(self, atoms: Sequence[int]) -> Extern:
        """With values for what is open."""
        arguments = closed(list(self.arguments), atoms)
        is_view, is_single = self.is_view, self.is_single
        return Extern(
            self.op, arguments, self.results, self.tensors, is_view=is_view, is_single=is_single, failed=self.failed
        )


@dataclass(frozen=True, slots=True)
class OpenProgram:
    """What a CProgram is made of, sizes in it open. What has none in it is made once."""

    constants: Sequence[Any]
    widths: Sequence[int | None]
    made: int
    steps: Sequence[tuple[OpenStretch | OpenExtern | Extern, Sequence[int]]]
    outputs: Sequence[Any]
    layouts: Sequence[tuple[tuple[int, ...], np.dtype[Any]] | None]

    def parts(self, atoms: Sequence[int]) -> tuple[Any, ...]:
        """What the program for sizes is made of at which atoms have these values."""
        steps = [(step.closed(atoms), free) for step, free in self.steps]
        outputs = closed(list(self.outputs), atoms) if is_open(list(self.outputs)) else self.outputs
        layouts = [layout and (closed(layout[0], atoms), layout[1]) for layout in self.layouts]
        return self.constants, self.widths, self.made, steps, outputs, layouts

    def closed(self, atoms: Sequence[int]) -> CProgram:
        """The program for sizes at which atoms have these values."""
        return CProgram(*self.parts(atoms))

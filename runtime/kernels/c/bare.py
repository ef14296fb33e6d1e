"""Programs that need no more than the memory of their inputs: one stretch of kernels, and views of inputs.

What such a program gives is new, an input, or a view of one, which follows from the layouts that it was planned for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....compiler.ops.arrays import Array
from .program import CProgram, Extern, Slot, Stretch


class InputView(NamedTuple):
    """A slot that is an input's memory otherwise."""

    slot: int
    source: int
    """Among the inputs."""
    offset: int
    """Bytes behind its first element."""
    array: Array
    """Of that dtype, shape and strides."""


class Bare(NamedTuple):
    """Such a program."""

    stretch: Stretch | None
    views: Sequence[InputView]
    results: Sequence[int]
    """Slots."""


def bare_of(program: CProgram, values: Sequence[Any], open_inputs: Collection[int]) -> Bare | None:
    """The program for values like these, those of `open_inputs` any ints; None where it is no such one."""
    if program.takes_lists or not all(isinstance(output, Slot) for output in program.outputs):
        return None
    first = len(program.constants)
    slots = [*program.constants, *values, *[None] * program.made]
    sources = {first + i: i for i, value in enumerate(values) if isinstance(value, np.ndarray)}
    unsettled = {first + i for i in open_inputs}
    stretch: Stretch | None = None
    views: list[InputView] = []
    for step, _ in program.steps:
        if isinstance(step, Stretch):
            if stretch is not None or step.moved:
                return None
            stretch = step
            continue
        taken = {argument.number for argument in _slots(step.arguments)} if isinstance(step, Extern) else set()
        tensors = taken & sources.keys()
        if not isinstance(step, Extern) or not step.is_view or len(tensors) != 1 or taken & unsettled:
            return None
        step(slots, 1)
        (source,) = tensors
        for number in step.results:
            found, owner = slots[number], values[sources[source]]
            if not isinstance(found, np.ndarray) or not found.size or not np.may_share_memory(found, owner):
                return None
            sources[number] = sources[source]
            offset = found.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
            views.append(InputView(number, sources[source], offset, found))
    made = {number for number, _, _ in stretch.made} if stretch is not None else set()
    results = [output.number for output in program.outputs]
    return Bare(stretch, views, results) if (made | sources.keys()).issuperset(results) else None


def _slots(arguments: Sequence[Any]) -> list[Slot]:
    found: list[Slot] = []
    for argument in arguments:
        if isinstance(argument, list | tuple):
            found += _slots(argument)
        elif isinstance(argument, Slot):
            found.append(argument)
    return found

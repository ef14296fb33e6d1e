"""A list of launches: all that a run of a plan puts on a device, in order, without the plan.

    the plan's loop       for 6 rounds: three elements of lists, a group looked up by its layouts, two elements kept
    the list              mm, kernel, kernel, mm, kernel, … over one row of slots

Which kernels, on which sizes, in which order: all of it follows from the layouts of the arguments, where the host
decides it. So it is found once, from a run of the plan itself, and then done again. A slot is emptied after its last
use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..lists.row import LaunchRow
from ..lists.slots import KernelSlots, RunStep, flat_values, reader_of
from .memory import memory_of_slots
from .native import native_steps


class LaunchList:
    """The steps of a row, `outputs` being what it gives, with the slot of each value. May run in several threads."""

    def __init__(self, row: LaunchRow, outputs: Sequence[Any]) -> None:
        self.count = len(row.steps)
        self._template = row.template
        self._inputs = row.count
        freed = row.freed(outputs)
        self._native = native_steps(row.steps, freed)
        self._steps: list[tuple[RunStep, list[int]]] = []
        if self._native is None:
            self._steps = [(step.prepared(), numbers) for step, numbers in zip(row.steps, freed, strict=True)]
        self._read = reader_of(outputs)
        self.memory = memory_of_slots(row.steps, outputs)

    def run(self, values: Sequence[Any], stream: Any) -> list[Any]:
        """The outputs, for one value per argument."""
        slots: KernelSlots = flat_values(values)
        assert len(slots) == self._inputs
        slots += self._template
        if self._native is not None:
            self._native(slots, stream)
            return self._read(slots)
        for step, free in self._steps:
            step(slots, stream)
            for number in free:
                slots[number] = None
        return self._read(slots)

"""The steps of a plan in the making: kernels, and what a library computes between them."""

from __future__ import annotations

from collections.abc import Iterator

from ..program import ExternStep
from .group import Group
from .placement import MemoryPlacement

MAX_BUFFERS = 24
"""Of one kernel, along its rows: more would not leave registers to compute with."""
MAX_STATISTICS = 128
"""Of one kernel, of which a row has one element each."""


class PlannedSteps:
    """In the order in which they run; a kernel's `order` is its place among them."""

    def __init__(self, memory: MemoryPlacement) -> None:
        self._memory = memory
        self._steps: list[Group | ExternStep] = []

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Group | ExternStep]:
        return iter(self._steps)

    def begin(self, shape: tuple[int, ...]) -> Group:
        """A new kernel over a shape, behind all others."""
        group = Group(self._memory, len(self._steps), shape)
        self._steps.append(group)
        return group

    def append(self, step: Group | ExternStep) -> None:
        if isinstance(step, Group):
            step.order = len(self._steps)
        self._steps.append(step)

    def remove(self, group: Group) -> None:
        """Take back a kernel that nothing is in."""
        self._steps.remove(group)

    def open_groups(self, *, full: bool = False) -> list[Group]:
        """The kernels that something may join, last one first; with `full` those of rows that take no more buffers."""
        groups = [step for step in reversed(self._steps) if isinstance(step, Group)]
        return [group for group in groups if (full and group.reduced) or not is_full(group)]


def is_full(group: Group) -> bool:
    """Whether a kernel is to have no more buffers."""
    if len(group.buffers) < MAX_BUFFERS:
        return False
    along = group.buffers_along_rows()
    return along >= MAX_BUFFERS or len(group.buffers) - along >= MAX_STATISTICS

"""A step of a list that is no op alone: a write, or a function with results that are nested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..program import Slot, slots_among, value_of


class ListedEvaluation:
    """A function of what is in slots. `results` are Slots, nested, and None for what is in a slot already; it `writes`
    into its first argument."""

    __slots__ = ("arguments", "function", "results", "writes")

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], results: Any, *, writes: bool) -> None:
        self.function = function
        self.arguments = arguments
        self.results = results
        self.writes = writes

    @property
    def numbers(self) -> list[int]:
        """Slots that it looks at."""
        return [slot.number for slot in slots_among(self.arguments)]

    def __call__(self, slots: list[Any], threads: int) -> None:
        _spread(self.results, self.function(*[value_of(argument, slots) for argument in self.arguments]), slots)


def _spread(pattern: Any, value: Any, slots: list[Any]) -> None:
    """Lists nest as deep as types in source, so this recurses."""
    if isinstance(pattern, Slot):
        slots[pattern.number] = value
    elif isinstance(pattern, list | tuple):
        for part, item in zip(pattern, value, strict=True):
            _spread(part, item, slots)

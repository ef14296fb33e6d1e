"""Slots of lists: what of the arguments and results of steps stands in them, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

KernelSlots = list[Any]
RunStep = Callable[[KernelSlots, Any], None]
"""A step: what it reads and writes, and the stream that it is put on."""
FreedPlaces = Sequence[int]
"""Slots that nothing reads any more after a step."""
LAUNCH, CALL, OTHER = range(3)
ONE, SEVERAL, NESTED = range(3)
"""Kinds of steps and of results, as `c/text/launches.c` has them."""
NewPlaces = Sequence[int]
"""Where slots stand in another row: a new number for each."""


class SlotOf(int):
    """Among the arguments of a step, the value of a slot."""

    __slots__ = ()


def slots_in(argument: Any) -> list[int]:
    """The slots that an argument, or a list or tuple of some, looks at."""
    if type(argument) is SlotOf:
        return [argument]
    return [slot for item in argument for slot in slots_in(item)] if isinstance(argument, list | tuple) else []


def described_values(values: Any) -> tuple[Any, ...]:
    """Values, and which of them stand in slots or have such in them, for what runs steps without Python."""
    same = tuple([None if type(item) is SlotOf else item for item in values])
    plain = [(i, int(item)) for i, item in enumerate(values) if type(item) is SlotOf]
    nested = [
        (i, described_values(item)) for i, item in enumerate(values) if type(item) is not SlotOf and slots_in(item)
    ]
    where, found = tuple([i for i, _ in plain]), tuple([number for _, number in plain])
    return (type(values) is tuple, same, where, found, tuple(nested))


def moved_to(argument: Any, places: NewPlaces | Mapping[int, int]) -> Any:
    """An argument over another row of slots."""
    if type(argument) is SlotOf:
        return SlotOf(places[argument])
    return (
        type(argument)([moved_to(item, places) for item in argument]) if type(argument) in (list, tuple) else argument
    )


def reader_of(arguments: Sequence[Any]) -> Callable[[KernelSlots], list[Any]]:
    """What gives the values of arguments."""
    plain = [(i, int(item)) for i, item in enumerate(arguments) if type(item) is SlotOf]
    nested = [(i, _nested(item)) for i, item in enumerate(arguments) if type(item) is not SlotOf and slots_in(item)]
    if len(plain) == len(arguments):
        numbers = [number for _, number in plain]
        return lambda slots: [slots[number] for number in numbers]
    template = [*arguments]

    def read(slots: KernelSlots) -> list[Any]:
        found = template.copy()
        for i, number in plain:
            found[i] = slots[number]
        for i, made in nested:
            found[i] = made(slots)
        return found

    return read


def _nested(argument: Any) -> Callable[[KernelSlots], Any]:
    kind, read = type(argument), reader_of(argument)
    return read if kind is list else lambda slots: kind(read(slots))


def flat_values(values: Sequence[Any]) -> list[Any]:
    """The values, lists taken apart. They nest as deep as types in source, so this recurses."""
    found: list[Any] = []
    for value in values:
        if type(value) is list:
            found += flat_values(value)
        else:
            found.append(value)
    return found

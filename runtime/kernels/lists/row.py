"""A row of slots that grows with what a run does: which value stands where, and the steps between them.

Values are told apart by identity, so that it does not matter through which lists and loops they went. A number is
what it is, but for those that each call has its own of: floats among the arguments, seeds that are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias
from weakref import ref

from ....compiler.ops.meta import Meta
from ....compiler.ops.registry import Op
from ....lang.light_dataclasses import dataclass, replace
from .slots import (
    CALL,
    NESTED,
    ONE,
    FreedPlaces,
    KernelSlots,
    NewPlaces,
    RunStep,
    SlotOf,
    described_values,
    moved_to,
    reader_of,
    slots_in,
)

MAX_STEPS = 20_000
"""Of a list; what is longer goes by the plan."""
ResultPlaces: TypeAlias = Any
"""Where the results of an evaluation go: a slot, None for what is kept elsewhere or nowhere, or a list of such."""


class Unlisted(Exception):
    """A run goes by what is in tensors, or does what a list would not do."""


class RowStep(Protocol):
    """What stands in a row: which slots it looks at, and which it fills."""

    @property
    def read(self) -> Sequence[int]:
        """Slots that are looked at."""

    @property
    def written(self) -> Sequence[int]:
        """Slots that it fills."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """Tensors of a library: their type, what makes another object of one in the same memory, what a shape rule is told
    of one, and what adds two gradients."""

    type: type
    renamed: Callable[[Any], Any]
    meta: Callable[[Any], Meta]
    plus: Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class EvaluatedStep:
    """A function of what is in slots; `op` is what it computes, where that is one op."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    results: ResultPlaces
    op: Op | None = None

    @property
    def read(self) -> Sequence[int]:
        """Slots that are looked at."""
        return slots_in(self.arguments)

    @property
    def written(self) -> Sequence[int]:
        """Slots that it fills."""
        return slots_in(self.results)

    def at(self, places: NewPlaces) -> EvaluatedStep:
        """The same over another row of slots."""
        return replace(self, arguments=moved_to(self.arguments, places), results=moved_to(self.results, places))

    def described(self, freed: FreedPlaces) -> tuple[Any, ...]:
        """The same for what runs steps without Python."""
        called = (tuple(freed), self.function, described_values(tuple(self.arguments)), None)
        if type(self.results) is SlotOf:
            return (CALL, (*called, ONE, False, (int(self.results),), (None,)))
        return (CALL, (*called, NESTED, False, (), _as_tuples(self.results)))

    def prepared(self) -> RunStep:
        """What runs it."""
        function, read, results = self.function, reader_of(self.arguments), self.results
        if type(results) is SlotOf:
            number = int(results)

            def run_one(slots: KernelSlots, stream: Any) -> None:
                slots[number] = function(*read(slots))

            return run_one

        def run(slots: KernelSlots, stream: Any) -> None:
            _spread(results, function(*read(slots)), slots)

        return run


def _spread(pattern: ResultPlaces, value: Any, slots: KernelSlots) -> None:
    """Put results where they go. Lists nest as deep as types in source, so this recurses."""
    if type(pattern) is SlotOf:
        slots[pattern] = value
    elif type(pattern) is list:
        for part, item in zip(pattern, value, strict=True):
            _spread(part, item, slots)


def _as_tuples(pattern: ResultPlaces) -> ResultPlaces:
    return tuple(map(_as_tuples, pattern)) if isinstance(pattern, list) else pattern


class LaunchRow:
    """Slots, and steps over them. The first are of the arguments, lists taken apart; `template` has the others."""

    def __init__(self, tensors: Tensors, arguments: Sequence[Any], own: Sequence[int]) -> None:
        """`own` are the places of numbers of which each call has its own."""
        self._tensor = tensors.type
        self.count = len(arguments)
        self.template: list[Any] = []
        self.steps: list[Any] = []
        self._places: dict[int, tuple[Callable[[], Any], int]] = {}
        self._seeds: dict[int, int] = {}
        for place, value in enumerate(arguments):
            if isinstance(value, self._tensor) or type(value) is float:
                self._keep(value, place)
            elif place in own:
                self.draw(value, place)

    @property
    def own_places(self) -> list[int]:
        """The places of arguments that are seeds."""
        return [place for place in self._seeds.values() if place < self.count]

    # --- where values stand ---

    def new_place(self, value: Any = None) -> int:
        """A slot more, which holds a value from the start."""
        self.template.append(value)
        return self.count + len(self.template) - 1

    def place_of_constant(self, value: Any) -> int:
        """The slot of a tensor that is the same in each run."""
        found = self._place(value)
        if found is None:
            found = self.new_place(value)
            self._keep(value, found)
        return found

    def place_of(self, value: Any) -> int:
        """The slot of a value. Raises: Unlisted, for a tensor that nothing made."""
        found = self._place(value)
        if found is None:
            if isinstance(value, self._tensor):
                raise Unlisted
            found = self.new_place(value)
        return found

    def is_own(self, value: Any) -> bool:
        """Whether a value is a number of which each call has its own."""
        return not isinstance(value, self._tensor) and self._place(value) is not None

    def argument(self, value: Any) -> Any:
        """A value with the slots of tensors, and of numbers that each call has its own of. Raises: Unlisted."""
        if isinstance(value, list | tuple):
            return type(value)([self.argument(item) for item in value])
        return SlotOf(self.place_of(value)) if isinstance(value, self._tensor) or self.is_own(value) else value

    def _place(self, value: Any) -> int | None:
        if type(value) is int:
            return self._seeds.get(value)
        kept, place = self._places.get(id(value), (None, None))
        return place if kept is not None and kept() is value else None

    def _keep(self, value: Any, place: int) -> None:
        # What lives no more may have had the same identity.
        kept: Callable[[], Any] = ref(value) if isinstance(value, self._tensor) else lambda: value
        self._places[id(value)] = (kept, place)

    def draw(self, seed: Any, place: int) -> None:
        """Know a seed by its value. Raises: Unlisted, for one that may be another number, or twice the same."""
        if type(seed) is not int or abs(seed) < 1 << 32 or seed in self._seeds:
            raise Unlisted
        self._seeds[seed] = place

    # --- what runs ---

    def add(self, step: RowStep) -> None:
        """One step more. Raises: Unlisted, where there are too many."""
        if len(self.steps) >= MAX_STEPS:
            raise Unlisted
        self.steps.append(step)

    def evaluate(self, function: Callable[..., Any], arguments: Sequence[Any]) -> int:
        """A step that gives one value, and the slot of that."""
        place = self.new_place()
        self.add(EvaluatedStep(function, arguments, SlotOf(place)))
        return place

    def evaluated(
        self, function: Callable[..., Any], values: Sequence[Any], results: Any, op: Op | None = None
    ) -> None:
        """A step of which these are the values. What is new among the results has slots from now on."""
        arguments = [self.argument(value) for value in values]
        self.add(EvaluatedStep(function, arguments, self._pattern(results), op))

    def found(self, output: Any, result: Any, own: Callable[[Any], Any] | None) -> None:
        """A result stands where an output says; `own` is what makes of it one that a caller may write to."""
        if type(output) is SlotOf:
            if isinstance(result, self._tensor):
                self._keep(result, int(output) if own is None else self.evaluate(own, [output]))
        elif isinstance(output, list | tuple):
            for part, item in zip(output, result, strict=True):
                self.found(part, item, own)

    def freed(self, outputs: Sequence[Any]) -> list[list[int]]:
        """For each step the slots that nothing reads any more after it."""
        # Constants and arguments stay where they are.
        kept = {self.count + i for i, value in enumerate(self.template) if value is not None}
        kept |= {*range(self.count), *slots_in(outputs)}
        last: dict[int, int] = {}
        for position, step in enumerate(self.steps):
            last.update(dict.fromkeys((*step.read, *step.written), position))
        free: list[list[int]] = [[] for _ in self.steps]
        for number, position in last.items():
            if number not in kept:
                free[position].append(number)
        return free

    def _pattern(self, results: Any) -> ResultPlaces:
        if isinstance(results, list | tuple):
            return [self._pattern(item) for item in results]
        if self._place(results) is not None or not isinstance(results, self._tensor | float):
            return None
        place = self.new_place()
        self._keep(results, place)
        return SlotOf(place)

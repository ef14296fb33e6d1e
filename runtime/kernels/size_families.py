"""Families of sizes, and the classes in them: for which sizes which plan with open ones is right."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ...compiler.types.guards import LEAST, Guards, values_of_atoms
from ...compiler.types.open_sizes import Symbols
from ...lang.light_dataclasses import dataclass, field

MAX_CLASSES = 32
"""Of one family; beyond, sizes are planned for as they are, for they decide too much."""
MAX_ALONE = 4
"""Of one family: plans with open sizes that were none, or turned out to be for the very sizes alone. Of sizes that are
FARTHER times as large as any of these there may be more: short rows may decide too much where long ones do not."""
FARTHER = 2
MAX_CLOSED = 4096
"""What is kept of plans for given sizes, made from those for open ones."""


class Closable(Protocol):
    """A plan for open sizes."""

    def closed(self, atoms: Sequence[int]) -> Any:
        """The plan for given sizes, by a value for each atom; None where it is gone."""


P = TypeVar("P", bound=Closable)
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class SizeClass(Generic[P]):
    """A plan, and for which sizes it is right: `places` has the symbol of each open one, `others` what the rest are."""

    plan: P
    symbols: Symbols
    guards: Guards
    places: dict[int, int]
    others: dict[int, int]

    def atoms(self, sizes: Sequence[int]) -> list[int] | None:
        """The value of each atom; None for sizes of another class."""
        if any(sizes_differ(sizes[place], size) for place, size in self.others.items()):
            return None
        given = [0] * self.symbols.count
        for place, symbol in self.places.items():
            given[symbol] = sizes[place]
        if any(given[symbol] != sizes[place] for place, symbol in self.places.items()):
            return None
        atoms = values_of_atoms(self.symbols, given)
        return atoms if self.guards.hold(atoms) else None


@dataclass(slots=True)
class Family(Generic[P]):
    """The sizes of a call that came first, which of them other calls differ in, and the classes."""

    first: Sequence[int]
    varying: set[int] = field(default_factory=set)
    classes: list[SizeClass[P]] = field(default_factory=list)
    alone: int = 0
    """How often sizes were asked for as they are."""
    largest_alone: dict[int, float] = field(default_factory=dict)
    """Of these, by place."""

    def may_open(self, sizes: Sequence[float], places: Sequence[int]) -> bool:
        """Whether sizes may be tried as open ones, for some places of them."""
        if len(self.classes) >= MAX_CLASSES:
            return False
        largest = self.largest_alone
        return self.alone < MAX_ALONE or any(sizes[i] >= FARTHER * largest.get(i, sizes[i]) > 0 for i in places)

    def note_alone(self, sizes: Sequence[float], places: Sequence[int]) -> None:
        """Sizes were asked for as they are."""
        self.alone += 1
        for i in places:
            self.largest_alone[i] = max(sizes[i], self.largest_alone.get(i, sizes[i]))


class FamilyStore(Protocol):
    """What keeps families from one process to the next, each under a key."""

    def get(self, key: Hashable) -> Family[Any] | None:
        """The family of a key; None where none is kept."""

    def put(self, key: Hashable, family: Family[Any]) -> None:
        """Keep a family."""


class ClosedPlans(Generic[C]):
    """Plans for given sizes, made from those for open ones; of too many the oldest is dropped."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, C] = {}

    def get(self, key: Hashable) -> C | None:
        """What is kept for a call of this key."""
        return self._plans.get(key)

    def close(self, key: Hashable, found: tuple[Closable, list[int]] | None) -> C | None:
        """The plan for the sizes at hand, from now on kept; None where there is none for open sizes."""
        if found is None:
            return None
        if len(self._plans) >= MAX_CLOSED:
            # Another thread may have been quicker.
            self._plans.pop(next(iter(self._plans)), None)
        plan, atoms = found
        made = plan.closed(atoms)
        return None if made is None else self._plans.setdefault(key, made)

    def clear(self) -> None:
        """Forget all."""
        self._plans.clear()


def sizes_differ(one: float, other: float) -> bool:
    """Whether they are not the same; zeros differ in their signs."""
    return one != other or (not one and type(one) is float and one.hex() != float(other).hex())


def may_be_open(size: float) -> bool:
    """Whether a size may be a symbol."""
    return size == size if type(size) is float else size >= LEAST

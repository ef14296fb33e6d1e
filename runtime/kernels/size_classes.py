"""Plans for classes of sizes: what was planned for some sizes serves all for which the same was found of them.

    f(x[64, 256])     planned for these sizes
    f(x[80, 256])     planned with the first size open: what planning asks of it becomes guards
    f(x[96, 256])     looked up: the guards hold, and 96 is put in the place of the open size

A size is open once two calls differ in it, and so is an argument that is an integer. Calls of one family are alike in
all but sizes, strides and integers: in dtypes, in ranks, in whether elements lie in order, and in what else arguments
are. In a class some sizes are open, and the others are what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ...compiler.codegen.text import Unsupported
from ...compiler.fusion.straight import Unfusable
from ...compiler.fusion.unasked import is_unasked
from ...compiler.kernel_ir.layout import Layout, contiguous_strides
from ...compiler.ops.meta import UNKNOWN
from ...compiler.shapes.propagate import ShapeError
from ...compiler.types.dtypes import DType
from ...compiler.types.floats import NoKey
from ...compiler.types.guards import LEAST, Guards, values_of_atoms
from ...compiler.types.sizes import Symbols
from ...lang.light_dataclasses import dataclass, field
from ..failures.failure import RuntimeFailure
from .failure import KernelFailure

MAX_FAMILIES = 64
"""Of one function, with floats known and with floats that are not; beyond, the one that came first is forgotten."""
MAX_CLASSES = 32
"""Of one family; beyond, sizes are planned for as they are, for they decide too much."""
MAX_ALONE = 4
"""Of one family: plans with open sizes that were none, or turned out to be for the very sizes alone."""
REFUSALS = (ShapeError, Unfusable, Unsupported, KernelFailure, RuntimeFailure, NoKey)
"""What stands against kernels for arguments: what the data has wrong, what is none for kernels, no compiler."""
MAX_CLOSED = 4096
"""What is kept of plans for given sizes, made from those for open ones."""


class Closable(Protocol):
    """A plan for open sizes."""

    def closed(self, atoms: Sequence[int]) -> Any:
        """The plan for given sizes, by a value for each atom."""


P = TypeVar("P", bound=Closable)
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class SeenTensor:
    """What a plan may depend on of a tensor: `strides` in elements, None where elements lie in order; `others` what
    calls of a family have in common besides."""

    shape: Sequence[int]
    strides: Sequence[int] | None
    dtype: DType
    others: Hashable = None


Look = Callable[[Any], SeenTensor | None]
"""What says this of a value; None of one that is no tensor."""


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
        if any(_differ(sizes[place], size) for place, size in self.others.items()):
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


class SizeClasses(Generic[P]):
    """Every family of calls of one function. `plan` makes a plan for what is known of arguments, with open sizes among
    it; what is one of the REFUSALS, the plan for the very sizes is to tell."""

    def __init__(self, look: Look) -> None:
        self._look = look
        # Those of floats that have to be known are apart.
        self._families: dict[bool, dict[Hashable, Family[P]]] = {False: {}, True: {}}

    def clear(self) -> None:
        """Forget all."""
        for families in self._families.values():
            families.clear()

    def find(self, values: Sequence[Any], settled: bool) -> tuple[P, list[int]] | None:
        """A plan with open sizes, and what they are for these values; None where each is planned for as it is."""
        key, sizes = self._family_of(values, settled)
        family = self._families[settled].get(key)
        if family is None:
            return None
        for found in family.classes:
            atoms = found.atoms(sizes)
            if atoms is not None:
                return found.plan, atoms
        return None

    def plan(
        self, values: Sequence[Any], settled: bool, plan: Callable[[Sequence[Any], Symbols], P]
    ) -> tuple[P, list[int]] | None:
        """As `find`, with a new class where sizes vary that have not been open."""
        key, sizes = self._family_of(values, settled)
        families = self._families[settled]
        family = families.get(key)
        if family is None:
            if len(families) >= MAX_FAMILIES:
                del families[next(iter(families))]
            families[key] = Family(sizes)
            return None
        family.varying |= {i for i, (a, b) in enumerate(zip(family.first, sizes, strict=True)) if _differ(a, b)}
        made = self._open(family, values, sizes, settled, plan)
        if made is None:
            return None
        family.classes.insert(0, made)
        atoms = made.atoms(sizes)
        return None if atoms is None else (made.plan, atoms)

    def _open(
        self,
        family: Family[P],
        values: Sequence[Any],
        sizes: Sequence[int],
        settled: bool,
        plan: Callable[[Sequence[Any], Symbols], P],
    ) -> SizeClass[P] | None:
        if len(family.classes) >= MAX_CLASSES or family.alone >= MAX_ALONE:
            return None
        varying = [place for place in sorted(family.varying) if _may_be_open(sizes[place])]
        # Sizes that were equal so far are taken for one.
        alike = {place: (type(sizes[place]), family.first[place], sizes[place]) for place in varying}
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(alike.values()))}
        if not numbers:
            return None
        family.alone += 1
        symbols = Symbols([size for _, _, size in numbers])
        places = {place: numbers[pair] for place, pair in alike.items()}
        opened = list(sizes)
        for place, symbol in places.items():
            opened[place] = symbols.sizes[symbol]
        try:
            made = plan(self._known(values, iter(opened), settled), symbols)
        except REFUSALS:
            # The plan for the sizes as they are is asked next, and tells.
            return None
        family.alone -= not symbols.noted.are_exact
        others = {place: size for place, size in enumerate(sizes) if place not in places}
        return SizeClass(made, symbols, symbols.noted, places, others)

    def _family_of(self, values: Sequence[Any], settled: bool) -> tuple[Hashable, list[int]]:
        """What calls of a family have in common, and the sizes in which they may differ."""
        key: list[Hashable] = []
        sizes: list[Any] = []
        self._describe(values, settled, key, sizes)
        return tuple(key), sizes

    def _describe(self, values: Sequence[Any], settled: bool, key: list[Hashable], sizes: list[Any]) -> None:
        for value in values:
            if isinstance(value, list):
                key += (list, len(value))
                self._describe(value, settled, key, sizes)
            elif isinstance(value, float):
                # Zeros differ in their signs, which equality does not see.
                key += (float, None if is_unasked(value, settled=False) else value.hex())
                if _is_asked(value, settled):
                    sizes.append(float(value))
            elif type(value) is int:
                key.append(int)
                sizes.append(value)
            elif (seen := self._look(value)) is None:
                key.append((type(value), value))
            else:
                key += (seen.others, seen.dtype, len(seen.shape), seen.strides is None)
                sizes += seen.shape
                sizes += seen.strides or ()

    def _known(self, values: Sequence[Any], sizes: Any, settled: bool) -> list[Any]:
        """What is known of arguments, with sizes from an iterator in the place of their own."""
        return [self._known_of(value, sizes, settled) for value in values]

    def _known_of(self, value: Any, sizes: Any, settled: bool) -> Any:
        if isinstance(value, list):
            return self._known(value, sizes, settled)
        if type(value) is int or _is_asked(value, settled):
            return next(sizes)
        seen = self._look(value)
        if seen is None:
            return UNKNOWN if isinstance(value, float) and is_unasked(value, settled) else value
        shape = tuple([next(sizes) for _ in seen.shape])
        if seen.strides is None:
            return Layout(shape, seen.dtype, contiguous_strides(shape))
        return Layout(shape, seen.dtype, tuple([next(sizes) for _ in seen.strides]))


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
        return self._plans.setdefault(key, plan.closed(atoms))

    def clear(self) -> None:
        """Forget all."""
        self._plans.clear()


def _is_asked(value: Any, settled: bool) -> bool:
    """Whether a value is a float that has to be known, and may be open."""
    return settled and isinstance(value, float) and is_unasked(value, settled=False)


def _differ(one: float, other: float) -> bool:
    """Whether they are not the same; zeros differ in their signs."""
    return one != other or (not one and type(one) is float and one.hex() != float(other).hex())


def _may_be_open(size: float) -> bool:
    return size == size if type(size) is float else size >= LEAST

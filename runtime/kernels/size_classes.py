"""Plans for classes of sizes: what was planned for some sizes serves all for which the same was found of them.

    f(x[64, 256])     planned for these sizes
    f(x[80, 256])     planned with the first size open: what planning asks of it becomes guards
    f(x[96, 256])     looked up: the guards hold, and 96 is put in the place of the open size

A size is open once two calls differ in it, and so is an argument that is an integer. Calls of one family are alike in
all but sizes, strides and integers: in dtypes, in ranks, in whether elements lie in order, and in what else arguments
are. In a class some sizes are open, and the others are what they are. So is the length of a list, once calls differ in
it, if its elements are alike: what goes through it is a loop, whose rounds nobody counts. Lists of ints that an op
takes as they are, as dimensions, have their lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

from ...compiler.codegen.text import Unsupported
from ...compiler.fusion.straight import Unfusable
from ...compiler.fusion.unasked import float_key, is_unasked, planned_for
from ...compiler.kernel_ir.layout import Layout, contiguous_strides
from ...compiler.ops.meta import UNKNOWN, OpenList
from ...compiler.shapes.propagate import ShapeError
from ...compiler.types.dtypes import DType
from ...compiler.types.open_floats import NoKey
from ...compiler.types.open_sizes import Symbols, is_open
from ...lang.light_dataclasses import dataclass
from ..failures.failure import RuntimeFailure
from .failure import KernelFailure
from .size_families import MAX_CLOSED, Closable, Family, FamilyStore, SizeClass, may_be_open, sizes_differ

MAX_FAMILIES = 64
"""Of one function, with floats known and with floats that are not; beyond, the one that came first is forgotten."""
REFUSALS = (ShapeError, Unfusable, Unsupported, KernelFailure, RuntimeFailure, NoKey)
"""What stands against kernels for arguments: what the data has wrong, what is none for kernels, no compiler."""
_NUMBERS = (int, float, bool)
_MISSING = type(None).__name__
P = TypeVar("P", bound=Closable)


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


@dataclass(slots=True)
class _Lengths:
    """What is known of the lengths of the lists of calls that are alike in all else: the sizes of the first call, and
    its lengths; whether others were met, None where that is no use."""

    first: Sequence[int]
    counts: Hashable
    are_open: bool | None = False


@dataclass(frozen=True, slots=True)
class _Call:
    """What calls of a family have in common, in which sizes they may differ, and whether in the lengths of lists."""

    key: Hashable
    sizes: Sequence[Any]
    lengths: _Lengths | None


class SizeClasses(Generic[P]):
    """Every family of calls of one function. `plan` makes a plan for what is known of arguments, with open sizes among
    it; what is one of the REFUSALS, the plan for the very sizes is to tell. `whole` gives the arguments that are lists
    of which no length is open. `store` keeps families."""

    def __init__(
        self, look: Look, whole: Callable[[], Collection[int]] = tuple, store: FamilyStore | None = None
    ) -> None:
        self._look = look
        self._whole_lists = cache(whole)
        self._store = store
        self._missed: set[Hashable] = set()
        # Those of floats that have to be known are apart.
        self._families: dict[bool, dict[Hashable, Family[P]]] = {False: {}, True: {}}
        self._lengths: dict[Hashable, _Lengths] = {}

    def _whole(self, values: Sequence[Any]) -> Collection[int]:
        """Which of the values are lists whose length is not open."""
        return self._whole_lists() if any(type(value) is list for value in values) else ()

    def clear(self) -> None:
        """Forget all."""
        self._lengths.clear()
        self._missed.clear()
        for families in self._families.values():
            families.clear()

    def find(self, values: Sequence[Any], settled: bool) -> tuple[P, list[int]] | None:
        """A plan with open sizes that is at hand, and what they are for these values; None where there is none."""
        families = self._families[settled]
        if not families:
            # To describe lists takes the graph, which nobody may have read yet.
            return None
        call = self._described(values, settled)
        return _class_of(call.sizes, families.get(call.key))

    def restore(self, values: Sequence[Any], settled: bool) -> tuple[P, list[int]] | None:
        """The same of a family that was kept, which is at hand from now on; it is looked for once."""
        if self._store is None:
            return None
        call = self._described(values, settled)
        key = (settled, call.key)
        if call.lengths is not None or call.key in self._families[settled] or key in self._missed:
            return None
        found = self._store.get(key)
        if found is not None:
            self._add(found, call, settled)
        elif len(self._missed) < MAX_CLOSED:
            self._missed.add(key)
        return _class_of(call.sizes, found)

    def plan(
        self, values: Sequence[Any], settled: bool, plan: Callable[[Sequence[Any], Symbols], P]
    ) -> tuple[P, list[int]] | None:
        """As `find`, with a new class where sizes vary that have not been open."""
        call = self._described(values, settled)
        family = self._families[settled].get(call.key)
        if family is None:
            family = Family(call.sizes if call.lengths is None else call.lengths.first)
            self._add(family, call, settled)
            if call.lengths is None:
                return None
        family.varying |= {
            i for i, (a, b) in enumerate(zip(family.first, call.sizes, strict=True)) if sizes_differ(a, b)
        }
        made = self._open(family, values, call, settled, plan)
        if made is None:
            if call.lengths is None or call.lengths.are_open:
                return None
            return self.find(values, settled) or self.plan(values, settled, plan)
        family.classes.insert(0, made)
        if self._store is not None and call.lengths is None:
            self._store.put((settled, call.key), family)
        atoms = made.atoms(call.sizes)
        return None if atoms is None else (made.plan, atoms)

    def _add(self, family: Family[P], call: _Call, settled: bool) -> None:
        families = self._families[settled]
        if len(families) >= MAX_FAMILIES:
            del families[next(iter(families))]
        families[call.key] = family

    def _open(
        self,
        family: Family[P],
        values: Sequence[Any],
        call: _Call,
        settled: bool,
        plan: Callable[[Sequence[Any], Symbols], P],
    ) -> SizeClass[P] | None:
        sizes = call.sizes
        varying = [place for place in sorted(family.varying) if may_be_open(sizes[place])]
        if not family.may_open(sizes, varying):
            return None
        # Sizes that were equal so far are taken for one.
        alike = {place: (type(sizes[place]), family.first[place], sizes[place]) for place in varying}
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(alike.values()))}
        if not numbers:
            return None
        symbols = Symbols([size for _, _, size in numbers])
        places = {place: numbers[pair] for place, pair in alike.items()}
        opened = list(sizes)
        for place, symbol in places.items():
            opened[place] = symbols.sizes[symbol]
        known = self._known(values, iter(opened), settled, call.lengths is not None, self._whole(values))
        try:
            made = plan(known, symbols)
        except REFUSALS:
            if call.lengths is not None and any(type(one) is OpenList for one in known):
                # Nothing goes through it for lists of any length: each length is a family of its own.
                call.lengths.are_open = None
            # The plan for the sizes as they are is asked next, and tells.
            family.note_alone(sizes, varying)
            return None
        if symbols.noted.are_exact:
            family.note_alone(sizes, varying)
        others = {place: size for place, size in enumerate(sizes) if place not in places}
        return SizeClass(made, symbols, symbols.noted, places, others)

    def _described(self, values: Sequence[Any], settled: bool) -> _Call:
        """What calls of a family have in common, and the sizes in which they may differ."""
        key: list[Hashable] = []
        sizes: list[Any] = []
        lengths = self._lengths_of(values, settled)
        self._describe(values, settled, lengths is not None, key, sizes, self._whole(values))
        return _Call(tuple(key), sizes, lengths)

    def _lengths_of(self, values: Sequence[Any], settled: bool) -> _Lengths | None:
        """What is known of the lengths of lists of such calls; None where there are none, or all were the same."""
        whole = self._whole(values)
        lists = [value for i, value in enumerate(values) if type(value) is list and i not in whole]
        if not any(self._likeness(value) is not None for value in lists):
            return None
        key: list[Hashable] = [settled]
        sizes: list[Any] = []
        self._describe(values, settled, True, key, sizes, whole)
        counts = _counts(values)
        found = self._lengths.get(tuple(key))
        if found is None:
            if len(self._lengths) >= MAX_FAMILIES:
                del self._lengths[next(iter(self._lengths))]
            found = self._lengths[tuple(key)] = _Lengths(sizes, counts)
        if found.are_open is False and found.counts != counts:
            found.are_open = True
        return found if found.are_open else None

    def _likeness(self, items: Sequence[Any]) -> tuple[Hashable, bool] | None:
        """What the elements of a list have in common, tensors or lists of such that differ in sizes at most, or
        numbers, any of which may be missing, and whether they are alike; None for others."""
        common = _shared([self._common(item) for item in items])
        if common is None:
            return None
        is_alike = type(items[0]) not in _NUMBERS and all(self._are_same(items[0], item) for item in items[1:])
        return common, is_alike

    def _common(self, item: Any) -> Hashable:
        """What an element of a list has in common with those that differ in sizes alone; None for what has no sizes.
        Lists nest as deep as a type in source does, so this recurses."""
        if item is None or type(item) in _NUMBERS:
            return type(item).__name__
        if isinstance(item, list):
            inner = _shared([self._common(one) for one in item])
            return (list, inner) if inner is not None or not item else None
        seen = self._look(item)
        return None if seen is None else _common(seen)

    def _are_same(self, one: Any, other: Any) -> bool:
        """Whether two tensors, or lists of some, are of the same sizes."""
        if isinstance(one, list):
            return isinstance(other, list) and len(one) == len(other) and all(map(self._are_same, one, other))
        if one is None or other is None:
            return one is other
        return type(one) not in _NUMBERS and self._look(one) == self._look(other)

    def _describe(
        self,
        values: Sequence[Any],
        settled: bool,
        any_length: bool,
        key: list[Hashable],
        sizes: list[Any],
        whole: Collection[int] = (),
    ) -> None:
        for i, value in enumerate(values):
            if isinstance(value, list):
                likeness = self._likeness(value) if any_length and i not in whole else None
                if likeness is None:
                    key += (list, len(value))
                    self._describe(value, settled, False, key, sizes)
                    continue
                # One element stands for all that are alike.
                key += (list, *likeness)
                sizes.append(len(value))
                if likeness[1]:
                    self._describe(value[:1], settled, True, key, sizes)
            elif isinstance(value, float):
                # Zeros differ in their signs, which equality does not see.
                key += float_key(value, settled=False)
                if _is_asked(value, settled):
                    sizes.append(float(value))
            elif type(value) is int:
                key.append(int)
                sizes.append(value)
            elif (seen := self._look(value)) is None:
                key.append((type(value), value))
            else:
                key.append(_common(seen))
                sizes += seen.shape
                sizes += seen.strides or ()

    def _known(
        self, values: Sequence[Any], sizes: Any, settled: bool, any_length: bool = False, whole: Collection[int] = ()
    ) -> list[Any]:
        """What is known of arguments, with sizes from an iterator in the place of their own."""
        return [self._known_of(value, sizes, settled, any_length and i not in whole) for i, value in enumerate(values)]

    def _known_of(self, value: Any, sizes: Any, settled: bool, any_length: bool) -> Any:
        if isinstance(value, list):
            likeness = self._likeness(value) if any_length else None
            if likeness is not None:
                length = next(sizes)
                item = self._known_of(value[0], sizes, settled, True) if likeness[1] else UNKNOWN
                return OpenList(item, length) if is_open(length) else [item] * length
            return self._known(value, sizes, settled)
        if type(value) is int or _is_asked(value, settled):
            return next(sizes)
        seen = self._look(value)
        if seen is None:
            return planned_for(value, settled)
        shape = tuple([next(sizes) for _ in seen.shape])
        if seen.strides is None:
            return Layout(shape, seen.dtype, contiguous_strides(shape))
        return Layout(shape, seen.dtype, tuple([next(sizes) for _ in seen.strides]))


def _class_of(sizes: Sequence[Any], family: Family[P] | None) -> tuple[P, list[int]] | None:
    """The plan of the class that sizes are in, and the values of its atoms; None where they are in none."""
    for found in family.classes if family is not None else ():
        atoms = found.atoms(sizes)
        if atoms is not None:
            return found.plan, atoms
    return None


def _counts(values: Sequence[Any]) -> tuple[Any, ...]:
    """How long lists among values are, and those in them."""
    return tuple([(len(value), _counts(value)) for value in values if type(value) is list])


def _shared(each: Sequence[Hashable]) -> Hashable:
    """What elements have in common that have these, of which some may be missing; None for nothing."""
    found = set(each)
    if len(found) > 1:
        found.discard(_MISSING)
    return found.pop() if len(found) == 1 else None


def _common(seen: SeenTensor) -> Hashable:
    """What tensors that differ in sizes at most have in common."""
    return seen.others, seen.dtype, len(seen.shape), seen.strides is None


def _is_asked(value: Any, settled: bool) -> bool:
    """Whether a value is a float that has to be known, and may be open."""
    return settled and isinstance(value, float) and is_unasked(value, settled=False)

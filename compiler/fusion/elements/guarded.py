"""What follows from the guards of an element: where it can be at all, and which of several it then is.

    %y = cat([%x[1:], %x[:1]])      at i: %x at i + 1, where 0 <= i < 7, else %x at i - 7
    %z = cat([%y[1:], %y[:1]])      at i: where 0 <= i < 7, %y at i + 1: %x at i + 2, where 0 <= i < 6, else at i - 6
                                          else %y at i - 7, which is 0:  %x at i - 6

So what is put together again and again has as many parts as there are places, not twice as many with each step. Nothing
is asked of open sizes here: what would be decided of them would hold for fewer sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...kernel_ir.index import AxisAtom, Index, Quotient, Remainder, axis
from ...kernel_ir.kernel import Condition
from ...types.open_sizes import is_open

FEW_GUARDS = 3
"""That stand in a kernel as they were asked for; more are brought together, one for each axis, lest places have as many
guards as nodes were passed on the way to them."""
Positions = dict[Any, int | tuple[int, int]]
"""Axes by name, quotients and remainders."""


def positions_left(guards: Iterable[Condition], sizes: Mapping[str, int]) -> Positions:
    """The axes' sizes, or within guards the least and greatest positions that are left; so, too, for quotients and
    remainders of which guards speak."""
    left: Positions = {**sizes}
    for guard in guards:
        terms = guard.index.terms
        if len(terms) != 1:
            continue
        ((times, atom),) = terms
        ends = guard.low - guard.index.constant, guard.high - 1 - guard.index.constant
        if isinstance(atom, AxisAtom):
            found = left[atom.name]
            low, high = found if isinstance(found, tuple) else (0, found - 1)
            if times == 1:
                left[atom.name] = (max(low, ends[0]), min(high, ends[1]))
            elif not is_open([times, low, high, *ends]):
                first, last = _between(ends, times)
                left[atom.name] = (max(low, first), min(high, last))
        elif isinstance(atom, Quotient | Remainder) and not is_open([times, atom.divisor, *ends]):
            first, last = _between(ends, times)
            known = left.get(atom)
            left[atom] = (max(first, known[0]), min(last, known[1])) if isinstance(known, tuple) else (first, last)
    return left


def _between(ends: tuple[int, int], times: int) -> tuple[int, int]:
    """The least and greatest number of which a multiple lies between two ends."""
    low, high = ends if times > 0 else (-ends[1], -ends[0])
    return -(-low // abs(times)), high // abs(times)


def decided(index: Index, low: int | None, high: int | None, left: Positions) -> bool | None:
    """Whether an index lies in a half-open range, of which an end may be missing; None where it depends."""
    least, greatest = index.range(left)
    if (low is None or low <= least) and (high is None or greatest < high):
        return True
    if (low is not None and greatest < low) or (high is not None and least >= high):
        return False
    return None


def is_told(sizes: Mapping[str, int], guards: Sequence[Condition], numbers: Sequence[object]) -> bool:
    """Whether all that guards speak of are numbers, none of them open."""
    return not (
        is_open(list(sizes.values()))
        or is_open(list(numbers))
        or any(is_open([guard.low, guard.high, guard.index.constant]) for guard in guards)
    )


def brought_together(guards: Sequence[Condition], sizes: Mapping[str, int], left: Positions) -> tuple[Condition, ...]:
    """The guards with one for each axis, and without those that follow from the others."""
    if len(guards) <= FEW_GUARDS:
        return tuple(guards)
    kept = []
    for name, size in sizes.items():
        found = left[name]
        if isinstance(found, tuple) and found != (0, size - 1):
            kept.append(Condition(axis(name), found[0], found[1] + 1))
    around: Positions = {name: found for name, found in left.items() if isinstance(name, str)}
    for guard in guards:
        terms = guard.index.terms
        is_of_axis = len(terms) == 1 and isinstance(terms[0][1], AxisAtom)
        if not is_of_axis and guard not in kept and decided(guard.index, guard.low, guard.high, around) is None:
            kept.append(guard)
    return tuple(kept)

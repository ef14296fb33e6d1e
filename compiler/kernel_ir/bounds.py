"""Between which ends an index lies where conditions hold, by the sizes of axes and by what the conditions say.

axes i < 8 parallel                     8*i + j//2 where j < 6 lies between 0 and 58
load %x[i + 3] where 0 <= i < 5         3 to 7, in bounds of eight elements
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .index import Atom, AxisAtom, Index, Quotient, Range, Remainder, floored, scaled_range
from .kernel import Condition


def beyond_ends(
    index: Index, conditions: tuple[Condition, ...], sizes: Mapping[str, int], low: int, high: int
) -> Range | None:
    """The range of an index of axes where it may be less than one number or greater than another; None where it is not,
    or the conditions never hold."""
    conditions = _followed(conditions)
    ranges = positions_within(sizes, conditions)
    if ranges is None:
        return None
    found = list(_bounds(index, conditions, ranges))
    if any(low <= least for least, _ in found) and any(greatest <= high for _, greatest in found):
        return None
    return found[-1]


def _followed(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Conditions, and what those of quotients say of the numbers inside: 1 <= i // 3 < 4 of i.

    With one of the remainder it is more: of i % 3 < 2 and i // 3 < 4 follows i < 11.
    """
    found = list(conditions)
    for condition in found:
        match _of_one_atom(condition):
            case (Quotient(inner, divisor), first, last):
                low, high = 0, divisor - 1
                for atom, least, greatest in filter(None, map(_of_one_atom, conditions)):
                    if atom == Remainder(inner, divisor):
                        low, high = max(low, least), min(high, greatest)
                found.append(Condition(inner, divisor * first + low, divisor * last + high + 1))
    return tuple(found)


def _of_one_atom(condition: Condition) -> tuple[Atom, int, int] | None:
    """The atom that a condition speaks of, where it is one, and the least and greatest that it may be."""
    if len(condition.index.terms) != 1 or abs(condition.index.terms[0][0]) != 1:
        return None
    ((coefficient, atom),) = condition.index.terms
    ends = [coefficient * (end - condition.index.constant) for end in (condition.low, condition.high - 1)]
    return atom, min(ends), max(ends)


def _bounds(
    index: Index, conditions: tuple[Condition, ...], ranges: Mapping[str, tuple[int, int]]
) -> Iterator[tuple[float, float]]:
    """Ranges that an index keeps to: what follows from conditions whose own indices are part of it, then from axes."""
    for number, condition in enumerate(conditions):
        factor = _multiple(condition.index, index)
        rest = index - condition.index * factor
        if factor and len(rest.terms) < len(index.terms):
            first, last = scaled_range(factor, condition.low, condition.high - 1)
            for low, high in _bounds(rest, conditions[number + 1 :], ranges):
                yield low + first, high + last
    for gathered in _gathered(index) if conditions else ():
        yield from _bounds(gathered, conditions, ranges)
    least: float = index.constant
    greatest = least
    for coefficient, atom in index.terms:
        low, high = scaled_range(coefficient, *_bounds_of_atom(atom, conditions, ranges))
        least, greatest = least + low, greatest + high
    yield least, greatest


def _gathered(index: Index) -> Iterator[Index]:
    """The same number with multiples back in a quotient, of which conditions speak: 32*c + r//2 is (64*c + r)//2."""
    for term in index.terms:
        times, atom = term
        if isinstance(atom, Quotient):
            taken = [(c, a) for c, a in index.terms if isinstance(a, AxisAtom) and c % times == 0]
            if taken:
                whole = Quotient(
                    atom.index + Index(tuple((c // times * atom.divisor, a) for c, a in taken)), atom.divisor
                )
                rest = tuple(other for other in index.terms if other != term and other not in taken)
                yield Index(((times, whole),)) + Index(rest, index.constant)


def _bounds_of_atom(
    atom: Atom, conditions: tuple[Condition, ...], ranges: Mapping[str, tuple[int, int]]
) -> tuple[float, float]:
    """The range of an atom; a quotient's is that of the number inside, of which conditions may speak."""
    if not isinstance(atom, Quotient) or not conditions:
        return Index(((1, atom),)).range(ranges)
    found = [*_bounds(atom.index, conditions, ranges)]
    least, greatest = max(low for low, _ in found), min(high for _, high in found)
    return floored(least, atom.divisor), floored(greatest, atom.divisor)


def _multiple(part: Index, index: Index) -> int:
    """How many times a part is in an index, going by its first term; 0 where it is not."""
    if not part.terms:
        return 0
    coefficient, atom = part.terms[0]
    found = next((c for c, other in index.terms if other == atom), 0)
    return found // coefficient if found % coefficient == 0 else 0


def positions_within(sizes: Mapping[str, int], conditions: tuple[Condition, ...]) -> dict[str, tuple[int, int]] | None:
    """The positions along each axis that conditions leave, where they speak of one axis each; None for no positions."""
    ranges = {name: (0, size - 1) for name, size in sizes.items()}
    for condition in conditions:
        if not condition.index.terms and not condition.low <= condition.index.constant < condition.high:
            return None
        match _of_one_atom(condition):
            case (AxisAtom(name), first, last):
                low, high = ranges[name]
                ranges[name] = (max(low, first), min(high, last))
    return ranges if all(low <= high for low, high in ranges.values()) else None

"""Integer expressions over the axes of a kernel: where an element is read or written, and which one it is.

    8*i + j//2 + 3*%t        an Index: terms, each a coefficient and an atom, and a constant

An atom is an axis, a value of the kernel body (a loaded index, as for an embedding), or the quotient or remainder of
an index by a positive number, which reshaping leaves behind. Indices are kept in a normal form, so equal ones are
equal objects by value; `//` and `%` by a number simplify by the ranges of the axes, which they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any, TypeAlias, cast

from ...lang.light_dataclasses import dataclass, field
from ..types.open_sizes import common_divisor


@dataclass(frozen=True, slots=True)
class AxisAtom:
    """The position along an axis: 0 ≤ i < its size."""

    name: str


@dataclass(frozen=True, slots=True)
class ValueAtom:
    """An integer value of the kernel's body."""

    name: str


@dataclass(frozen=True, slots=True)
class Quotient:
    """`index // divisor`, rounded down."""

    index: Index
    divisor: int


@dataclass(frozen=True, slots=True)
class Remainder:
    """`index % divisor`, never negative."""

    index: Index
    divisor: int


Atom: TypeAlias = AxisAtom | ValueAtom | Quotient | Remainder
SizeValues: TypeAlias = Mapping[Any, int] | Mapping[Any, int | tuple[float, float]]
"""Axes by name → their sizes, or the least and greatest position that is asked for; of quotients and remainders between
what numbers they are known to lie."""
Range: TypeAlias = tuple[float, float]
"""Least and greatest value, both possible; infinite where nobody knows."""


@dataclass(frozen=True, slots=True)
class Index:
    """`sum(coefficient * atom) + constant`. Terms have distinct atoms and no zero coefficients, in a fixed order."""

    terms: tuple[tuple[int, Atom], ...] = ()
    constant: int = 0
    _hash: int = field(default=0, repr=False, compare=False)
    """Kept once it was asked for: indices are looked up at each element, and hold others in quotients."""

    def __hash__(self) -> int:
        found = self._hash
        if not found:
            found = hash((self.terms, self.constant))
            object.__setattr__(self, "_hash", found)
        return found

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other)
        return _collected([*self.terms, *other.terms], self.constant + other.constant)

    def __mul__(self, factor: int) -> Index:
        if factor == 0:
            return Index()
        return Index(tuple((factor * c, atom) for c, atom in self.terms), factor * self.constant)

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Index | int) -> Index:
        return self + (-other)

    def divided(self, divisor: int, sizes: SizeValues) -> Index:
        """`self // divisor` for a positive divisor: what is a multiple of it is taken out."""
        if divisor == 1:
            return self
        whole, rest = self._split(divisor)
        quotient = _only_quotient(rest, divisor, sizes)
        if quotient is not None:
            return whole + quotient
        inner = _of_remainder(rest, divisor)
        if inner is not None:
            return whole + inner.index.divided(divisor, sizes).modulo(inner.divisor // divisor, sizes)
        coarse = _coarse(rest, divisor, sizes)
        if coarse is not None:
            unit, units, _ = coarse
            return whole + units.divided(divisor // unit, sizes)
        shared = common_divisor(divisor, *(c for c, _ in rest.terms))
        if shared > 1:
            rest = Index(tuple((c // shared, atom) for c, atom in rest.terms), rest.constant // shared)
        return whole + _collected([(1, Quotient(rest, divisor // shared))], 0)

    def modulo(self, divisor: int, sizes: SizeValues) -> Index:
        """`self % divisor` for a positive divisor: multiples of it drop out."""
        if divisor == 1:
            return Index()
        _, rest = self._split(divisor)
        quotient = _only_quotient(rest, divisor, sizes)
        if quotient is not None:
            return rest - quotient * divisor
        inner = _of_remainder(rest, divisor)
        if inner is not None:
            return inner.index.modulo(divisor, sizes)
        coarse = _coarse(rest, divisor, sizes)
        if coarse is not None:
            unit, units, fine = coarse
            return units.modulo(divisor // unit, sizes) * unit + fine
        return _collected([(1, Remainder(rest, divisor))], 0)

    def _split(self, divisor: int) -> tuple[Index, Index]:
        """(q, r) with self = divisor * q + r, where r keeps what is no multiple of the divisor."""
        whole = [(c // divisor, atom) for c, atom in self.terms if c % divisor == 0]
        rest = [(c, atom) for c, atom in self.terms if c % divisor]
        return (
            Index(tuple(whole), self.constant // divisor),
            Index(tuple(rest), self.constant % divisor),
        )

    def range(self, sizes: SizeValues) -> Range:
        """Bounds, from the sizes of the axes."""
        low: float = self.constant
        high = low
        for coefficient, atom in self.terms:
            least, greatest = scaled_range(coefficient, *_atom_range(atom, sizes))
            low, high = low + least, high + greatest
        return low, high

    @property
    def axes(self) -> frozenset[str]:
        """The axes on which it depends directly, not through values."""
        return frozenset(atom.name for atom in self.atoms() if isinstance(atom, AxisAtom))

    @property
    def values(self) -> frozenset[str]:
        """The values of the body that it uses."""
        return frozenset(atom.name for atom in self.atoms() if isinstance(atom, ValueAtom))

    def atoms(self) -> Iterator[Atom]:
        """Every atom, those inside quotients and remainders too."""
        pending: list[Atom] = [atom for _, atom in self.terms]
        while pending:
            atom = pending.pop()
            yield atom
            if isinstance(atom, Quotient | Remainder):
                pending += [inner for _, inner in atom.index.terms]

    def coefficient(self, name: str) -> int:
        """That of an axis; 0 where it does not occur as a term."""
        return next((c for c, atom in self.terms if atom == AxisAtom(name)), 0)

    def is_affine(self) -> bool:
        """Whether there are axes only, no values, quotients or remainders."""
        return all(isinstance(atom, AxisAtom) for _, atom in self.terms)

    def substitute(self, replace: Callable[[Atom], Index | None], sizes: SizeValues) -> Index:
        """The index with atoms replaced; None leaves an atom as it is. `sizes` are those of the new axes.

        Quotients nest as deep as reshapes were chained and did not cancel, so this recurses.
        """
        result = Index((), self.constant)
        for coefficient, atom in self.terms:
            result += _replaced(atom, replace, sizes) * coefficient
        return result


def axis(name: str) -> Index:
    """The position along an axis."""
    return Index(((1, AxisAtom(name)),))


def value(name: str) -> Index:
    """An integer value of the body."""
    return Index(((1, ValueAtom(name)),))


def constant(number: int) -> Index:
    return Index((), number)


def _collected(terms: list[tuple[int, Atom]], number: int) -> Index:
    totals: dict[Atom, int] = {}
    for coefficient, atom in terms:
        totals[atom] = totals.get(atom, 0) + coefficient
    kept = [(c, atom) for atom, c in totals.items() if c]
    rejoined = _rejoined(kept, number)
    return rejoined or Index(tuple(sorted(kept, key=lambda term: repr(term[1]))), number)


def _rejoined(terms: list[tuple[int, Atom]], number: int) -> Index | None:
    """The sum with two of its terms as one: `i % 4 + 4*(i//4)` is i, and `i % 4 + 4*(i//4 % 3)` is `i % 12`.

    None where no two are parts of one index.
    """
    for coefficient, low in terms:
        if not isinstance(low, Remainder):
            continue
        quotient = Quotient(low.index, low.divisor)
        for times, high in terms:
            if times != coefficient * low.divisor:
                continue
            if high == quotient:
                whole = low.index
            elif isinstance(high, Remainder) and high.index == Index(((1, quotient),)):
                whole = Index(((1, Remainder(low.index, low.divisor * high.divisor)),))
            else:
                continue
            rest = [term for term in terms if term[1] not in (low, high)]
            return _collected([*rest, *(whole * coefficient).terms], number + coefficient * whole.constant)
    return None


def _coarse(index: Index, divisor: int, sizes: SizeValues) -> tuple[int, Index, Index] | None:
    """(unit, units, fine): the index is `unit * units + fine` with 0 <= fine < unit, a unit that divides the divisor.

    The one with the largest unit; None where only 1 is one.
    """
    for unit in sorted({common_divisor(divisor, c) for c, _ in index.terms} - {1}, reverse=True):
        fine = Index(tuple((c, a) for c, a in index.terms if c % unit), index.constant % unit)
        low, high = fine.range(sizes)
        if low >= 0 and high < unit:
            units = tuple((c // unit, a) for c, a in index.terms if c % unit == 0)
            return unit, Index(units, index.constant // unit), fine
    return None


def _of_remainder(index: Index, divisor: int) -> Remainder | None:
    """The remainder that an index is, of a number that the divisor divides; None where it is anything else."""
    if len(index.terms) != 1 or index.constant or index.terms[0][0] != 1:
        return None
    atom = index.terms[0][1]
    return atom if isinstance(atom, Remainder) and atom.divisor % divisor == 0 else None


def _only_quotient(index: Index, divisor: int, sizes: SizeValues) -> int | None:
    """The quotient that all values of an index have; None where there are several."""
    low, high = index.range(sizes)
    if -inf in (low, high) or inf in (low, high) or low // divisor != high // divisor:
        return None
    return cast(int, low // divisor)


def _atom_range(atom: Atom, sizes: SizeValues) -> Range:
    if isinstance(atom, AxisAtom):
        found = sizes[atom.name]
        return found if isinstance(found, tuple) else (0, max(found - 1, 0))
    if isinstance(atom, ValueAtom):
        return -inf, inf
    low, high = atom.index.range(sizes)
    if isinstance(atom, Quotient):
        low, high = floored(low, atom.divisor), floored(high, atom.divisor)
    else:
        low, high = 0, min(high, atom.divisor - 1) if low >= 0 else atom.divisor - 1
    known = sizes.get(atom)
    return (max(low, known[0]), min(high, known[1])) if isinstance(known, tuple) else (low, high)


def scaled_range(factor: int, low: float, high: float) -> Range:
    """A range, multiplied. Only the factor is asked for its sign: that the ends differ is no guard of open sizes."""
    return (factor * low, factor * high) if factor > 0 else (factor * high, factor * low)


def floored(end: float, divisor: int) -> float:
    """Python's inf // n is no number."""
    return end if end in (-inf, inf) else end // divisor


def _replaced(atom: Atom, replace: Callable[[Atom], Index | None], sizes: SizeValues) -> Index:
    found = replace(atom)
    if found is not None:
        return found
    if isinstance(atom, Quotient):
        return atom.index.substitute(replace, sizes).divided(atom.divisor, sizes)
    if isinstance(atom, Remainder):
        return atom.index.substitute(replace, sizes).modulo(atom.divisor, sizes)
    return Index(((1, atom),))

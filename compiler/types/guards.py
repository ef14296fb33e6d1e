"""What was asked of open sizes, as polynomials that compare with 0: a question is answered by what is known, or noted.

n * 8 >= 0, given 64            yes: n is at least LEAST, so that nothing is noted
n - 4096 >= 0                   no: n <= 4095 from now on, a bound of n
n - 8 * (n // 8) == 0           yes, a guard: with other sizes it may not be so
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf, isinf
from typing import Any, Literal, TypeAlias

from ...lang.light_dataclasses import dataclass
from .open_floats import Expression, FloatDecision, HoldsOfFloats, evaluated
from .polynomials import (
    Monomial,
    Polynomial,
    constant_polynomial,
    divided_by,
    evaluate,
    is_constant_polynomial,
    ordered,
    polynomial_sum,
    scaled,
)

Relation = Literal[">=", "==", "!="]
LEAST = 2
"""Of an open size: what is smaller, is broadcast or empty, is planned for as it is."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What was found of a polynomial, as it compares with 0."""

    polynomial: Polynomial
    relation: Relation


@dataclass(frozen=True, slots=True)
class SizeQuotient:
    """An atom that is no symbol: one polynomial by another, rounded down."""

    dividend: Polynomial
    divisor: Polynomial


@dataclass(frozen=True, slots=True)
class SizePower:
    """An atom that is no symbol: the least power of two that is not below a polynomial."""

    above: Polynomial


@dataclass(frozen=True, slots=True)
class LesserSize:
    """An atom that is no symbol: the lesser of two polynomials."""

    one: Polynomial
    other: Polynomial


@dataclass(frozen=True, slots=True)
class GreaterSize:
    """An atom that is no symbol: the greater of two polynomials."""

    one: Polynomial
    other: Polynomial


MadeSize: TypeAlias = SizeQuotient | SizePower | LesserSize | GreaterSize


class Atoms:
    """What polynomials are of, and what was asked of them. A symbol is an atom, and so is what no polynomial is.

    `given` are the sizes at hand, by which questions are answered.
    """

    def __init__(self, given: Sequence[int | float]) -> None:
        self.count = len(given)
        self.made: list[MadeSize] = []
        self._atoms: dict[MadeSize, int] = {}
        self._begin(given, [(-inf, inf) if type(number) is float else (LEAST, inf) for number in given])

    @property
    def given(self) -> list[Any]:
        """The sizes at hand."""
        return self._values[: self.count]

    def _begin(self, given: Sequence[Any], bounds: Sequence[tuple[float, float]]) -> None:
        self.bounds = list(bounds)
        self.guards: dict[Guard, None] = {}
        self.decisions: dict[HoldsOfFloats, None] = {}
        self._values = list(given)
        self._evaluated: dict[Polynomial, int] = {}
        self._bounds_of_made: list[tuple[float, float]] = []

    @property
    def noted(self) -> Guards:
        """What holds of the sizes at hand, and was asked."""
        return Guards(tuple(self.bounds), tuple(self.guards), tuple(self.decisions))

    def value_of(self, expression: Expression) -> Any:
        """Of floats, for the numbers at hand; nothing is noted."""
        return evaluated(expression, self._values)

    def decided(self, relation: str, left: Expression, right: Expression) -> bool:
        """How expressions of floats compare for the numbers at hand; noted."""
        found = FloatDecision(relation, left, right, True)
        if not found.holds(self._values):
            found = FloatDecision(relation, left, right, False)
        self.decisions[found] = None
        return found.outcome

    def found_to_hold(self, decision: HoldsOfFloats) -> bool:
        """Whether something holds for the numbers at hand; noted if it does."""
        if not decision.holds(self._values):
            return False
        self.decisions[decision] = None
        return True

    @contextmanager
    def for_others(self, given: Sequence[int], guards: Guards) -> Iterator[None]:
        """Have questions answered by other sizes, for which `guards` hold, and noted apart."""
        before = self.bounds, self.guards, self.decisions, self._values, self._evaluated
        self._begin(given, guards.bounds)
        try:
            yield
        finally:
            self.bounds, self.guards, self.decisions, self._values, self._evaluated = before
            self._bounds_of_made = []

    def value(self, polynomial: Polynomial) -> int:
        """For the sizes at hand; nothing is noted."""
        found = self._evaluated.get(polynomial)
        if found is None:
            for made in self.made[len(self._values) - self.count :]:
                self._values.append(value_of_atom(made, self._values))
            found = self._evaluated[polynomial] = evaluate(polynomial, self._values)
        return found

    def quotient(self, dividend: Polynomial, divisor: Polynomial) -> Polynomial:
        """Rounded down; of what the divisor divides term by term, nothing is left to round."""
        ((monomial, factor),) = divisor if len(divisor) == 1 else (((), 0),)
        whole: dict[Monomial, int] = {}
        rest: list[tuple[Monomial, int]] = []
        for term, coefficient in dividend:
            left = divided_by(term, monomial)
            if factor and left is not None and coefficient % factor == 0:
                whole[left] = coefficient // factor
            else:
                rest.append((term, coefficient))
        if not rest:
            return ordered(whole)
        rounded = self._rounded(tuple(rest), divisor)
        if rounded is None:
            rounded = (((self._atom(SizeQuotient(tuple(rest), divisor)),), 1),)
        return polynomial_sum(ordered(whole), rounded)

    def _rounded(self, rest: Polynomial, divisor: Polynomial) -> Polynomial | None:
        """What is left over, divided, where that is sure to be 0, -1, or a number by a number."""
        for found in (0, -1):
            above = polynomial_sum(rest, scaled(divisor, -found))
            below = polynomial_sum(scaled(rest, -1), scaled(divisor, found + 1))
            if self._bounds_of(above)[0] >= 0 and self._bounds_of(below)[0] >= 1:
                return constant_polynomial(found)
        if is_constant_polynomial(rest) and is_constant_polynomial(divisor):
            return constant_polynomial(rest[0][1] // divisor[0][1])
        return None

    def least(self, one: Polynomial, other: Polynomial) -> Polynomial:
        """The lesser of the two."""
        if self._is_sure(polynomial_sum(other, scaled(one, -1))):
            return one
        if self._is_sure(polynomial_sum(one, scaled(other, -1))):
            return other
        return (((self._atom(LesserSize(one, other)),), 1),)

    def greatest(self, one: Polynomial, other: Polynomial) -> Polynomial:
        """The greater of the two."""
        if self._is_sure(polynomial_sum(other, scaled(one, -1))):
            return other
        if self._is_sure(polynomial_sum(one, scaled(other, -1))):
            return one
        return (((self._atom(GreaterSize(one, other)),), 1),)

    def _is_sure(self, polynomial: Polynomial) -> bool:
        """Whether it is at least 0, whatever the sizes are."""
        return self._bounds_of(polynomial)[0] >= 0

    def power(self, above: Polynomial) -> Polynomial:
        """The least power of two that is not below."""
        return (((self._atom(SizePower(above)),), 1),)

    def _atom(self, made: MadeSize) -> int:
        if made not in self._atoms:
            self._atoms[made] = self.count + len(self.made)
            self.made.append(made)
        return self._atoms[made]

    def is_at_least_zero(self, polynomial: Polynomial) -> bool:
        """Whether it is, for the sizes at hand; noted, where it is not so for all."""
        low, high = self._bounds_of(polynomial)
        if low >= 0:
            return True
        if high < 0:
            return False
        if self.value(polynomial) >= 0:
            self._note(polynomial, ">=")
            return True
        self._note(polynomial_sum(scaled(polynomial, -1), constant_polynomial(-1)), ">=")
        return False

    def is_zero(self, polynomial: Polynomial) -> bool:
        """As `is_at_least_zero`."""
        if not polynomial:
            return True
        low, high = self._bounds_of(polynomial)
        if low > 0 or high < 0:
            return False
        if self.value(polynomial) == 0:
            self._note(polynomial, "==")
            return True
        self._note(polynomial, "!=")
        return False

    def _note(self, polynomial: Polynomial, relation: Relation) -> None:
        """A comparison of a single symbol with a number is a bound, which later questions are answered by."""
        terms, constant = dict(polynomial), 0
        constant = terms.pop((), 0)
        ((monomial, factor),) = terms.items() if len(terms) == 1 else (((), 0),)
        if len(monomial) != 1 or monomial[0] >= self.count:
            self.guards[Guard(polynomial, relation)] = None
            return
        low, high = self.bounds[monomial[0]]
        if relation == "!=":
            if constant % factor == 0:
                self.guards[Guard(polynomial, relation)] = None
            return
        if relation == "==":
            low = high = -constant // factor
        elif factor > 0:
            low = max(low, -(constant // factor))
        else:
            high = min(high, constant // -factor)
        self.bounds[monomial[0]] = low, high
        self._bounds_of_made = []

    def _bounds_of(self, polynomial: Polynomial) -> tuple[float, float]:
        low = high = 0.0
        for monomial, coefficient in polynomial:
            ends = [float(coefficient)]
            for atom in monomial:
                ends = [_product(a, b) for a in ends for b in self._bounds_of_atom(atom)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _bounds_of_atom(self, atom: int) -> tuple[float, float]:
        if atom < self.count:
            return self.bounds[atom]
        # What is made is of what was made before it.
        found = self._bounds_of_made
        while len(found) <= atom - self.count:
            found.append(self._bounds_by_parts(self.made[len(found)]))
        return found[atom - self.count]

    def _bounds_by_parts(self, made: MadeSize) -> tuple[float, float]:
        if isinstance(made, LesserSize | GreaterSize):
            chosen = min if isinstance(made, LesserSize) else max
            pairs = [self._bounds_of(made.one), self._bounds_of(made.other)]
            return chosen(low for low, _ in pairs), chosen(high for _, high in pairs)
        if isinstance(made, SizePower):
            low, high = self._bounds_of(made.above)
            return max(low, 1), max(2 * high, 1)
        low, high = self._bounds_of(made.dividend)
        least, most = self._bounds_of(made.divisor)
        if least < 1:
            return -inf, inf
        ends = [_floored(a, b) for a in (low, high) for b in (least, most)]
        return min(ends), max(ends)


@dataclass(frozen=True, slots=True)
class Guards:
    """What sizes have to fulfil: between which numbers each lies, and how polynomials compare with 0; and what floats
    decide."""

    bounds: tuple[tuple[float, float], ...]
    guards: tuple[Guard, ...]
    decisions: tuple[HoldsOfFloats, ...] = ()

    def hold(self, values: Sequence[int]) -> bool:
        """Whether they do, for the values of all atoms."""
        if not all(low <= value <= high for value, (low, high) in zip(values, self.bounds, strict=False)):
            return False
        if not all(_holds(guard.relation, evaluate(guard.polynomial, values)) for guard in self.guards):
            return False
        return all(decision.holds(values) for decision in self.decisions)

    @property
    def are_exact(self) -> bool:
        """Whether they leave each size no more than a few choices."""
        known = {atom for atom, (low, high) in enumerate(self.bounds) if low == high}
        known.update(*(decision.pinned for decision in self.decisions))
        equal = [frozenset(a for term, _ in g.polynomial for a in term) for g in self.guards if g.relation == "=="]
        for _ in equal:
            known.update(*(atoms for atoms in equal if len(atoms - known) == 1))
        return known.issuperset(range(len(self.bounds)))


def values_of_atoms(atoms: Atoms, given: Sequence[int]) -> list[int]:
    """The value of each atom, given those of the symbols."""
    values = list(given)
    for made in atoms.made:
        values.append(value_of_atom(made, values))
    return values


def value_of_atom(made: MadeSize, values: Sequence[int]) -> int:
    """By nothing, nothing is divided: that no divisor is 0 is among the guards."""
    if isinstance(made, SizePower):
        return 1 << max(evaluate(made.above, values) - 1, 0).bit_length()
    if isinstance(made, LesserSize):
        return min(evaluate(made.one, values), evaluate(made.other, values))
    if isinstance(made, GreaterSize):
        return max(evaluate(made.one, values), evaluate(made.other, values))
    divisor = evaluate(made.divisor, values)
    return evaluate(made.dividend, values) // divisor if divisor else 0


def _holds(relation: Relation, value: int) -> bool:
    if relation == ">=":
        return value >= 0
    # Numbers that torch leaves open give what is no bool of Python's.
    return bool(value == 0) == (relation == "==")


def _product(a: float, b: float) -> float:
    """Nothing, however often, is nothing."""
    return a * b if a and b else 0.0


def _floored(a: float, b: float) -> float:
    if isinf(b):
        return 0.0 if a >= 0 else -1.0
    return a if isinf(a) else float(a // b)

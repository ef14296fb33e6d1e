"""Sizes that are open: integers of which is noted what was asked of them, so that what was made holds for others too.

    n = 64, open            n * 1024 // 1024        n: nothing is asked
                            n % 8 == 0              True, and noted: what follows holds where 8 divides n
                            min(n, 4096)            n, and noted: where n <= 4096
                            f"{n}"                  "64", and noted: where n is 64

What works on integers works on these unawares: it computes with polynomials, and each decision becomes a guard. Where
only a number of Python's own will do, for a text, a range, an array, the guard is that the size is the one at hand; so
what nobody thought of makes a plan narrower, never wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import gcd, inf, isinf
from typing import Any, Literal, TypeAlias, cast

from ...lang.light_dataclasses import dataclass

Monomial: TypeAlias = tuple[int, ...]
"""Atoms that are multiplied, in order."""
Polynomial: TypeAlias = tuple[tuple[Monomial, int], ...]
"""Monomials with their coefficients, in order, none of them zero."""
Relation = Literal[">=", "==", "!="]
LEAST = 4
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


Made: TypeAlias = SizeQuotient | SizePower | LesserSize


class Symbols:
    """Open sizes, and what was asked of them. A symbol is an atom, and so is what is made of polynomials and is none.

    `given` are the sizes at hand, by which questions are answered.
    """

    def __init__(self, given: Sequence[int]) -> None:
        self.count = len(given)
        self.made: list[Made] = []
        self._atoms: dict[Made, int] = {}
        self._sizes: dict[Polynomial, OpenSize] = {}
        self.are_named = False
        self._begin(given, [(LEAST, inf)] * len(given))

    def _begin(self, given: Sequence[int], bounds: Sequence[tuple[float, float]]) -> None:
        self.bounds = list(bounds)
        self.guards: dict[Guard, None] = {}
        self._values = list(given)
        self._evaluated: dict[Polynomial, int] = {}

    @property
    def sizes(self) -> list[int]:
        """The symbols, as sizes."""
        return [self.size((((i,), 1),)) for i in range(self.count)]

    @property
    def noted(self) -> Guards:
        """What holds of the sizes at hand, and was asked."""
        return Guards(tuple(self.bounds), tuple(self.guards))

    @contextmanager
    def for_others(self, given: Sequence[int], guards: Guards) -> Iterator[None]:
        """Have questions answered by other sizes, for which `guards` hold, and noted apart."""
        before = self.bounds, self.guards, self._values, self._evaluated
        self._begin(given, guards.bounds)
        try:
            yield
        finally:
            self.bounds, self.guards, self._values, self._evaluated = before

    @contextmanager
    def named(self) -> Iterator[None]:
        """Have texts name open sizes where a number would be noted: texts that are compared, and run by nobody."""
        self.are_named = True
        try:
            yield
        finally:
            self.are_named = False

    def size(self, polynomial: Polynomial) -> int:
        """What a polynomial is: a number where it has no atoms, else an OpenSize, always the same."""
        if not polynomial:
            return 0
        if len(polynomial) == 1 and not polynomial[0][0]:
            return polynomial[0][1]
        found = self._sizes.get(polynomial)
        if found is None:
            found = self._sizes[polynomial] = OpenSize(self, polynomial)
        return cast(int, found)

    def value(self, polynomial: Polynomial) -> int:
        """For the sizes at hand; nothing is noted."""
        found = self._evaluated.get(polynomial)
        if found is None:
            for made in self.made[len(self._values) - self.count :]:
                self._values.append(_value(made, self._values))
            found = self._evaluated[polynomial] = evaluate(polynomial, self._values)
        return found

    def quotient(self, dividend: Polynomial, divisor: Polynomial) -> Polynomial:
        """Rounded down; of what the divisor divides term by term, nothing is left to round."""
        ((monomial, factor),) = divisor if len(divisor) == 1 else (((), 0),)
        whole: dict[Monomial, int] = {}
        rest: list[tuple[Monomial, int]] = []
        for term, coefficient in dividend:
            left = _without(term, monomial)
            if factor and left is not None and coefficient % factor == 0:
                whole[left] = coefficient // factor
            else:
                rest.append((term, coefficient))
        if not rest:
            return _ordered(whole)
        rounded = self._rounded(tuple(rest), divisor)
        if rounded is None:
            rounded = (((self._atom(SizeQuotient(tuple(rest), divisor)),), 1),)
        return _sum(_ordered(whole), rounded)

    def _rounded(self, rest: Polynomial, divisor: Polynomial) -> Polynomial | None:
        """What is left over, divided, where that is sure to be 0, -1, or a number by a number."""
        for found in (0, -1):
            above = _sum(rest, _scaled(divisor, -found))
            below = _sum(_scaled(rest, -1), _scaled(divisor, found + 1))
            if self._bounds_of(above)[0] >= 0 and self._bounds_of(below)[0] >= 1:
                return (((), found),) if found else ()
        if _is_constant(rest) and _is_constant(divisor):
            return _constant(rest[0][1] // divisor[0][1])
        return None

    def least(self, one: Polynomial, other: Polynomial) -> Polynomial:
        """The lesser of the two."""
        return (((self._atom(LesserSize(one, other)),), 1),)

    def power(self, above: Polynomial) -> Polynomial:
        """The least power of two that is not below."""
        return (((self._atom(SizePower(above)),), 1),)

    def _atom(self, made: Made) -> int:
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
        self._note(_sum(_scaled(polynomial, -1), (((), -1),)), ">=")
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
        made = self.made[atom - self.count]
        if isinstance(made, LesserSize):
            pairs = [self._bounds_of(made.one), self._bounds_of(made.other)]
            return min(low for low, _ in pairs), min(high for _, high in pairs)
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
    """What sizes have to fulfil: between which numbers each lies, and how polynomials compare with 0."""

    bounds: tuple[tuple[float, float], ...]
    guards: tuple[Guard, ...]

    def hold(self, values: Sequence[int]) -> bool:
        """Whether they do, for the values of all atoms."""
        if not all(low <= value <= high for value, (low, high) in zip(values, self.bounds, strict=False)):
            return False
        return all(_holds(guard.relation, evaluate(guard.polynomial, values)) for guard in self.guards)

    @property
    def are_exact(self) -> bool:
        """Whether they leave one choice for each size."""
        return all(low == high for low, high in self.bounds)


def values_of_atoms(symbols: Symbols, given: Sequence[int]) -> list[int]:
    """The value of each atom, given those of the symbols."""
    values = list(given)
    for made in symbols.made:
        values.append(_value(made, values))
    return values


def _value(made: Made, values: Sequence[int]) -> int:
    """By nothing, nothing is divided: that no divisor is 0 is among the guards."""
    if isinstance(made, SizePower):
        return 1 << max(evaluate(made.above, values) - 1, 0).bit_length()
    if isinstance(made, LesserSize):
        return min(evaluate(made.one, values), evaluate(made.other, values))
    divisor = evaluate(made.divisor, values)
    return evaluate(made.dividend, values) // divisor if divisor else 0


def evaluate(polynomial: Polynomial, values: Sequence[int]) -> int:
    """What a polynomial comes to, given a value for each atom."""
    total = 0
    for monomial, coefficient in polynomial:
        for atom in monomial:
            coefficient *= values[atom]
        total += coefficient
    return total


def _holds(relation: Relation, value: int) -> bool:
    if relation == ">=":
        return value >= 0
    return (value == 0) == (relation == "==")


def _product(a: float, b: float) -> float:
    """Nothing, however often, is nothing."""
    return a * b if a and b else 0.0


def _floored(a: float, b: float) -> float:
    if isinf(b):
        return 0.0 if a >= 0 else -1.0
    return a if isinf(a) else float(a // b)


def _constant(number: int) -> Polynomial:
    return (((), number),) if number else ()


def _is_constant(polynomial: Polynomial) -> bool:
    return len(polynomial) == 1 and not polynomial[0][0]


def _without(term: Monomial, factor: Monomial) -> Monomial | None:
    """A monomial divided by another; None where that is no divisor of it."""
    left = list(term)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _ordered(terms: dict[Monomial, int]) -> Polynomial:
    return tuple(sorted((term, c) for term, c in terms.items() if c))


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    terms = dict(a)
    for term, coefficient in b:
        terms[term] = terms.get(term, 0) + coefficient
    return _ordered(terms)


def _scaled(a: Polynomial, factor: int) -> Polynomial:
    return tuple((term, factor * c) for term, c in a) if factor else ()


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    terms: dict[Monomial, int] = {}
    for left, c in a:
        for right, d in b:
            term = tuple(sorted((*left, *right)))
            terms[term] = terms.get(term, 0) + c * d
    return _ordered(terms)


class OpenSize:
    """A polynomial that counts as an int, of which each question is noted."""

    __slots__ = ("polynomial", "symbols")

    def __init__(self, symbols: Symbols, polynomial: Polynomial) -> None:
        self.symbols = symbols
        self.polynomial = polynomial

    @property  # type: ignore[misc]
    def __class__(self) -> type[int]:  # type: ignore[override]
        """What asks whether it is an int is told so; what asks for a number of C's gets it by `__index__`."""
        return int

    @property
    def at_hand(self) -> int:
        """Its value for the sizes at hand; nothing is noted, so that no result may depend on it."""
        return self.symbols.value(self.polynomial)

    def __index__(self) -> int:
        """The number, which it has to be from now on."""
        found = self.at_hand
        self.symbols.is_zero(_sum(self.polynomial, (((), -found),) if found else ()))
        return found

    __int__ = __trunc__ = __floor__ = __ceil__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __str__(self) -> str:
        return repr(self) if self.symbols.are_named else str(self.__index__())

    def __format__(self, how: str) -> str:
        return repr(self) if self.symbols.are_named else format(self.__index__(), how)

    def __repr__(self) -> str:
        """For those who debug, and to sort by: no number."""
        terms = ("·".join([str(c), *(f"s{atom}" for atom in term)]) for term, c in self.polynomial)
        return f"<{' + '.join(terms)}>"

    def __hash__(self) -> int:
        return hash(self.polynomial)

    def __bool__(self) -> bool:
        return not self.symbols.is_zero(self.polynomial)

    # --- arithmetic ---

    def polynomial_of(self, number: int) -> Polynomial:
        """That of a size beside it, or of a number."""
        found = self._other(number)
        assert found is not None
        return found

    def _other(self, other: object) -> Polynomial | None:
        """What stands for an operand; None where it is no whole number."""
        if type(other) is OpenSize:
            return other.polynomial if other.symbols is self.symbols else None
        if type(other) is int or type(other) is bool:
            return (((), int(other)),) if other else ()
        return None

    def __add__(self, other: Any) -> Any:
        found = self._other(other)
        return self._by_number(other, "__radd__") if found is None else self._size(_sum(self.polynomial, found))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self._size(_scaled(self.polynomial, -1))

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self.symbols.is_at_least_zero(self.polynomial) else -self

    def __sub__(self, other: Any) -> Any:
        found = self._other(other)
        if found is None:
            return self._by_number(other, "__rsub__")
        return self._size(_sum(self.polynomial, _scaled(found, -1)))

    def __rsub__(self, other: Any) -> Any:
        found = self._other(other)
        if found is None:
            return self._by_number(other, "__sub__")
        return self._size(_sum(found, _scaled(self.polynomial, -1)))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, float) and isinf(other):
            return other if self > 0 else other * -1 if self < 0 else other * 0
        found = self._other(other)
        return self._by_number(other, "__rmul__") if found is None else self._size(_times(self.polynomial, found))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        found = self._other(other)
        return self._by_number(other, "__rfloordiv__") if found is None else self._quotient(self.polynomial, found)

    def __rfloordiv__(self, other: Any) -> Any:
        found = self._other(other)
        return self._by_number(other, "__floordiv__") if found is None else self._quotient(found, self.polynomial)

    def __mod__(self, other: Any) -> Any:
        return self._by_number(other, "__rmod__") if self._other(other) is None else self - self // other * other

    def __rmod__(self, other: Any) -> Any:
        return self._by_number(other, "__mod__") if self._other(other) is None else other - other // self * self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def bit_length(self) -> int:
        """How many bits it has is noted, as the powers of two between which it lies."""
        found = abs(self.at_hand).bit_length()
        size: Any = abs(self)
        while not size < 1 << found:
            found += 1
        while found and not size >= 1 << (found - 1):
            found -= 1
        return found

    def __getattr__(self, name: str) -> Any:
        """What only a number of Python's has."""
        if not hasattr(int, name):
            raise AttributeError(name)
        return getattr(self.__index__(), name)

    def __truediv__(self, other: Any) -> Any:
        return self.__index__() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.__index__()

    def __pow__(self, other: Any) -> Any:
        return self * self if other == 2 else self.__index__() ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** self.__index__()

    def _size(self, polynomial: Polynomial) -> Any:
        return self.symbols.size(polynomial)

    def _quotient(self, dividend: Polynomial, divisor: Polynomial) -> Any:
        below: Any = self._size(divisor)
        if not below:
            raise ZeroDivisionError("integer division or modulo by zero")
        if below < 0:
            dividend, divisor = _scaled(dividend, -1), _scaled(divisor, -1)
        return self._size(self.symbols.quotient(dividend, divisor))

    def _by_number(self, other: Any, how: str) -> Any:
        """An operand that is no whole number is given the number; an endless one needs none."""
        if type(other) is OpenSize:
            return getattr(other, how)(self.__index__())
        if isinstance(other, float) and isinf(other) and how in ("__radd__", "__rsub__", "__sub__"):
            return getattr(other, how)(0)
        method = getattr(other, how, None)
        return NotImplemented if method is None else method(self.__index__())

    # --- comparisons ---

    def _compared(self, other: object, sign: int, least: int) -> Any:
        """Whether `sign * (self - other) >= least`."""
        if isinstance(other, float) and isinf(other):
            return (other < 0) == (sign > 0)
        found = self._other(other)
        if found is None:
            return NotImplemented
        difference = _scaled(_sum(self.polynomial, _scaled(found, -1)), sign)
        return self.symbols.is_at_least_zero(_sum(difference, (((), -least),) if least else ()))

    def __lt__(self, other: object) -> Any:
        return self._compared(other, -1, 1)

    def __le__(self, other: object) -> Any:
        return self._compared(other, -1, 0)

    def __gt__(self, other: object) -> Any:
        return self._compared(other, 1, 1)

    def __ge__(self, other: object) -> Any:
        return self._compared(other, 1, 0)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, float):
            return False if not other.is_integer() else self == int(other)
        found = self._other(other)
        if found is None:
            return NotImplemented
        return self.symbols.is_zero(_sum(self.polynomial, _scaled(found, -1)))


def is_open(value: object) -> bool:
    """Whether something is an open size, or a list or tuple with one in it."""
    if type(value) is OpenSize:
        return True
    return isinstance(value, list | tuple) and any(map(is_open, value))


def next_power(number: int) -> int:
    """The least power of two that is not below; 1 for 0."""
    found = _open(number)
    if found is not None:
        return found.symbols.size(found.symbols.power(found.polynomial))
    return 1 << max(number - 1, 0).bit_length()


def least(one: int, other: int) -> int:
    """The lesser of two; of which of them that is, nothing is noted."""
    owner = _open(one) or _open(other)
    if owner is None:
        return min(one, other)
    return owner.symbols.size(owner.symbols.least(owner.polynomial_of(one), owner.polynomial_of(other)))


def common_divisor(*numbers: int) -> int:
    """The greatest number that divides all; of open sizes one that divides them whatever they are."""
    found = 0
    for number in numbers:
        owner = _open(found) or _open(number)
        if owner is None:
            found = gcd(found, number)
        else:
            found = owner.symbols.size(_common(owner.polynomial_of(found), owner.polynomial_of(number)))
    return found


def _open(number: Any) -> OpenSize | None:
    return number if type(number) is OpenSize else None


def _common(a: Polynomial, b: Polynomial) -> Polynomial:
    terms = [*a, *b]
    shared = list(terms[0][0])
    for term, _ in terms:
        shared = list((Counter(shared) & Counter(term)).elements())
    return ((tuple(sorted(shared)), gcd(*(c for _, c in terms))),)


def at_hand(number: int) -> int:
    """What a size is at hand, for choices that no result depends on."""
    found = _open(number)
    return number if found is None else found.at_hand


def whole(number: float) -> int:
    """A number that is one of elements, as an int; an open size as it is."""
    return int(number) if _open(number) is None else cast(int, number)


def closed(value: Any, atoms: Sequence[int]) -> Any:
    """A value with numbers for its open sizes, given one for each atom; lists and tuples are gone through."""
    if type(value) is OpenSize:
        return evaluate(value.polynomial, atoms)
    if type(value) is tuple or type(value) is list:
        return type(value)([closed(item, atoms) for item in value]) if is_open(value) else value
    return value

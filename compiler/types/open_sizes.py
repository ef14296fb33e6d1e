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

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import gcd, isinf
from operator import is_
from typing import Any, cast

from .guards import Atoms
from .open_floats import OpenFloat, evaluated
from .polynomials import (
    Polynomial,
    constant_polynomial,
    evaluate,
    is_constant_polynomial,
    multiplied,
    polynomial_sum,
    scaled,
    shared_factor,
)

MOST_TERMS, MOST_FACTORS = 64, 8
"""Of a polynomial that stays open: one with more of them is the number at hand."""


class Symbols(Atoms):
    """Atoms of which polynomials are had as integers: the open sizes themselves, and what is computed of them."""

    def __init__(self, given: Sequence[int | float]) -> None:
        super().__init__(given)
        self._floats = [type(number) is float for number in given]
        self._sizes: dict[Polynomial, OpenSize] = {}
        self.are_named = False

    @property
    def sizes(self) -> list[Any]:
        """The symbols, as sizes, and those of floats as floats."""
        floats = enumerate(self._floats)
        return [OpenFloat(self, ("atom", i)) if is_float else self.size((((i,), 1),)) for i, is_float in floats]

    def is_at_least_zero(self, polynomial: Polynomial) -> bool:
        """As of any atoms; nothing is noted for texts that name sizes."""
        return self.value(polynomial) >= 0 if self.are_named else super().is_at_least_zero(polynomial)

    def is_zero(self, polynomial: Polynomial) -> bool:
        """As of any atoms; texts that name sizes have what may be zero written out."""
        return not polynomial if self.are_named else super().is_zero(polynomial)

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
        if is_constant_polynomial(polynomial):
            return polynomial[0][1]
        found = self._sizes.get(polynomial)
        if found is None:
            found = self._sizes[polynomial] = OpenSize(self, polynomial)
        return cast(int, found)


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
        self.symbols.is_zero(polynomial_sum(self.polynomial, constant_polynomial(-found)))
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
            return constant_polynomial(int(other))
        return None

    def __add__(self, other: Any) -> Any:
        found = self._other(other)
        return (
            self._by_number(other, "__radd__") if found is None else self._size(polynomial_sum(self.polynomial, found))
        )

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self._size(scaled(self.polynomial, -1))

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self.symbols.is_at_least_zero(self.polynomial) else -self

    def __sub__(self, other: Any) -> Any:
        found = self._other(other)
        if found is None:
            return self._by_number(other, "__rsub__")
        return self._size(polynomial_sum(self.polynomial, scaled(found, -1)))

    def __rsub__(self, other: Any) -> Any:
        found = self._other(other)
        if found is None:
            return self._by_number(other, "__sub__")
        return self._size(polynomial_sum(found, scaled(self.polynomial, -1)))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, float) and isinf(other):
            return other if self > 0 else other * -1 if self < 0 else other * 0
        found = self._other(other)
        return self._by_number(other, "__rmul__") if found is None else self._size(multiplied(self.polynomial, found))

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
        # The square by 2.0 is a float.
        return self * self if self._other(other) is not None and other == 2 else self.__index__() ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** self.__index__()

    def _size(self, polynomial: Polynomial) -> Any:
        found: Any = self.symbols.size(polynomial)
        if len(polynomial) > MOST_TERMS or any(len(monomial) > MOST_FACTORS for monomial, _ in polynomial):
            return found.__index__()
        return found

    def _quotient(self, dividend: Polynomial, divisor: Polynomial) -> Any:
        below: Any = self._size(divisor)
        if not below:
            raise ZeroDivisionError("integer division or modulo by zero")
        if below < 0:
            dividend, divisor = scaled(dividend, -1), scaled(divisor, -1)
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
        difference = scaled(polynomial_sum(self.polynomial, scaled(found, -1)), sign)
        return self.symbols.is_at_least_zero(polynomial_sum(difference, constant_polynomial(-least)))

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
        return self.symbols.is_zero(polynomial_sum(self.polynomial, scaled(found, -1)))


def is_open(value: object) -> bool:
    """Whether something is an open size, or a list or tuple with one in it; an open float is one too."""
    if type(value) is OpenSize or type(value) is OpenFloat:
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
    owner = _owner(one, other)
    if owner is None:
        return min(one, other)
    return owner.symbols.size(owner.symbols.least(owner.polynomial_of(one), owner.polynomial_of(other)))


def greatest(one: int, other: int) -> int:
    """The greater of two; of which of them that is, nothing is noted."""
    owner = _owner(one, other)
    if owner is None:
        return max(one, other)
    return owner.symbols.size(owner.symbols.greatest(owner.polynomial_of(one), owner.polynomial_of(other)))


def common_divisor(*numbers: int) -> int:
    """The greatest number that divides all; of open sizes one that divides them whatever they are."""
    found = 0
    for number in numbers:
        owner = _owner(found, number)
        if owner is None:
            found = gcd(found, number)
        else:
            found = owner.symbols.size(shared_factor(owner.polynomial_of(found), owner.polynomial_of(number)))
    return found


def _owner(one: Any, other: Any) -> OpenSize | None:
    """One of two that is open; whether it is 0 is not asked."""
    found = _open(one)
    return _open(other) if found is None else found


def _open(number: Any) -> OpenSize | None:
    return number if type(number) is OpenSize else None


def at_hand(number: int) -> int:
    """What a size is at hand, for choices that no result depends on."""
    found = _open(number)
    return number if found is None else found.at_hand


def whole(number: float) -> int:
    """A number that is one of elements, as an int; an open size as it is."""
    return int(number) if _open(number) is None else cast(int, number)


def closed(value: Any, atoms: Sequence[int]) -> Any:
    """A value with numbers for its open sizes, given one for each atom; lists and tuples are gone through, and those
    without any are what they were."""
    kind = type(value)
    if kind is OpenSize:
        return evaluate(value.polynomial, atoms)
    if kind is tuple or kind is list:
        found = [closed(item, atoms) if type(item) in _MAY_BE_OPEN else item for item in value]
        return value if all(map(is_, found, value)) else kind(found)
    return evaluated(value.expression, atoms) if kind is OpenFloat else value


_MAY_BE_OPEN = frozenset((OpenSize, OpenFloat, tuple, list))

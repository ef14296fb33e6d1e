"""How much one op on numbers, strings or lists may make: what a few characters of source ask for is refused before it
takes all memory, or a time in which nobody would wait. Tensors have bounds of their own, by what there is memory for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

from ...lang.patterns import pattern

MAX_INT_BITS = 2**18
"""Of an int that is computed: ints of that length are still multiplied and divided in milliseconds."""
MAX_CHARACTERS = 2**26
"""Of a string that is made."""
MAX_LISTED = 2**24
"""Elements of a list that is made at once."""

_WIDTH = pattern(r"[0-9]+")


def require_bits(bits: float) -> None:
    """OverflowError where an int of so many bits is too long to be computed."""
    if bits > MAX_INT_BITS:
        message = f"the result is an int of more than {MAX_INT_BITS} bits"
        raise OverflowError(f"{message}; compute with floats, or with math.lgamma and logarithms")


def require_characters(count: int) -> None:
    """MemoryError where a string of so many characters is too long to be made."""
    if count > MAX_CHARACTERS:
        raise MemoryError(
            f"the result is a string of {_count(count)} characters, and at most {MAX_CHARACTERS} are made"
        )


def require_listed(count: int, how: str = "") -> None:
    """MemoryError where a list of so many elements is too long to be made."""
    if count > MAX_LISTED:
        message = f"the result is a list of {how}{_count(count)} elements, and at most {MAX_LISTED} are made"
        raise MemoryError(f"{message}; keep many numbers in a tensor, and go over a range by `for … in range(…)`")


def _count(count: int) -> str:
    return str(count) if count.bit_length() <= 64 else f"more than 2**{count.bit_length() - 1}"


def bounded_product(a: Any, b: Any) -> Any:
    """`a * b` of two numbers."""
    result = a * b
    if type(result) is int:
        require_bits(result.bit_length())
    return result


def bounded_power(base: Any, exponent: Any) -> Any:
    """`base ** exponent` of two numbers."""
    if type(base) is int and isinstance(exponent, int):
        exponent = index(exponent)
        if exponent > 0 and not -1 <= base <= 1:
            require_bits((base.bit_length() - 1) * exponent)
    return base**exponent


def shifted_left(number: int, places: int) -> int:
    """`number << places`."""
    number, places = index(number), index(places)
    if places > 0:
        require_bits(number.bit_length() + places if number else 0)
    return number << (places if number else min(places, 1))


def bounded_factorial(n: int) -> int:
    """`math.factorial(n)`."""
    n = index(n)
    # With more factors than that the bound is passed whatever they are.
    require_bits(n if n > MAX_INT_BITS else math.lgamma(n + 1) / math.log(2) if n > 1 else 0)
    return math.factorial(n)


def combinations_of(n: int, k: int) -> int:
    """`math.comb(n, k)`."""
    n, k = index(n), index(k)
    few = min(k, n - k)
    if few > 0:
        # The result is no less than (n / few) ** few.
        require_bits(few * max((n // few).bit_length() - 1, 1))
    return math.comb(n, k)


def permutations_of(n: int, k: int) -> int:
    """`math.perm(n, k)`."""
    n, k = index(n), index(k)
    if n >= k > 0:
        # Half of the factors are no less than n / 2.
        require_bits(k * (n.bit_length() - 2) // 2)
    return math.perm(n, k)


def bounded_products(values: Sequence[Any], start: Any = 1) -> Any:
    """`math.prod(values, start=start)`."""
    if all(type(value) is int for value in values):
        if 0 in values:
            return 0
        require_bits(sum(value.bit_length() - 1 for value in values))
    return math.prod(values, start=start)


def common_multiple(a: int, b: int) -> int:
    """`math.lcm(a, b)`."""
    result = math.lcm(a, b)
    require_bits(result.bit_length())
    return result


def repeated_text(text: str, count: int) -> str:
    """`text * count`."""
    count = index(count)
    require_characters(len(text) * count)
    return text * count


def joined_texts(a: str, b: str) -> str:
    """`a + b` of two strings."""
    require_characters(len(a) + len(b))
    return a + b


def repeated_list(values: Sequence[Any], count: int) -> list[Any]:
    """`values * count` of a list."""
    count = index(count)
    require_listed(len(values) * count)
    return list(values) * count


def chained_lists(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """`a + b` of two lists."""
    require_listed(len(a) + len(b))
    return [*a, *b]


def listed_range(*bounds: int) -> list[int]:
    """`list(range(…))`."""
    numbers = range(*map(index, bounds))
    if numbers:
        # len() of a range has no more than 63 bits.
        require_listed((numbers[-1] - numbers[0]) // numbers.step + 1)
    return list(numbers)


def require_widths(spec: str) -> None:
    """MemoryError where a format asks for a width or a precision of more characters than are made."""
    for width in _WIDTH.findall(spec):
        digits = width.lstrip("0")
        require_characters(int(digits[:20] or "0"))

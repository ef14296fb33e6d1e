"""What primitives compute on arrays where NumPy does otherwise than torch, or has no function of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..types.lazy_numpy import np


def numpy(name: str) -> Callable[..., Any]:
    """A function of NumPy's, which is loaded when first called."""
    return lambda *operands: getattr(np, name)(*operands)


def scipy(name: str) -> Callable[..., Any]:
    """A function of scipy.special, which is imported when first called."""
    found: list[Callable[..., Any]] = []

    def evaluate(*operands: Any) -> Any:
        if not found:
            found.append(getattr(importlib.import_module("scipy.special"), name))
        return found[0](*operands)

    return evaluate


def refusing_zero(function: Callable[..., Any]) -> Callable[..., Any]:
    """An integer division that refuses a zero divisor."""

    def evaluate(dividend: Any, divisor: Any) -> Any:
        if divisor.dtype.kind in "iub" and not np.all(divisor):
            raise ZeroDivisionError("integer division or modulo by zero")
        return function(dividend, divisor)

    return evaluate


def truncated_quotient(dividend: Any, divisor: Any) -> Any:
    if dividend.dtype.kind not in "iu":
        return np.trunc(np.true_divide(dividend, divisor))
    return np.floor_divide(dividend - np.fmod(dividend, divisor), divisor)


def remainder(dividend: Any, divisor: Any) -> Any:
    """As np.remainder, but a zero keeps the dividend's sign."""
    if dividend.dtype.kind not in "fV":
        return np.remainder(dividend, divisor)
    rest = np.fmod(dividend, divisor)
    return np.where((rest != 0) & ((rest < 0) != (divisor < 0)), rest + divisor, rest)


def next_representable(start: Any, towards: Any) -> Any:
    """np.nextafter, which of halves that are equal gives the first: of zeros, it is the sign that differs."""
    return np.where(start == towards, towards, np.nextafter(start, towards))


def plain_power(base: Any, exponent: Any) -> Any:
    """np.power, which takes roots where one exponent is for all: the power of -inf and -0 is not the root."""
    found = np.power(base, exponent)
    is_root = exponent == 0.5
    return np.where(is_root & (np.isinf(base) | (base == 0)), np.abs(base), found) if np.any(is_root) else found


def integer_power(base: Any, exponent: Any) -> Any:
    """An integer to a negative power is zero unless it is 1 or -1, as in torch's C++."""
    if exponent.dtype.kind != "i" or not np.any(exponent < 0):
        return plain_power(base, exponent)
    negative = np.where(base == 1, 1, np.where(base == -1, np.where(exponent % 2 == 0, 1, -1), 0)).astype(base.dtype)
    return np.where(exponent < 0, negative, np.power(base, np.maximum(exponent, 0)))


def power_by_number(base: Any, exponent: Any) -> Any:
    """A root by a half, a cube by multiplication."""
    if exponent == 3:
        return base * base * base
    if abs(exponent) == 0.5:
        return np.sqrt(base) if exponent > 0 else rsqrt(base)
    return integer_power(base, exponent)


def preferring_numbers(propagate: Callable[..., Any], choose: Callable[..., Any]) -> Callable[..., Any]:
    """fmax and fmin: of equal operands the first, which NumPy's own leaves open, and the other where one is NaN."""

    def evaluate(left: Any, right: Any) -> Any:
        found = propagate(right, left)
        return found if np.all(found == found) else np.where(found == found, found, choose(left, right))

    return evaluate


_GAMMALN = scipy("gammaln")


_erfinv = scipy("erfinv")
_HURWITZ = scipy("zeta")


def erfinv(x: Any) -> Any:
    """scipy's gives 0 for -0."""
    return np.copysign(_erfinv(x), x)


def lgamma(operand: Any) -> Any:
    """scipy's is -inf at -inf, and infinite for subnormal numbers. Near 0 gamma is 1 / x."""
    size = np.abs(operand)
    return np.where(size < 1e-30, -np.log(size), np.where(operand == -np.inf, np.inf, _GAMMALN(operand)))


def sign(operand: Any) -> Any:
    """The sign of NaN is 0, of True True."""
    if operand.dtype.kind == "b":
        return operand
    sign = np.sign(operand)
    return np.where(sign == sign, sign, 0) if operand.dtype.kind in "fV" else sign


def rsqrt(operand: Any) -> Any:
    return np.reciprocal(np.sqrt(operand))


def sigmoid(operand: Any) -> Any:
    """The exponential may overflow, which gives the right 0."""
    return np.reciprocal(1 + np.exp(-operand))


def of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """A rounding function; integers stay as they are."""

    def evaluate(operand: Any) -> Any:
        return function(operand) if operand.dtype.kind in "fV" else operand

    return evaluate


def zeta(order: Any, first: Any) -> Any:
    """scipy's is 0 for infinite terms, torch's NaN."""
    return np.where((first == np.inf) & (order > 1), np.asarray(np.nan, first.dtype), _HURWITZ(order, first))

"""Numbers of 113 bits, as float128 has them, and the primitives of scalar expressions on arrays of them: mpmath's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

BITS = 113


class NotExact(Exception):
    """A graph has something that is not computed in more than float64, or mpmath is not there."""


@cache
def number_context() -> Any:
    try:
        from mpmath import MPContext
    except ImportError:
        raise NotExact("mpmath is not installed") from None
    context = MPContext()
    context.prec = BITS
    return context


def on_arrays(function: Callable[..., Any], arity: int) -> Callable[..., Any]:
    """A function on arrays of numbers, broadcast."""
    ufunc = np.frompyfunc(function, arity, 1)

    def call(*operands: Any) -> Any:
        result = ufunc(*operands)
        if isinstance(result, np.ndarray):
            return result
        held = np.empty((), object)
        held[()] = result
        return held

    return call


@cache
def primitives() -> dict[str, Callable[..., Any]]:
    """What computes each primitive, on arrays of mpmath's numbers and of bools."""
    tables = _tables(number_context())
    return {name: on_arrays(_real(one), arity) for arity, table in tables.items() for name, one in table.items()}


def _real(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with NotExact where it has no real value."""
    mp = number_context()

    def call(*operands: Any) -> Any:
        try:
            found = function(*operands)
        except (ZeroDivisionError, ValueError, OverflowError) as error:
            raise NotExact(str(error)) from None
        if isinstance(found, mp.mpc):
            raise NotExact("no real number")
        return found

    return call


def _tables(mp: Any) -> dict[int, dict[str, Callable[..., Any]]]:
    """The primitives by how many operands they take."""
    names = (
        "sqrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv digamma"
    )
    one = {name: getattr(mp, name) for name in names.split()}
    one |= {
        "neg": operator.neg,
        "abs": abs,
        "not": operator.not_,
        "number": lambda x: mp.mpf(int(x)),
        "sign": mp.sign,
        "rsqrt": lambda x: 1 / mp.sqrt(x),
        "exp2": lambda x: mp.power(2, x),
        "log2": lambda x: mp.log(x, 2),
        "log10": mp.log10,
        "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
        "lgamma": lambda x: mp.log(abs(mp.gamma(x))),
        "ndtr": mp.ncdf,
        "bessel_i0": lambda x: mp.besseli(0, x),
        "bessel_i1": lambda x: mp.besseli(1, x),
        "bessel_i0e": lambda x: mp.exp(-abs(x)) * mp.besseli(0, x),
        "bessel_i1e": lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
        "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
        "floor": mp.floor,
        "ceil": mp.ceil,
        "round": mp.nint,
        "trunc": lambda x: mp.floor(x) if x >= 0 else mp.ceil(x),
        "isnan": mp.isnan,
        "isinf": mp.isinf,
    }
    two = {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": operator.truediv,
        "pow": mp.power,
        "number_pow": mp.power,
        "maximum": max,
        "minimum": min,
        "fmax": max,
        "fmin": min,
        "atan2": mp.atan2,
        "hypot": mp.hypot,
        "zeta": mp.zeta,
        "copysign": lambda x, y: abs(x) if y >= 0 else -abs(x),
        "eq": operator.eq,
        "ne": operator.ne,
        "lt": operator.lt,
        "le": operator.le,
        "gt": operator.gt,
        "ge": operator.ge,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
    }
    return {1: one, 2: two, 3: {"where": lambda held, x, y: x if held else y}}

"""What few programs use, and the references of mpmath for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

Reference = Callable[..., Any]


def _erfinv(x: Any) -> Any:
    return mpmath.erfinv(x) if abs(x) < 1 else x * mpmath.inf if abs(x) == 1 else mpmath.nan


def _ndtri(x: Any) -> Any:
    """Newton's method on the logarithm."""
    if not 0 < x < 1:
        return {0: -mpmath.inf, 1: mpmath.inf}.get(x, mpmath.nan)
    if x > 0.25:
        return mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1)
    found = -mpmath.sqrt(-2 * mpmath.log(2 * x))
    for _ in range(30):
        below = mpmath.ncdf(found)
        found -= mpmath.log(below / x) * below / mpmath.npdf(found)
    return found


def _erfcx(x: Any) -> Any:
    if x > 1000:
        return (1 - 1 / (2 * x * x)) / (x * mpmath.sqrt(mpmath.pi))
    return mpmath.exp(x * x) * mpmath.erfc(x)


def _log_ndtr(x: Any) -> Any:
    return mpmath.log1p(-mpmath.ncdf(-x)) if x > 0 else mpmath.log(mpmath.ncdf(x))


def _scaled_bessel(order: int) -> Reference:
    return lambda x: mpmath.besseli(order, x) * mpmath.exp(-abs(x))


_RANDOM = np.random.default_rng(0)
_SHARE = np.concatenate([_RANDOM.uniform(-1, 1, 60), 1 - np.ldexp(1.5, -np.arange(1, 53)), [0.0, 1.0, -1.0, 1.5]])
_LINE = np.concatenate([_RANDOM.uniform(-25, 25, 80), np.ldexp(1.5, np.arange(-60, 4)), [0.0]])
_POSITIVE = np.concatenate([_RANDOM.uniform(2, 60, 80), np.ldexp(1.5, [*range(-60, 0), *range(2, 40)])])
UNARY: dict[str, tuple[Reference, Any, float]] = {
    "erfinv": (_erfinv, _SHARE, 2),
    "ndtri": (_ndtri, np.concatenate([np.abs(_SHARE), np.ldexp(1.5, -np.arange(2, 1000, 17))]), 2),
    "erfcx": (_erfcx, _LINE, 4),
    "log_ndtr": (_log_ndtr, _LINE, 3),
    "digamma": (mpmath.digamma, _POSITIVE, 6),
    "bessel_i0": (lambda x: mpmath.besseli(0, x), _LINE, 4),
    "bessel_i1": (lambda x: mpmath.besseli(1, x), _LINE, 4),
    "bessel_i0e": (_scaled_bessel(0), _LINE, 4),
    "bessel_i1e": (_scaled_bessel(1), _LINE, 4),
}
"""By name: the reference, arguments, and how many units in the last place of a float64 it may be away."""


def units(got: float, want: Any) -> float:
    """How far a float64 is from what it should be, in units in the last place of that."""
    if mpmath.isnan(want) or mpmath.isinf(want):
        return 0.0 if mpmath.isnan(want) == bool(np.isnan(got)) and (np.isnan(got) or got == float(want)) else np.inf
    if want == 0:
        return 0.0 if got == 0 else np.inf
    exponent = max(int(mpmath.floor(mpmath.log(abs(want), 2))), -1022)
    return float(abs(mpmath.mpf(float(got)) - want) * mpmath.mpf(2) ** (52 - exponent))

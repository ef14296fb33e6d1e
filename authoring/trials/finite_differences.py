"""Derivatives by finite differences: the reference that gradients are held against.

Central differences at five steps, each half the one before, extrapolated to step zero (Ridders' method), which gives
about eleven digits for a smooth function in float64. Each number comes with an estimate of its error; where the
function has a kink or a jump near the point the estimate is large, and the caller takes another point.

Source: C. J. F. Ridders, Accurate computation of F'(x) and F'(x) F''(x), 1982.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...lang.light_dataclasses import dataclass
from .leaves import Array

DOUBLE = float(np.finfo(np.float64).eps)
LEVELS = 5
FIRST_STEP = 2.0**-4
"""In units of the direction, which is as long as the numbers it varies."""
FAR = 1e-3
"""Long and short steps that disagree by more, relatively, have seen different branches of the function."""
NEAR = 1e-7
"""The same of a difference that is no more than the rest of the error of both."""
DOUBT = 10.0
"""Times its estimate the error of long steps may be."""
KINK = 1e-4
"""One-sided slopes that differ by more than this part of the slope, and do not draw closer, make a kink."""


@dataclass(frozen=True, slots=True)
class Slope:
    """The derivative of every output along one direction, and the estimated error of each.

    `rounding` is what the outputs' own last digits may hide: where no step changes an output, no error is estimated.
    """

    value: Array
    error: Array
    rounding: Array


def slope(function: Callable[[float], Array], at_zero: Array, precision: float = DOUBLE) -> Slope:
    """The derivative at 0 of a function of one number that returns a vector; `at_zero` is its value there.

    `precision` is the relative distance of neighbouring numbers of the dtype that the function computes in.

    An error of infinity marks outputs that have no derivative here, or none that can be found.
    """
    steps = [FIRST_STEP / 2**k for k in range(LEVELS)]
    above = [function(h) for h in steps]
    below = [function(-h) for h in steps]
    fine = _Fine(function, at_zero, 1e-5, precision)
    with np.errstate(all="ignore"):
        value, error = _extrapolate(steps, above, below)
        error = np.where(_has_kink(steps, above, below, at_zero, value), np.inf, error)
        apart, sizes = np.abs(fine.value - value), np.abs(value) + np.abs(fine.value)
        coarse = ~(apart <= FAR * sizes + fine.noise)
        # Where the second derivative jumps between the steps, what they differ by is more than the estimate.
        error = np.where(apart > NEAR * sizes + DOUBT * error + 4 * fine.noise, np.maximum(error, apart), error)
        if coarse.any() or np.isinf(error).any():
            value, error = _refined(
                value, error, coarse | np.isinf(error), fine, _Fine(function, at_zero, 1e-6, precision)
            )
        rounding = 4 * precision * np.abs(at_zero) / steps[-1]
        if precision > DOUBLE:
            error = np.maximum(error, rounding)
    return Slope(_as_number(value), np.where(np.isnan(error), np.inf, error), _as_number(rounding))


def _as_number(array: Array) -> Array:
    return array if np.isfinite(array).all() else np.nan_to_num(array)


class _Fine:
    """A central difference at a step so short that kinks lie outside, exact to five digits or so."""

    def __init__(self, function: Callable[[float], Array], at_zero: Array, step: float, precision: float) -> None:
        above, below = function(step), function(-step)
        with np.errstate(all="ignore"):
            self.value = (above - below) / (2 * step)
            self.gap = np.abs(above + below - 2 * at_zero) / step
            largest = np.max(np.abs(at_zero), initial=0.0) + 1e-300
            self.noise = 4.5 * precision * largest / step + np.zeros_like(at_zero)


def _refined(value: Array, error: Array, doubtful: Array, fine: _Fine, finer: _Fine) -> tuple[Array, Array]:
    """Take the short steps where the long ones saw another branch, and the short ones agree."""
    distance = np.abs(fine.value - finer.value) + finer.noise
    size = np.abs(fine.value) + np.abs(finer.value)
    smooth = (distance <= FAR * size + finer.noise) & (finer.gap <= FAR * size + 4 * finer.noise)
    error = np.where(doubtful, np.where(smooth, distance, np.inf), error)
    return np.where(doubtful & smooth, fine.value, value), error


def _extrapolate(steps: list[float], above: list[Array], below: list[Array]) -> tuple[Array, Array]:
    """The entry of Neville's tableau whose neighbours agree best, for each output."""
    column = [(a - b) / (2 * h) for a, b, h in zip(above, below, steps, strict=True)]
    best, error = column[-1], np.full(column[-1].shape, np.inf)
    for order in range(1, len(steps)):
        factor = 4.0**order
        following = [(factor * column[k + 1] - column[k]) / (factor - 1) for k in range(len(column) - 1)]
        for k, entry in enumerate(following):
            distance = np.maximum(np.abs(entry - column[k]), np.abs(entry - column[k + 1]))
            closer = distance < error
            best, error = np.where(closer, entry, best), np.where(closer, distance, error)
        column = following
    return best, error


def _has_kink(steps: list[float], above: list[Array], below: list[Array], at_zero: Array, value: Array) -> Array:
    """Where the one-sided slopes differ and the difference does not shrink with the step."""
    gaps = [np.abs(a + b - 2 * at_zero) / h for a, b, h in zip(above[-2:], below[-2:], steps[-2:], strict=True)]
    return (gaps[1] > 0.75 * gaps[0]) & (gaps[1] > KINK * (np.abs(value) + 1e-3 * np.max(np.abs(value), initial=0.0)))

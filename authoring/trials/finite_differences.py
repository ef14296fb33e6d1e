"""Derivatives by finite differences: the reference that gradients are held against.

Central differences at steps each half the one before, extrapolated to step zero (Ridders' method), which gives about
eleven digits for a smooth function in float64: at the three shortest of five, and at all where those do not agree.
Each number comes with an estimate of its error; where the function has a kink or a jump near the point the estimate is
large, and the caller takes another point.

Source: C. J. F. Ridders, Accurate computation of F'(x) and F'(x) F''(x), 1982.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...compiler.ops.arrays import Array
from ...lang.light_dataclasses import dataclass

DOUBLE = float(np.finfo(np.float64).eps)
LEVELS = 5
FIRST_STEP = 2.0**-4
"""In units of the direction, which is as long as the numbers it varies."""
STEPS = [FIRST_STEP / 2**k for k in range(LEVELS)]
SHORT = 3
"""Of the steps so many are tried first."""
EXACT = 1e-8
"""An estimated error of no more than this part of the slope asks for no longer steps."""
FAR = 1e-3
"""Long and short steps that disagree by more, relatively, have seen different branches of the function."""
NEAR = 1e-7
"""The same of a difference that is no more than the rest of the error of both."""
DOUBT = 10.0
"""Times its estimate the error of long steps may be."""
KINK = 1e-4
"""One-sided slopes that differ by more than this part of the slope, and do not draw closer, make a kink."""
MOST_NUMBERS = 1 << 14
"""So many outputs at most are held against their slopes together: of each some thirty arrays are alive."""

Along = Callable[[float], Array]
"""A function along one direction: what it gives so many steps from the point."""


@dataclass(frozen=True, slots=True)
class Slope:
    """The derivative of every output along one direction, and the estimated error of each.

    `rounding` is what the outputs' own last digits may hide: where no step changes an output, no error is estimated.
    """

    value: Array
    error: Array
    rounding: Array


def slopes(functions: Sequence[Along], at_zero: Array, precision: float = DOUBLE) -> list[Slope]:
    """The derivatives at 0 of functions of one number that return vectors; `at_zero` is the value there of them all.

    `precision` is the relative distance of neighbouring numbers of the dtype that the functions compute in.

    An error of infinity marks outputs that have no derivative here, or none that can be found.
    """
    together = max(1, MOST_NUMBERS // max(1, at_zero.size))
    groups = [functions[i : i + together] for i in range(0, len(functions), together)]
    return [found for group in groups for found in _slopes(group, at_zero, precision)]


def _slopes(functions: Sequence[Along], at_zero: Array, precision: float) -> Iterator[Slope]:
    """The same of a few, a row of what is computed for each."""
    above, below = _sides(functions, STEPS[-SHORT:])
    fine = _fine(functions, at_zero, 1e-5)
    magnitude = np.abs(at_zero)
    last_digits = precision * (np.max(magnitude, initial=0.0) + 1e-300)
    with np.errstate(all="ignore"):
        value, error = _extrapolate(above, below)
        known = (error <= EXACT * (np.abs(value) + 1e-3 * _largest(value))).all(axis=1) & (precision <= DOUBLE)
        for row in np.flatnonzero(~known).tolist():
            longer = _sides([functions[row]], STEPS[:-SHORT])
            sides = (np.concatenate([a, b[:, row : row + 1]]) for a, b in zip(longer, (above, below), strict=True))
            (value[row],), (error[row],) = _extrapolate(*sides)
        error = np.where(_has_kink(above, below, at_zero, value), np.inf, error)
        apart, sizes = np.abs(fine.value - value), np.abs(value) + np.abs(fine.value)
        noise = 4.5 * last_digits / fine.step
        coarse = ~(apart <= FAR * sizes + noise)
        # Where the second derivative jumps between the steps, what they differ by is more than the estimate.
        error = np.where(apart > NEAR * sizes + DOUBT * error + 4 * noise, np.maximum(error, apart), error)
        doubtful = coarse | np.isinf(error)
        for row in np.flatnonzero(doubtful.any(axis=1)).tolist():
            finer = _fine([functions[row]], at_zero, 1e-6)
            short = _Fine(fine.step, fine.value[row], fine.gap[row])
            value[row], error[row] = _refined(value[row], error[row], doubtful[row], short, finer, last_digits)
        rounding = 4 * precision * magnitude / STEPS[-1]
        if precision > DOUBLE:
            error = np.maximum(error, rounding)
    value, rounding = _as_number(value), _as_number(rounding)
    error[np.isnan(error)] = np.inf
    for row in range(len(functions)):
        yield Slope(value[row], error[row], rounding)


def _sides(functions: Sequence[Along], steps: Sequence[float]) -> tuple[Array, Array]:
    """What functions give so far above the point and below, by step and function."""
    above, below = ([[function(side * h) for function in functions] for h in steps] for side in (1, -1))
    return np.array(above), np.array(below)


def _largest(values: Array) -> Array:
    """The largest magnitude in each row."""
    return np.max(np.abs(values), axis=1, initial=0.0, keepdims=True)


def _as_number(array: Array) -> Array:
    return array if np.isfinite(array).all() else np.nan_to_num(array)


@dataclass(frozen=True, slots=True)
class _Fine:
    """Central differences at a step so short that kinks lie outside, exact to five digits or so.

    `gap` is how far the slopes of the two sides are apart.
    """

    step: float
    value: Array
    gap: Array


def _fine(functions: Sequence[Along], at_zero: Array, step: float) -> _Fine:
    (above,), (below,) = _sides(functions, [step])
    with np.errstate(all="ignore"):
        return _Fine(step, (above - below) / (2 * step), np.abs(above + below - 2 * at_zero) / step)


def _refined(
    value: Array, error: Array, doubtful: Array, fine: _Fine, finer: _Fine, last_digits: float
) -> tuple[Array, Array]:
    """Take the short steps where the long ones saw another branch, and the short ones agree."""
    noise = 4.5 * last_digits / finer.step
    distance = np.abs(fine.value - finer.value[0]) + noise
    size = np.abs(fine.value) + np.abs(finer.value[0])
    smooth = (distance <= FAR * size + noise) & (finer.gap[0] <= FAR * size + 4 * noise)
    error = np.where(doubtful, np.where(smooth, distance, np.inf), error)
    return np.where(doubtful & smooth, fine.value, value), error


def _extrapolate(above: Array, below: Array) -> tuple[Array, Array]:
    """For each output the entry of Neville's tableau whose neighbours agree best; the steps are the shortest ones."""
    column = (above - below) / (2 * np.reshape(STEPS[-len(above) :], (-1, 1, 1)))
    shortest, entries, distances = column[-1], [], []
    for order in range(1, len(column)):
        factor = 4.0**order
        entry = (factor * column[1:] - column[:-1]) / (factor - 1)
        entries.append(entry)
        distances.append(np.maximum(np.abs(entry - column[:-1]), np.abs(entry - column[1:])))
        column = entry
    distance = np.concatenate(distances)
    distance[np.isnan(distance)] = np.inf
    nearest = np.argmin(distance, axis=0)[None]
    error = np.take_along_axis(distance, nearest, axis=0)[0]
    best = np.take_along_axis(np.concatenate(entries), nearest, axis=0)[0]
    return np.where(np.isinf(error), shortest, best), error


def _has_kink(above: Array, below: Array, at_zero: Array, value: Array) -> Array:
    """Where the one-sided slopes differ and the difference does not shrink with the step."""
    long, short = (np.abs(above[k] + below[k] - 2 * at_zero) / STEPS[k] for k in (-2, -1))
    return np.asarray((short > 0.75 * long) & (short > KINK * (np.abs(value) + 1e-3 * _largest(value))))

"""What a value would have to be for an outcome that is linear in it to be what is expected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...compiler.ops.arrays import Array

MAX_UNKNOWNS = 36
"""Elements of a step's value that are solved for together."""
NEAR = 1e-6
"""Relative to the largest element: how near a change must come to what was solved for."""


def solved_for(outcome: Callable[[Array], Array | None], made: Array, expected: Array) -> Array | bool | None:
    """The value for which the outcome is what is expected, if the outcome is linear in it; False if there is none."""
    nothing = outcome(np.zeros_like(made))
    now = outcome(made)
    if nothing is None or now is None or nothing.shape != expected.shape:
        return None
    if made.shape == expected.shape:
        slope = _elementwise(outcome, nothing, made, now)
        if slope is not None:
            blind = slope == 0
            missing = expected - nothing
            if not near(np.where(blind, missing, 0.0) + 0 * expected, 0 * expected, float(np.abs(expected).max())):
                return False
            return np.where(blind, made, missing / np.where(blind, 1.0, slope))
    if made.size > MAX_UNKNOWNS:
        return None
    columns = []
    for unit in np.eye(made.size):
        moved = outcome(unit.reshape(made.shape))
        if moved is None:
            return None
        columns.append((moved - nothing).ravel())
    matrix = np.array(columns).T
    if not np.isfinite(matrix).all() or not near(nothing.ravel() + matrix @ made.ravel(), now.ravel()):
        return None
    solved, _, rank, _ = np.linalg.lstsq(matrix, (expected - nothing).ravel(), rcond=1e-10)
    if not near(nothing.ravel() + matrix @ solved, expected.ravel()):
        return False
    return solved.reshape(made.shape) if rank == made.size else None


def _elementwise(outcome: Callable[[Array], Array | None], nothing: Array, made: Array, now: Array) -> Array | None:
    """The slope of each element of the outcome in the same element of the value, if that is all there is to it."""
    one, mixed = outcome(np.ones_like(made)), np.linspace(0.7, 1.9, made.size).reshape(made.shape)
    if one is None:
        return None
    slope = one - nothing
    other = outcome(mixed)
    fits = other is not None and near(nothing + slope * mixed, other) and near(nothing + slope * made, now)
    return slope if fits and np.isfinite(slope).all() else None


def near(found: Array, wanted: Array, scale: float = 0.0) -> bool:
    """Whether all elements are finite and as wanted, but for NEAR of the largest, or of `scale`."""
    if found.shape != wanted.shape or not np.isfinite(found).all():
        return False
    scale = max(scale, float(np.abs(wanted).max(initial=0.0)))
    return bool((np.abs(found - wanted) <= NEAR * scale).all())

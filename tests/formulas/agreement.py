"""When two results agree: in float64 to nearly all digits, in the shorter floats as far as their digits go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType
from samples.array_derivatives import is_float

EPSILON: dict[DType, float] = {
    FLOAT32: float(np.finfo(np.float32).eps),
    FLOAT16: float(np.finfo(np.float16).eps),
    BFLOAT16: float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps),
}
"""The shorter floats, and the distance from 1 to the next number in each."""
ROUNDINGS = 8
"""A formula may round its intermediate results a few times; each is worth one epsilon of the largest result."""

Leaves = Sequence[Any]


def differences(found: Leaves, expected: Leaves, rtol: float = 1e-9, atol: float = 1e-10) -> list[str]:
    """What differs, in words: shapes, dtypes, elements. NaN equals NaN; None is not compared."""
    assert len(found) == len(expected)
    words = []
    for i, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        if theirs is None:
            continue
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            words.append(f"{i}: {mine.dtype}{mine.shape}, torch {theirs.dtype}{theirs.shape}")
        elif not np.allclose(mine, theirs, rtol, atol, equal_nan=True):
            words.append(f"{i}: {mine.ravel()[:6]}, torch {theirs.ravel()[:6]}")
    return words


def widened(value: Any) -> Any:
    """The same numbers as float64."""
    if isinstance(value, list):
        return [widened(item) for item in value]
    return value.astype(np.float64) if is_float(value) else value


def nudged(value: Any, epsilon: float) -> Any:
    """The same, larger by an epsilon."""
    if isinstance(value, list):
        return [nudged(item, epsilon) for item in value]
    return np.asarray(value * (1 + epsilon)) if is_float(value) else value


def losses_of_digits(
    run: Callable[[list[Any]], Leaves], short: list[Any], dtype: DType, roundings: int = ROUNDINGS
) -> list[str]:
    """What `run` gets wrong in a shorter float, in words, for arguments in it.

    The truth is its result in float64 at the same numbers. The tolerance follows from it: the size of the truth, and
    how far it moves when the inputs move by their last digit. Results in other dtypes are compared by those dtypes.
    """
    epsilon = EPSILON[dtype]
    wide = [widened(value) for value in short]
    found, exact, moved = run(short), run(wide), run([nudged(value, epsilon) for value in wide])
    words = []
    for i, (mine, truth, near) in enumerate(zip(found, exact, moved, strict=True)):
        if not is_float(mine):
            continue
        truth, near = truth.astype(np.float64), near.astype(np.float64)
        with np.errstate(invalid="ignore"):
            error = np.abs(mine.astype(np.float64) - truth)
            scale = np.max(np.abs(truth), initial=0.0, where=np.isfinite(truth))
            tiny = float(ml_dtypes.finfo(mine.dtype).smallest_subnormal)
            step = max(epsilon, float(ml_dtypes.finfo(mine.dtype).eps))
            allowed = roundings * (step * (np.abs(truth) + scale) + np.abs(near - truth) + tiny)
        same = (mine.astype(np.float64) == truth) | (np.isnan(mine.astype(np.float64)) & np.isnan(truth))
        if not (same | (error <= allowed)).all():
            worst = np.argmax(np.where(same, -np.inf, error - allowed))
            words.append(f"{i} in {dtype}: off by {error.flat[worst]}, allowed {np.ravel(allowed)[worst]}")
    return words

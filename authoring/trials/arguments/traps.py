"""Arguments at which a backward divides by nothing or overflows: zeros, numbers that are equal, and large ones.

And those that are no numbers, of what asks whether they are.

No comparison says where these are, so they are tried as they stand. What comes of them is held, as at a kink, to what
the forward's own gradient is there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....compiler.ops.arrays import Array
from ..leaves import Path, TrialValues, at, floating_leaves, replaced

LARGE = 800.0
"""Its exponential is more than the largest float64."""


def traps(base: TrialValues) -> Iterator[tuple[TrialValues, bool]]:
    """Arguments like these, and whether they are a corner: where many functions have no derivative."""
    leaves = {path: leaf for path, leaf in floating_leaves(base).items() if leaf.size}
    for path, leaf in leaves.items():
        if leaf.size > 1:
            yield _with(base, {path: _with_first(leaf, 0.0)}), False
            yield _with(base, {path: np.full(leaf.shape, leaf.ravel()[0])}), True
        yield _with(base, {path: np.zeros(leaf.shape)}), True
        yield from ((_with(base, {path: np.full(leaf.shape, size)}), True) for size in (LARGE, -LARGE))
    if len(leaves) > 1:
        yield _with(base, {path: np.zeros(leaf.shape) for path, leaf in leaves.items()}), True
        yield _with(base, {path: np.ones(leaf.shape) for path, leaf in leaves.items()}), True


def no_numbers(base: TrialValues) -> Iterator[TrialValues]:
    """Arguments like these of which one element is infinite or NaN."""
    for path, leaf in floating_leaves(base).items():
        if leaf.size:
            yield from (_with(base, {path: _with_first(leaf, other)}) for other in (np.nan, np.inf, -np.inf))


def _with_first(leaf: Array, other: float) -> Array:
    made = np.array(leaf, np.float64)
    made.flat[0] = other
    return made


def _with(base: TrialValues, leaves: dict[Path, Array]) -> TrialValues:
    values = base
    for path, leaf in leaves.items():
        values = replaced(values, path, np.asarray(leaf, np.asarray(at(base, path)).dtype))
    return values

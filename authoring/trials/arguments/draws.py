"""Random numbers for arguments: the same on every version of NumPy, whose own generators take longer to load than the
checking of a small formula to run.

SplitMix64, some thousand numbers at a time. Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
generators", figure 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....compiler.ops.arrays import Array

_GAMMA = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio, made odd."""
_TOGETHER = 4096
_Shape = Sequence[int]


class Rng:
    """Draws numbers; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._state = seed * _GAMMA % 2**64
        self._drawn = np.zeros(0)
        self._used = 0

    def _take(self, count: int) -> Array:
        """So many numbers in [0, 1), in memory that nothing writes to."""
        if self._used + count > self._drawn.size:
            self._drawn, self._used = self._more(max(count, _TOGETHER)), 0
        self._used += count
        return self._drawn[self._used - count : self._used]

    def _more(self, count: int) -> Array:
        mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GAMMA) + np.uint64(self._state)
        self._state = (self._state + count * _GAMMA) % 2**64
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
        return (mixed >> np.uint64(11)) * 2.0**-53

    def uniform(self, low: float = 0.0, high: float = 1.0, shape: _Shape = ()) -> Array:
        """Numbers in [low, high)."""
        return np.asarray(low + (high - low) * self._take(prod(shape)).reshape(shape))

    def signs(self, shape: _Shape) -> Array:
        """1.0 and -1.0, of each about as many."""
        return np.where(self._take(prod(shape)).reshape(shape) < 0.5, -1.0, 1.0)

    def normal(self, shape: _Shape) -> Array:
        """Numbers of the standard normal distribution, by Box and Muller."""
        length, angle = self._take(2 * prod(shape)).reshape(2, *shape)
        return np.asarray(np.sqrt(-2 * np.log1p(-length)) * np.cos(2 * np.pi * angle))

    def below(self, count: int) -> int:
        """A number of 0, 1, … `count` - 1."""
        return int(self._take(1)[0] * count)

    def choice(self, values: Array, shape: _Shape) -> Array:
        """Some of the values, each as likely as another."""
        places = (self._take(prod(shape)) * len(values)).astype(np.intp)
        return np.asarray(values[places].reshape(shape))

    def shuffled(self, values: Any) -> Array:
        """The values in another order."""
        return np.asarray(values)[np.argsort(self._take(len(values)), kind="stable")]

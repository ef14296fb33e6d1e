"""Arguments with other numbers of dimensions than those that are known to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from ....compiler.ops.arrays import Array
from ..branch_conditions import MAX_RANK
from ..leaves import TrialValues, floating_leaves, replaced

MAX_RUNS = 3000
MAX_FREE = 3
"""Of more tensors one at a time is changed, or all of them."""

Reshaping = Callable[[Array], Array]

_CHANGES: tuple[Reshaping, ...] = (
    lambda array: array,
    lambda array: np.stack([array, array * 1.25]),
    lambda array: np.stack([array, array * 0.75, array * 1.25], -1),
    lambda array: array[0],
    lambda array: array[..., 0],
)


class RankSearch:
    """Goes from arguments that run to others with a dimension more or less, each tensor by itself and together."""

    def __init__(self, runs: Callable[[TrialValues], bool]) -> None:
        self._runs = runs
        self._left = MAX_RUNS
        self.is_exhausted = False
        """Whether all was tried up to `MAX_RANK` dimensions."""

    def search(self, bases: Sequence[TrialValues]) -> Iterator[TrialValues]:
        """The first arguments found of each choice of numbers of dimensions, those of `bases` aside."""
        known, tried = {_ranks(base) for base in bases}, set()
        pending = list(bases)
        for base in pending:
            for values in self._beside(base):
                ranks = _ranks(values)
                shapes = tuple(leaf.shape for leaf in floating_leaves(values).values())
                if ranks in known or max(ranks, default=0) > MAX_RANK or shapes in tried:
                    continue
                tried.add(shapes)
                if self._left <= 0:
                    return
                self._left -= 1
                if self._runs(values):
                    known.add(ranks)
                    pending.append(values)
                    yield values
        self.is_exhausted = True

    def _beside(self, base: TrialValues) -> Iterator[TrialValues]:
        arguments = list(dict.fromkeys(path[0] for path in floating_leaves(base)))
        if len(arguments) <= MAX_FREE:
            choices: Iterator[tuple[Reshaping, ...]] = product(_CHANGES, repeat=len(arguments))
        else:
            one = [[c if i == k else _CHANGES[0] for i in arguments] for k in arguments for c in _CHANGES[1:]]
            choices = iter([*map(tuple, one), *((c,) * len(arguments) for c in _CHANGES[1:])])
        for chosen in choices:
            values = base
            try:
                for path, leaf in floating_leaves(base).items():
                    change = chosen[arguments.index(path[0])]
                    values = replaced(values, path, change(np.asarray(leaf)))
            except IndexError:  # of no dimension, or of no elements, nothing can be taken away
                continue
            yield values


def without_elements(base: TrialValues) -> Iterator[TrialValues]:
    """Arguments of which one tensor has one dimension and no elements; then all of them."""
    leaves = floating_leaves(base)
    values = base
    for path, leaf in leaves.items():
        empty = np.zeros(0, leaf.dtype)
        yield replaced(base, path, empty)
        values = replaced(values, path, empty)
    yield values


def _ranks(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(leaf.ndim for leaf in floating_leaves(values).values())

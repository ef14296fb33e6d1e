"""Arguments that may not fit an op: those of a sample, with one tensor of another shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


def misfits(arguments: Sequence[Any]) -> Iterator[list[Any]]:
    """The arguments with each array in turn larger, smaller, or with a dimension more or less."""
    for i, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            for shape in _other_shapes(argument.shape):
                yield [*arguments[:i], _of_shape(argument, shape), *arguments[i + 1 :]]


def _other_shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for axis, size in enumerate(shape):
        yield (*shape[:axis], size + 1, *shape[axis + 1 :])
        if size > 1:
            yield (*shape[:axis], size - 1, *shape[axis + 1 :])
        yield (*shape[:axis], *shape[axis + 1 :])
    yield (1, *shape)
    yield (2, *shape)
    yield (*shape, 3)


def _of_shape(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array's elements, over and over, in another shape."""
    flat = array.reshape(-1) if array.size else np.zeros(1, array.dtype)
    return np.resize(flat, shape).astype(array.dtype)

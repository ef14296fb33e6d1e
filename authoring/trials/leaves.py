"""The floating arrays inside arguments and results: what finite differences vary and what gradients belong to.

A leaf is named by its path: the number of the argument, and the place in the list where the argument is a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...compiler.ops.arrays import Array, float_limits

TrialValues: TypeAlias = list[Any]
"""The arguments of one trial."""
Path: TypeAlias = tuple[int, ...]


def is_floating(value: Any) -> bool:
    """Whether a value is an array of floating numbers."""
    return isinstance(value, np.ndarray) and (
        value.dtype.kind == "f" or (value.dtype.kind == "V" and value.dtype.name == "bfloat16")
    )


def floating_leaves(values: Sequence[Any]) -> dict[Path, Array]:
    """Every floating array in the values and in lists and tuples inside them, by path, in order."""
    found: dict[Path, Array] = {}
    for i, value in enumerate(values):
        if isinstance(value, list | tuple):
            found.update(((i, *path), item) for path, item in _walk(value) if is_floating(item))
        elif is_floating(value):
            found[i,] = value
    return found


def precision_of(values: Sequence[Any]) -> float:
    """The relative distance of neighbouring numbers in the shortest floating dtype among arrays; float64's for none."""
    dtypes = {leaf.dtype for leaf in floating_leaves(values).values()} | {np.dtype(np.float64)}
    return max(float(float_limits(dtype).eps) for dtype in dtypes)


def array_leaves(values: Sequence[Any]) -> dict[Path, Array]:
    """Every array, whatever its dtype."""
    return {path: value for path, value in _walk(values) if isinstance(value, np.ndarray)}


def _walk(values: Sequence[Any]) -> Iterator[tuple[Path, Any]]:
    pending: list[tuple[Path, Any]] = [((i,), value) for i, value in reversed(list(enumerate(values)))]
    while pending:
        path, value = pending.pop()
        if isinstance(value, list | tuple):
            pending += [((*path, i), item) for i, item in reversed(list(enumerate(value)))]
        else:
            yield path, value


def at(values: Sequence[Any], path: Path) -> Any:
    """What stands at a path; None where there is nothing."""
    found: Any = values
    for index in path:
        if not isinstance(found, list | tuple) or index >= len(found):
            return None
        found = found[index]
    return found


def replaced(values: Sequence[Any], path: Path, leaf: Any) -> list[Any]:
    """The values with another leaf at a path; nothing else is copied."""
    head, *rest = path
    result = list(values)
    result[head] = leaf if not rest else type(values[head])(replaced(values[head], tuple(rest), leaf))
    return result


def map_arrays(value: Any, change: Any) -> Any:
    """A value with every floating array in it changed."""
    if isinstance(value, list | tuple):
        return type(value)(map_arrays(item, change) for item in value)
    return change(value) if is_floating(value) else value

"""Values to try for a parameter, by its type and, where that leaves a choice, by its name and default."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....compiler.ops.arguments import Shape
from ....compiler.ops.arrays import Array
from ....compiler.types.dtypes import FLOAT32, FLOAT64
from ....compiler.types.schema import Argument
from ....compiler.types.types import (
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NUMBER,
    STR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    is_tensor,
    strip_optional,
)
from .draws import Rng

MAX_COUNT = 200
"""A larger number is not tried for an int: it may be a count."""

_DTYPE = re.compile(r"dtype")
_DIMENSION = re.compile(r"dim|axis|axes")
_SMALL = re.compile(r"eps|tol|delta")
_CHANCE = re.compile(r"^p$|prob|rate|ratio|momentum|smoothing|dropout|decay|keep")
_INDEX = re.compile(r"ind(ex|ices)|^idx|_idx|^ids|label|target|token|class|position")
_MASK = re.compile(r"mask|cond|keep|select|where|valid|dropped")


def looks_like_data(name: str) -> str | None:
    """ "index" or "bool" where a tensor's name says that it holds no numbers to differentiate by."""
    if _MASK.search(name):
        return "bool"
    return "index" if _INDEX.search(name) else None


# --- tensors ---


def _signs(rng: Rng, shape: Shape) -> Array:
    return rng.signs(shape)


def _spread(rng: Rng, shape: Shape, low: float, high: float) -> Array:
    return rng.uniform(low, high, shape)


def _rows(rng: Rng, shape: Shape) -> Array:
    weights = _spread(rng, shape, 0.2, 1.0)
    return weights / (weights.sum(-1, keepdims=True) if shape else 2.0)


def _indices(rng: Rng, shape: Shape, count: int) -> Array:
    """Numbers below `count`, the largest of them always among them, each again where there is room."""
    numbers = count - 1 - np.arange(int(np.prod(shape))) % count
    return rng.shuffled(numbers).reshape(shape)


def _definite(rng: Rng, shape: Shape) -> Array:
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError("no matrix")
    root = rng.normal(shape)
    return np.asarray(root @ root.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1]))


DOMAINS: dict[str, Callable[[Rng, Shape], Array]] = {
    "real": lambda rng, shape: np.asarray(_signs(rng, shape) * _spread(rng, shape, 0.3, 1.7)),
    "positive": lambda rng, shape: _spread(rng, shape, 0.3, 1.7),
    "negative": lambda rng, shape: -_spread(rng, shape, 0.3, 1.7),
    "unit": lambda rng, shape: _spread(rng, shape, 0.15, 0.85),
    "signed unit": lambda rng, shape: np.asarray(_signs(rng, shape) * _spread(rng, shape, 0.15, 0.85)),
    "above one": lambda rng, shape: _spread(rng, shape, 1.2, 2.4),
    "rows": _rows,
    "definite": _definite,
    "small": lambda rng, shape: np.asarray(_signs(rng, shape) * _spread(rng, shape, 0.3e-3, 1.7e-3)),
    "large": lambda rng, shape: np.asarray(_signs(rng, shape) * _spread(rng, shape, 2.0, 12.0)),
    "index": lambda rng, shape: _indices(rng, shape, 2),
    "high index": lambda rng, shape: _indices(rng, shape, 3),
    "first index": lambda rng, shape: _indices(rng, shape, 1),
    "bool": lambda rng, shape: np.asarray(rng.uniform(shape=shape) < 0.6),
    "all true": lambda rng, shape: np.ones(shape, bool),
    "all false": lambda rng, shape: np.zeros(shape, bool),
}
"""Kinds of numbers that a tensor may hold. None lies near zero, where many functions have a kink."""

MASKS = ("bool", "all true", "all false")
INDICES = ("high index", "index", "first index")
"""Those of indices, the largest first."""
DATA = (*INDICES, *MASKS)
"""Domains whose arrays are no floating numbers."""


def example_like(rng: Rng, array: Array, attempt: int) -> Array:
    """An array for an example: a constant one stands for its shape, another is moved a little on a retry."""
    flat = array.ravel()
    if flat.size > 1 and (flat == flat[0]).all():
        if flat[0] == 0:
            return DOMAINS["real"](rng, array.shape)
        return np.asarray(flat[0] * _spread(rng, array.shape, 0.6, 1.4))
    return array if attempt == 0 else np.asarray(array * _spread(rng, array.shape, 0.98, 1.02))


# --- other parameters ---


def choices(argument: Argument, strings: Sequence[str], compared: Sequence[int | float] = ()) -> list[Any]:
    """Values for a parameter that holds no tensor, the default first.

    `strings` are the texts that the source names, `compared` the numbers that it compares with.
    """
    # What is no probability by its default is none, whatever its name.
    beyond = isinstance(argument.default, int | float) and not 0 <= argument.default <= 1
    name = "" if beyond and _CHANCE.search(argument.name) else argument.name
    found = [*_of_type(argument.type, name, strings), *_at_borders(strip_optional(argument.type), compared)]
    if argument.required:
        return found
    default = list(argument.default) if isinstance(argument.default, tuple) else argument.default
    return [default, *(v for v in found if v != default or type(v) is not type(default))]


def _at_borders(type: Type, compared: Sequence[int | float]) -> list[Any]:
    """What lies below, at and above the numbers that are compared with."""
    if type == INT:
        return [int(c) + d for c in compared if abs(c) <= MAX_COUNT and c == int(c) for d in (-1, 0, 1)]
    if type in (FLOAT, NUMBER):
        return [float(c) * f for c in compared for f in (0.5, 1.0, 2.0)]
    return []


def _of_type(type: Type, name: str, strings: Sequence[str]) -> list[Any]:
    if isinstance(type, OptionalType):
        return [*_of_type(type.element, name, strings), None]
    if isinstance(type, ListType):
        return _lists(type.element, name, strings)
    if isinstance(type, TupleType):
        parts = [_of_type(element, name, strings) for element in type.elements]
        return [tuple(part[min(i, len(part) - 1)] for part in parts) for i in range(3)]
    if type == INT and _DTYPE.search(name):
        return [FLOAT64.code, FLOAT32.code]
    if type == INT:
        return [-1, 0, 1] if _DIMENSION.search(name) else [2, 1, 3, 0, -1, 4]
    if type in (FLOAT, NUMBER):
        return _floats(name) + ([2, 3] if type == NUMBER else [])
    table: dict[Type, list[Any]] = {BOOL: [False, True], STR: [*strings, "mean", "none"], DEVICE: ["cpu"]}
    return table.get(type, [None])


def _floats(name: str) -> list[Any]:
    if _SMALL.search(name):
        return [0.1, 1e-3]
    return [0.3, 0.6] if _CHANCE.search(name) else [1.5, 0.5, -0.7, 2.0]


def _lists(element: Type, name: str, strings: Sequence[str]) -> list[Any]:
    if element == INT and _DIMENSION.search(name):
        return [[-1], [0], [0, 1], [1, 0], [-1, -2], [0, 2, 1], [1, 2, 0], [2, 0, 1], [0, 1, 2]]
    if element == INT and name.startswith("normalized"):
        return [[3], [4], [2, 3]]
    if element == INT:
        return [[2, 6], [12], [3, 4], [4, 3], [1, 0], [2], [1], [1, 1], [2, 2], [2, 3], [-1], [0, 2, 1], [3, 3, 4], [3]]
    items = _of_type(element, name, strings)
    return [[items[0]], [items[0], items[-1]], [items[0]] * 3]


def is_dtype(argument: Argument) -> bool:
    """Whether a parameter takes a dtype, by its name."""
    return strip_optional(argument.type) == INT and bool(_DTYPE.search(argument.name))


def holds_tensors(type: Type) -> bool:
    """Whether a parameter of the type takes a shape: a tensor, or a list of tensors."""
    type = strip_optional(type)
    return is_tensor(type) or (isinstance(type, ListType) and is_tensor(strip_optional(type.element)))

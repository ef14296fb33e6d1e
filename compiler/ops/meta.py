"""A tensor without its elements, and the lattice of what may be known of a value before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from operator import is_
from typing import Any, TypeAlias

from ...lang.light_dataclasses import dataclass
from ..types.dtypes import DType
from .arrays import Array, dtype_of

Abstract: TypeAlias = Any
"""What is known of a value: Meta | bool | int | float | str | None | list | tuple | UNKNOWN."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: DType

    def __eq__(self, other: object) -> bool:
        # Of other ranks nothing is asked: sizes that are open would be held to what they were found to be.
        if not isinstance(other, Meta):
            return NotImplemented
        return len(self.shape) == len(other.shape) and self.dtype == other.dtype and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype.code))

    @classmethod
    def of(cls, array: Array) -> Meta:
        return cls(tuple(array.shape), dtype_of(array))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a contiguous tensor of this kind."""
        return self.numel * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class OpenList:
    """A list whose length is an open size; its elements are all alike."""

    item: Any
    length: int


class UnknownType:
    """The type of UNKNOWN: a value that depends on elements."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = UnknownType()


def is_known(value: Any) -> bool:
    """Whether no part of an abstract value is UNKNOWN."""
    if not isinstance(value, list | tuple | OpenList):
        return value is not UNKNOWN
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        if item is UNKNOWN:
            return False
        if type(item) is OpenList:
            pending.append(item.item)
        elif isinstance(item, list | tuple):
            pending += item[:1] if are_alike(item) else _apart(item)
    return True


def are_alike(items: Sequence[Any]) -> bool:
    """Whether all elements of a list are one kind of tensor, as weights are over the layers of a model."""
    if not items or not isinstance(items[0], Meta):
        return False
    return all(item == items[0] for item in _apart(items))


def _apart(items: Sequence[Any]) -> Collection[Any]:
    """The objects that stand in a list, each once. Lists are as long as loops have rounds: no step of Python for each
    element."""
    return dict(zip(map(id, items), items, strict=True)).values()


def for_each(items: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """What a function gives for each element of a list, asked once for elements that are one object, as those of equal
    layers are."""
    results = {id(item): function(item) for item in _apart(items)}
    return list(map(results.__getitem__, map(id, items)))


def for_pairs(left: Sequence[Any], right: Sequence[Any], function: Callable[[Any, Any], Any]) -> list[Any]:
    """The same of two lists, element by element."""
    keys = list(zip(map(id, left), map(id, right), strict=True))
    pairs = dict(zip(keys, zip(left, right, strict=True), strict=True))
    results = {key: function(*pair) for key, pair in pairs.items()}
    return list(map(results.__getitem__, keys))


def _is_equal(left: Any, right: Any) -> bool:
    """Zeros have a sign, and nan is nan."""
    return repr(left) == repr(right) if isinstance(left, float) else bool(left == right)


def join(left: Any, right: Any) -> Any:
    """What two abstract values have in common. Lists nest as deep as a type in source does, so this recurses."""
    if type(left) is OpenList or type(right) is OpenList:
        return _join_open(left, right)
    if left is right or (type(left) is type(right) and not isinstance(left, list | tuple) and _is_equal(left, right)):
        return left
    if isinstance(left, list | tuple) and type(left) is type(right) and len(left) == len(right):
        if all(map(is_, left, right)) or (are_alike(left) and left == right):
            return left
        return type(left)(for_pairs(left, right, join))
    return UNKNOWN


def _join_open(left: Any, right: Any) -> Any:
    if type(left) is not type(right) or left.length != right.length:
        return UNKNOWN
    return OpenList(join(left.item, right.item), left.length)


def is_defined(gradient: Any) -> bool | UnknownType:
    """Whether a gradient is there, by its abstract value; of a list, whether one of its elements is."""
    if type(gradient) is OpenList:
        return is_defined(gradient.item)
    if not isinstance(gradient, list):
        return UNKNOWN if gradient is UNKNOWN else gradient is not None
    found = [is_defined(item) for item in _apart(gradient)]
    return True if True in found else UNKNOWN if UNKNOWN in found else False

"""What an exported function takes: tensors of sizes with names, and the samples of sizes by which it is planned.

Of sizes that were equal in the arguments given each is one; those in front, that all tensors which have them share, are
a batch: `x: (*batch, columns)`, `weight: (columns,)`, `target: batch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ...compiler.fusion.fuse import ArgumentFacts
from ...compiler.kernel_ir.layout import Layout
from ...compiler.ops.meta import UNKNOWN, Meta
from ...compiler.types.dtypes import BY_NAME, DType
from ...lang.light_dataclasses import dataclass, replace

ROWS = "rows"
BATCH = "batch"
NAMES = ("columns", "lines", "planes", "blocks", "groups", "depth", "width", "height")
"""Of sizes, from the last one on."""
TAKEN = "_size"
"""What is behind the name of a size where an argument has that name."""
FIXED = "fixed"

_ROWS = ((70, 130, 165), (37, 66, 101))
"""Of a batch; fewer where tensors have more than one size behind it."""
_BATCHES = ((10, 13), (6, 11))
"""The second of these, as two sizes."""
_SAMPLES = (
    (1019, 622, 945),
    (17, 31, 50),
    (331, 214, 459),
    (13, 23, 34),
    (29, 17, 22),
    (7, 11, 18),
    (5, 9, 14),
    (3, 5, 8),
)
"""For each size that is no batch: odd and even ones, none near a power of two, and all of one class of blocks."""
_SHORTER = (251, 166, 237)
"""For the last one, where there are more."""
_LONG = (9011, 8722, 10245)
"""For the last one, where rows are too long for a program to hold."""


@dataclass(frozen=True, slots=True)
class Size:
    """A number, or a multiple of a named size."""

    name: str
    times: Fraction = Fraction(1)
    number: int = 0

    @property
    def is_columns(self) -> bool:
        """Whether it is that of a row itself."""
        return self.name.removesuffix(TAKEN) == NAMES[0] and self.times == 1

    def text(self) -> str:
        if self.name == FIXED:
            return str(self.number)
        text = self.name if self.times.numerator == 1 else f"{self.times.numerator} * {self.name}"
        return text if self.times.denominator == 1 else f"{text} // {self.times.denominator}"


@dataclass(frozen=True, slots=True)
class SampleShape:
    """The sizes of a tensor behind the batch, if it has that."""

    batched: bool
    sizes: tuple[Size, ...]
    dtype: DType


@dataclass(frozen=True)
class ExportSignature:
    """`arguments` has a SampleShape for a tensor, and what else is given as it is.

    `multiple` divides the named sizes.
    """

    arguments: tuple[Any, ...]
    batch: int = 1
    """How many dimensions the batch had where the arguments came from; 0 where there is none."""
    any_batch: bool = True
    """Whether it may have any number of them."""
    multiple: int = 1
    is_long: bool = False
    settled: bool = False
    """Whether floats are numbers that are known."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The named sizes, the batch aside."""
        sizes = [size for given in self.shapes for size in given.sizes if size.name != FIXED]
        return tuple(
            dict.fromkeys(
                size.name for size in sorted(sizes, key=lambda size: NAMES.index(size.name.removesuffix(TAKEN)))
            )
        )

    @property
    def shapes(self) -> Iterator[SampleShape]:
        return (given for given in self.arguments if isinstance(given, SampleShape))

    @property
    def has_batch(self) -> bool:
        return any(shape.batched for shape in self.shapes)

    @cached_property
    def symbols(self) -> dict[str, tuple[int, ...]]:
        """The sizes in each sample, by name."""
        rows = {ROWS: _ROWS[self._is_deep]} if self.has_batch else {}
        return rows | {name: self._sample(number, name) for number, name in enumerate(self.names)}

    @property
    def _is_deep(self) -> bool:
        return len(self.names) > 1

    def _sample(self, number: int, name: str) -> tuple[int, ...]:
        found = _SAMPLES[number]
        if name.removesuffix(TAKEN) == NAMES[0] and (self.is_long or self._is_deep):
            found = _LONG if self.is_long else _SHORTER
        return tuple([max(value // self.multiple, 2) * self.multiple for value in found])

    def given(self, sample: int, half: DType | None = None) -> list[ArgumentFacts]:
        """What a program of one sample is planned for; with floating tensors of another dtype, if one is given."""
        return [self._given(argument, sample, half) for argument in self.arguments]

    def _given(self, argument: Any, sample: int, half: DType | None) -> ArgumentFacts:
        if not isinstance(argument, SampleShape):
            return UNKNOWN if isinstance(argument, float) and not self.settled else argument
        sizes = [self.size(size, sample) for size in argument.sizes]
        batch = self._batch(sample) if argument.batched else ()
        dtype = half if half is not None and argument.dtype.is_floating else argument.dtype
        return Layout.contiguous(Meta((*batch, *sizes), dtype))

    def size(self, size: Size, sample: int) -> int:
        return size.number if size.name == FIXED else int(self.symbols[size.name][sample] * size.times)

    def _batch(self, sample: int) -> tuple[int, ...]:
        return _BATCHES[self._is_deep] if sample == 1 and self.any_batch else (_ROWS[self._is_deep][sample],)

    def merged(self, shape: Sequence[int], sample: int) -> tuple[bool, tuple[int, ...]]:
        """A shape of a sample as (whether it begins with the batch, the sizes behind it)."""
        batch = self._batch(sample)
        starts = self.has_batch and tuple(shape[: len(batch)]) == batch
        return starts, tuple(shape[len(batch) :]) if starts else tuple(shape)


def signatures(values: Sequence[Any], taken: Sequence[str] = ()) -> Iterator[ExportSignature]:
    """What arguments like these may stand for, the most general first; no size has a name that is taken."""
    floats = (False, True) if any(isinstance(value, float) for value in values) else (False,)
    for found in _readings(values, taken):
        batches = (True, False) if found.batch else (False,)
        for multiple, any_batch, settled in product((1, 2, 4, 8), batches, floats):
            yield replace(found, multiple=multiple, any_batch=any_batch, settled=settled)
    fixed = ExportSignature(tuple(_shape(value, 0, {}) for value in values), 0, False)
    yield from (replace(fixed, settled=settled) for settled in floats)


def _readings(values: Sequence[Any], taken: Sequence[str]) -> Iterator[ExportSignature]:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if not arrays:
        return
    top = max(arrays, key=lambda array: array.ndim)
    for related in (False, True):
        named = _named(top, arrays, related, taken)
        batch = _batch_of(top, arrays)
        yield ExportSignature(tuple(_shape(value, batch, named, top.shape[:batch]) for value in values), batch)


def _named(top: np.ndarray, arrays: Sequence[np.ndarray], related: bool, taken: Sequence[str]) -> dict[int, Size]:
    """Sizes by what they were; if `related`, a size that divides another one, or is a multiple of it, follows it."""
    names = iter([f"{name}{TAKEN}" if name in taken else name for name in NAMES])
    found: dict[int, Size] = {1: Size(FIXED, number=1)}
    for array in (top, *arrays):
        for number in reversed(array.shape):
            if number in found:
                continue
            ratio = _ratio(number, found) if related else None
            name = None if ratio else next(names, None)
            found[number] = ratio or (Size(name) if name else Size(FIXED, number=number))
    return found


def _ratio(number: int, found: dict[int, Size]) -> Size | None:
    for other, size in found.items():
        if size.name != FIXED and number > 1 and (other % number == 0 or number % other == 0):
            return Size(size.name, size.times * Fraction(number, other))
    return None


def _batch_of(top: np.ndarray, arrays: Sequence[np.ndarray]) -> int:
    """How many of the first dimensions are those of all that have any of them; the last one is none of them."""
    for count in range(top.ndim - 1, 0, -1):
        front = top.shape[:count]
        if all(_has_all_or_none(array, front) for array in arrays):
            return count
    return 0


def _has_all_or_none(array: np.ndarray, front: tuple[int, ...]) -> bool:
    if array.shape[: len(front)] == front:
        return not set(array.shape[len(front) :]) & set(front)
    return not set(array.shape) & set(front)


def _shape(value: Any, batch: int, named: dict[int, Size], front: tuple[int, ...] = ()) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    batched = bool(batch) and value.shape[:batch] == front
    behind = value.shape[batch:] if batched else value.shape
    dtype = BY_NAME["float32"] if value.dtype.kind == "f" else BY_NAME[value.dtype.name]
    return SampleShape(batched, tuple(named.get(number, Size(FIXED, number=number)) for number in behind), dtype)

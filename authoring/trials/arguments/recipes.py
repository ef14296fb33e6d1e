"""A recipe says how the arguments of one trial are made; the same recipe gives fresh numbers each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ....compiler.ops.arguments import Shape
from ....compiler.types.types import ListType, Type, strip_optional
from ....lang.light_dataclasses import dataclass, replace
from ..leaves import is_floating, map_arrays
from .draws import Rng
from .samples import DATA, DOMAINS, INDICES, example_like
from .shapes import ShapeList


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor of a shape and a domain; with `count`, a list of so many."""

    shape: Shape
    domain: str
    count: int | None = None

    def make(self, rng: Rng, attempt: int) -> Any:
        if self.count is None:
            return DOMAINS[self.domain](rng, self.shape)
        return [DOMAINS[self.domain](rng, self.shape) for _ in range(self.count)]

    @property
    def is_data(self) -> bool:
        return self.domain in DATA


@dataclass(frozen=True, slots=True)
class PlainEntry:
    """A value that is what it is: a number, a flag, a list of sizes, None."""

    value: Any

    def make(self, rng: Rng, attempt: int) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class ExampleEntry:
    """A value that the author gave, its floating arrays in float64."""

    value: Any

    def make(self, rng: Rng, attempt: int) -> Any:
        return map_arrays(self.value, lambda array: example_like(rng, array.astype(np.float64), attempt))


@dataclass(frozen=True, slots=True, eq=False)
class FixedEntry:
    """A value that was found to reach something: as it is, then next to that."""

    value: Any

    def make(self, rng: Rng, attempt: int) -> Any:
        if attempt == 0:
            return self.value
        return map_arrays(self.value, lambda array: array * rng.uniform(1 - 1e-3, 1 + 1e-3, array.shape))


RecipeEntry: TypeAlias = TensorEntry | PlainEntry | ExampleEntry | FixedEntry


def recipe_entry(value: Any) -> RecipeEntry:
    """The entry of an argument as it was given."""
    return ExampleEntry(value) if isinstance(value, np.ndarray) else PlainEntry(value)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One entry per parameter. `dtype` is that of every floating array."""

    entries: tuple[RecipeEntry, ...]
    dtype: str = "float64"

    def make(self, rng: Rng, attempt: int = 0) -> list[Any]:
        made = (entry.make(rng, attempt) for entry in self.entries)
        # What is computed from an array of no dimensions is a number of NumPy's, and no array.
        values = [np.asarray(value) if isinstance(value, np.generic) else value for value in made]
        dtype = np.dtype(self.dtype)
        return [map_arrays(value, lambda array: array.astype(dtype)) for value in values]

    @property
    def shapes(self) -> ShapeList:
        """The shapes of tensors, in the order of parameters."""
        found: list[Shape] = []
        for entry in self.entries:
            if isinstance(entry, TensorEntry):
                found.append(entry.shape)
            elif isinstance(entry, ExampleEntry | FixedEntry) and isinstance(entry.value, np.ndarray):
                found.append(entry.value.shape)
        return tuple(found)

    def with_entry(self, index: int, entry: RecipeEntry) -> Recipe:
        return replace(self, entries=(*self.entries[:index], entry, *self.entries[index + 1 :]))

    def with_shapes(self, shapes: Sequence[Shape]) -> Recipe:
        """Other shapes for the tensors that are present."""
        pending = iter(shapes)
        entries = [replace(e, shape=next(pending)) if isinstance(e, TensorEntry) else e for e in self.entries]
        return replace(self, entries=tuple(entries))

    def with_domain(self, domain: str) -> Recipe:
        """Another domain for every tensor of floating numbers."""
        entries = [
            replace(e, domain=domain) if isinstance(e, TensorEntry) and not e.is_data else e for e in self.entries
        ]
        return replace(self, entries=tuple(entries))

    def with_indices(self, domain: str) -> Recipe:
        """Other indices for every tensor that holds such."""
        entries = [
            replace(e, domain=domain) if isinstance(e, TensorEntry) and e.domain in INDICES else e for e in self.entries
        ]
        return replace(self, entries=tuple(entries))

    def with_dtype(self, dtype: str) -> Recipe:
        return replace(self, dtype=dtype)

    def describe(self, names: Sequence[str]) -> str:
        """What is tried, in one line: `x: (2, 3), dim: -1`."""
        shown = [f"{name}: {short_text(value)}" for name, value in zip(names, map(_shown, self.entries), strict=True)]
        note = [] if self.dtype == "float64" else [self.dtype]
        return ", ".join(shown + note)


def _shown(entry: RecipeEntry) -> Any:
    if isinstance(entry, TensorEntry):
        text = f"{_shape_text(entry.shape)}{'' if entry.domain == 'real' else ' ' + entry.domain}"
        return _Text(text if entry.count is None else f"{entry.count} × {text}")
    if isinstance(entry, FixedEntry) and isinstance(entry.value, np.ndarray) and entry.value.size:
        return _Text(f"{_shape_text(entry.value.shape)} from {entry.value.min():.4g} to {entry.value.max():.4g}")
    return entry.value


class _Text(str):
    __slots__ = ()


def short_text(value: Any) -> str:
    """A value in a few characters: the shape of an array, a number itself."""
    if isinstance(value, _Text):
        return str(value)
    if isinstance(value, np.ndarray):
        return _shape_text(value.shape) if is_floating(value) else f"{_shape_text(value.shape)} {value.dtype}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(short_text(item) for item in value)}]"
    return repr(value)


def _shape_text(shape: Shape) -> str:
    return str(tuple(shape))


def example_recipe(values: Sequence[Any]) -> Recipe:
    """The recipe that makes what an author gave."""
    return Recipe(tuple(ExampleEntry(v) if _has_arrays(v) else PlainEntry(v) for v in values))


def fixed_recipe(values: Sequence[Any]) -> Recipe:
    """The recipe that makes these very values."""
    return Recipe(tuple(FixedEntry(v) if _has_arrays(v) else PlainEntry(v) for v in values))


def _has_arrays(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (isinstance(value, list | tuple) and any(map(_has_arrays, value)))


def tensor_entry(type: Type, shape: Shape, domain: str) -> TensorEntry:
    """The entry for a parameter that takes a tensor or a list of tensors."""
    return TensorEntry(shape, domain, 2 if isinstance(strip_optional(type), ListType) else None)

"""Finding arguments that fit a function: a search over shapes, domains and plain values, until the forward runs.

The first fit is looked for in the order in which things are likely: tensors of real numbers before indices and masks,
equal shapes before families such as matrix products, default values before others. From the first fit the rest
follows: every other family of shapes that runs, every other plain value, small and large numbers, float32.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, product
from math import prod
from typing import Any

import numpy as np

from ....compiler.ops.arguments import Shape
from ....compiler.types.dtypes import FLOAT32
from ....compiler.types.types import BOOL, FLOAT, NUMBER, OptionalType, strip_optional
from ....lang.diagnostics import CompileError
from ....lang.light_dataclasses import replace
from ....runtime.failures.failure import RuntimeFailure
from ..evaluation import Subject
from ..leaves import floating_leaves, is_floating
from .dimensions import batched, sizes_to_try, tied_dimensions
from .draws import Rng
from .recipes import ExampleEntry, PlainEntry, Recipe, RecipeEntry, TensorEntry, tensor_entry
from .samples import INDICES, MASKS, choices, holds_tensors, is_dtype, looks_like_data
from .shapes import (
    STRUCTURED,
    ShapeList,
    beside,
    candidate_shapes,
    equal_shapes,
    is_stretched,
    kind_of_shapes,
    mixed,
    one_smaller,
    shape_signature,
)

SECONDS = 6.0
"""The search for the first fit gives up after so long, of its own time: what else a machine does decides nothing."""
MAX_OPTIONS = 12
"""Values tried of each plain parameter."""
MAX_COMBINATIONS = 12
"""Combinations of plain values that the first sweep tries."""
LIMITS = {"equal": 6, "mixed": 12, "number": 1, "empty": 2}
"""Trials kept of each kind of shapes; a pointwise function has every shape broadcast against every other."""
POINTWISE_MIXED = 24

MAX_SIZE = 256
"""Numbers that the source compares with may be sizes up to this."""
MAX_VARIED = 2
"""Examples that are varied in several values at once."""
MAX_DRAWN = 80
"""Combinations of plain values that are drawn where one at a time do not reach all."""

Domains = tuple[str, ...]


class InputSearch:
    """Looks for arguments of one function, but for those that are `given`, by their number."""

    def __init__(self, subject: Subject, seed: int = 0, given: Mapping[int, RecipeEntry] | None = None) -> None:
        self.subject = subject
        self.rng = Rng(seed)
        self.arguments = subject.schema.arguments
        self.given: Mapping[int, RecipeEntry] = given or {}
        wanted = [i for i in range(len(self.arguments)) if i not in self.given]
        self.tensors = [i for i in wanted if holds_tensors(self.arguments[i].type)]
        self.plain = [i for i in wanted if i not in self.tensors]
        strings = _strings(subject)
        self.gives_no_numbers = False
        """Whether the forward ran, and gave nothing that has a derivative."""
        self.choices = {i: choices(self.arguments[i], strings, subject.compared) for i in self.plain}

    def recipes(self) -> list[Recipe]:
        """Everything to try, likeliest first; nothing if no arguments fit."""
        first = self.first_fit()
        if first is None:
            return []
        found = [first, *self._other_shapes(first), *self._other_sizes(first)]
        found += self._other_domains(first)
        found += self._other_values(first)
        found += [r.with_dtype("float32") for r in (first, *found[1:3]) if self.fits(r.with_dtype("float32"))]
        return _distinct(found)

    # --- the first fit ---

    def first_fit(self) -> Recipe | None:
        """The first recipe on which the forward runs, and the backward too if there is such a one."""
        start = time.thread_time()
        forward_only: Recipe | None = None
        empty: Recipe | None = None
        for families in (self._candidates(len(self.tensors)), mixed(len(self.tensors)) if self.tensors else ()):
            for recipe, status in self._attempts(list(families)):
                if status == "fits" and any(0 in shape for shape in recipe.shapes):
                    # What has no elements shows nothing, and runs where others would not.
                    empty = empty or recipe
                    continue
                if status == "fits" and self._goes_back(recipe):
                    return recipe
                if status == "fits" and forward_only is None:
                    forward_only = recipe
                if time.thread_time() - start > (SECONDS if self._may_come(forward_only) else SECONDS / 6):
                    return forward_only or empty
        return forward_only or empty

    def _may_come(self, forward_only: Recipe | None) -> bool:
        return forward_only is None and not self.gives_no_numbers

    def _goes_back(self, recipe: Recipe) -> bool:
        """Whether the backward runs on what a recipe makes."""
        try:
            values = recipe.make(self.rng)
            outputs = self.subject.forward(values)
            self.subject.gradient(values, self.subject.seeds(outputs, np.ones_like))
        except (RuntimeFailure, CompileError):
            return False
        return True

    def _attempts(self, shapes: Sequence[ShapeList]) -> Iterator[tuple[Recipe, str]]:
        """Recipes in the order in which they are likely, and how they did. Where one gives NaN, domains vary."""
        for combination in self._combinations():
            for kinds in self._kinds():
                for assignment in shapes:
                    recipe = self._recipe(assignment, kinds, combination)
                    status = self._status(recipe)
                    yield recipe, status
                    if status == "not finite":
                        others = list(self._by_domain(assignment, kinds, combination))
                        yield from ((other, self._status(other)) for other in others)
                        break

    def _by_domain(self, shapes: ShapeList, kinds: Domains, combination: Sequence[Any]) -> Iterator[Recipe]:
        """The same shapes with numbers from other domains: one domain for all, then one for each."""
        others = ("positive", "unit", "signed unit", "above one", "rows", "definite", "negative")
        for domain in others:
            yield self._recipe(shapes, tuple(domain if k == "real" else k for k in kinds), combination)
        free = [i for i, k in enumerate(kinds) if k == "real"]
        if 1 < len(free) <= 3:
            for chosen in product(("real", *others[:4]), repeat=len(free)):
                named = dict(zip(free, chosen, strict=True))
                yield self._recipe(shapes, tuple(named.get(i, k) for i, k in enumerate(kinds)), combination)

    def _kinds(self) -> Iterator[Domains]:
        """For each tensor whether it holds numbers, indices or flags: numbers first, then what its name says."""
        count = len(self.tensors)
        yield ("real",) * count
        base = tuple(self._named_kind(i) for i in self.tensors)
        if any(kind != "real" for kind in base):
            yield base
            yield tuple("index" if kind == "high index" else kind for kind in base)
        for domain in ("unit", "positive"):
            # A function may assert the domain of what it takes.
            yield tuple(domain if kind == "real" else kind for kind in base)
        for kind in ("high index", "index", "bool"):
            for i in range(count):
                if base[i] != kind:
                    yield (*base[:i], kind, *base[i + 1 :])
        if count == 2:
            yield ("index", "index")
        if count > 2:
            yield from (t for t in product(("real", "index", "bool"), repeat=min(count, 4)) if len(t) == count)

    def _named_kind(self, index: int) -> str:
        kind = looks_like_data(self.arguments[index].name)
        return {"index": "high index", "bool": "bool"}.get(kind or "", "real")

    def _combinations(self) -> list[tuple[Any, ...]]:
        """Values for the plain parameters together, first choices first."""
        lists = [self.choices[i] for i in self.plain]
        if not lists:
            return [()]
        ranked = sorted(product(*(range(min(len(c), 14)) for c in lists[:4])), key=sum)[: MAX_COMBINATIONS * 4]
        tails = tuple(c[0] for c in lists[4:])
        return [(*(c[i] for c, i in zip(lists, picks, strict=False)), *tails) for picks in ranked]

    def _recipe(self, shapes: ShapeList, kinds: Domains, combination: Sequence[Any]) -> Recipe:
        entries = dict(self.given) | {i: PlainEntry(v) for i, v in zip(self.plain, combination, strict=True)}
        for i, shape, kind in zip(self.tensors, shapes, kinds, strict=True):
            entries[i] = tensor_entry(self.arguments[i].type, shape, kind)
        return Recipe(tuple(entries[i] for i in range(len(self.arguments))))

    def fits(self, recipe: Recipe) -> bool:
        return self._status(recipe) == "fits"

    def _status(self, recipe: Recipe) -> str:
        """Whether the forward runs on a recipe and gives finite numbers."""
        try:
            outputs = self.subject.forward(recipe.make(self.rng))
        except (RuntimeFailure, ValueError, TypeError):
            return "raises"
        leaves = floating_leaves(outputs)
        if not leaves:
            self.gives_no_numbers = True
            return "raises"
        return "fits" if all(np.isfinite(leaf).all() for leaf in leaves.values()) else "not finite"

    # --- what follows from it ---

    def _other_shapes(self, first: Recipe) -> list[Recipe]:
        present = [e for e in first.entries if isinstance(e, TensorEntry)]
        limits = dict(LIMITS)
        if self.subject.is_pointwise:
            limits["mixed"] = POINTWISE_MIXED
        found: list[Recipe] = []
        seen = {(shape_signature(first.shapes), len(set(first.shapes)))}
        deadline = time.thread_time() + SECONDS / 3
        for shapes in self._variations(first, len(present)):
            kind = kind_of_shapes(shapes)
            key = (shape_signature(shapes), len(set(shapes)))
            if key in seen or limits[kind] <= 0:
                continue
            recipe = first.with_shapes(shapes)
            if self._is_natural(recipe, first) and self.fits(recipe):
                seen.add(key)
                limits[kind] -= 1
                found.append(recipe)
            if time.thread_time() > deadline:
                break
        return found

    def _other_sizes(self, first: Recipe) -> list[Recipe]:
        """Every dimension that can have another size at nothing, one, two and more, and one dimension more."""

        def fits(shapes: ShapeList) -> bool:
            return self._with_lower_indices(first.with_shapes(shapes), first) is not None

        tensors = [entry for entry in first.entries if isinstance(entry, TensorEntry)]
        shapes = tuple(entry.shape for entry in tensors)
        tied = tied_dimensions(shapes, fits, [i for i, entry in enumerate(tensors) if entry.is_data])
        named = [int(c) + d for c in self.subject.compared if 2 < c <= MAX_SIZE and c == int(c) for d in (-1, 0, 1)]
        tried = dict.fromkeys(chain(sizes_to_try(shapes, tied, fits, named[:6]), batched(shapes)))
        # Where no shapes that are alike but for their sizes fit, as of square matrices, broadcasting was not tried.
        alike = self._alike(first, len(shapes)) is not None
        natural = (first.with_shapes(s) for s in tried if s != shapes and not (alike and _is_broadcast_anew(s, shapes)))
        fitting = (self._with_lower_indices(recipe, first) for recipe in natural)
        return [recipe for recipe in fitting if recipe is not None]

    def _with_lower_indices(self, recipe: Recipe, first: Recipe) -> Recipe | None:
        """A recipe that fits: with lower indices where there are too few places for those that it has.

        Where the first that fits names no place twice, as what copies into places may ask for, neither do others.
        """
        tried = [recipe, *(recipe.with_indices(domain) for domain in INDICES[1:])]
        return next((r for r in tried if (_repeats(first) or not _repeats(r)) and self.fits(r)), None)

    def _alike(self, first: Recipe, count: int) -> ShapeList | None:
        """One shape for all tensors, of two dimensions or more, if it fits."""
        return next((s for s in equal_shapes(count) if len(s[0]) >= 2 and self.fits(first.with_shapes(s))), None)

    def _candidates(self, count: int) -> Iterator[ShapeList]:
        given = dict.fromkeys(e.value.shape for e in self.given.values() if isinstance(e, ExampleEntry))
        return chain(beside(list(given), count), candidate_shapes(count, self.subject.is_pointwise))

    def _variations(self, first: Recipe, count: int) -> Iterator[ShapeList]:
        """Shapes to try once one assignment fits: broadcasting only if tensors of equal shapes go together."""
        if count <= 1 or self.subject.is_pointwise:
            return self._candidates(count)
        return chain(
            STRUCTURED.get(count, ()), equal_shapes(count), one_smaller(count) if self._alike(first, count) else ()
        )

    def _is_natural(self, recipe: Recipe, first: Recipe) -> bool:
        """Indices keep the dimensions of the first fit, and masks are not what the numbers are broadcast to."""
        tensors = [e for e in recipe.entries if isinstance(e, TensorEntry)]
        if not any(e.is_data for e in tensors):
            return True
        if any(e.domain not in MASKS and e.is_data for e in tensors):
            return shape_signature(recipe.shapes) == shape_signature(first.shapes)
        return not is_stretched(tuple(e.shape for e in tensors if not e.is_data), recipe.shapes)

    def _other_domains(self, first: Recipe) -> list[Recipe]:
        """Other signs and magnitudes, and more of the same, so that every branch of the function is met."""
        domains = ["positive", "negative", "small", "large"]
        found = [first.with_domain(domain) for domain in domains]
        for i, entry in enumerate(first.entries):
            if isinstance(entry, TensorEntry) and entry.domain in MASKS:
                found += [first.with_entry(i, replace(entry, domain=domain)) for domain in MASKS[1:]]
        return [r for r in found if r != first and self.fits(r)]

    def _other_values(self, first: Recipe) -> list[Recipe]:
        """Each plain parameter at its other values, each optional tensor left out, lists of other lengths."""
        found: list[Recipe] = []
        for i in self.plain:
            options = [PlainEntry(v) for v in self.choices[i][:MAX_OPTIONS]]
            found += self._fitting([first.with_entry(i, o) for o in options if o != first.entries[i]])
        absent = [i for i in self.tensors if isinstance(self.arguments[i].type, OptionalType)]
        for group in [[i] for i in absent] + ([absent] if len(absent) > 1 else []):
            recipe = first
            for i in group:
                recipe = recipe.with_entry(i, PlainEntry(None))
            found += self._fitting([recipe])
        for i in self.tensors:
            entry = first.entries[i]
            if isinstance(entry, TensorEntry) and entry.count is not None:
                found += self._fitting([first.with_entry(i, replace(entry, count=n)) for n in (1, 3)])
        return found

    def _fitting(self, recipes: Sequence[Recipe]) -> list[Recipe]:
        """Each recipe that runs, with other shapes if need be."""
        found = []
        for recipe in recipes:
            count = sum(isinstance(e, TensorEntry) for e in recipe.entries)
            shapes = (recipe.with_shapes(s) for s in islice(self._candidates(count), 40))
            fitting = next((r for r in (recipe, *shapes) if self.fits(r)), None)
            if fitting is not None:
                found.append(fitting)
        return found[:MAX_OPTIONS]

    def varied(self, given: Sequence[Recipe]) -> Iterator[Recipe]:
        """Examples with one plain value another, or an optional tensor left out, then several at once."""
        absent = [i for i in self.tensors if isinstance(self.arguments[i].type, OptionalType)]
        for recipe in given:
            for i in self.plain:
                yield from (recipe.with_entry(i, PlainEntry(value)) for value in self.choices[i][:MAX_OPTIONS])
            yield from (recipe.with_entry(i, PlainEntry(None)) for i in absent)
        for recipe in given[:MAX_VARIED]:
            yield from self.drawn(recipe)

    def with_other_numbers(self, given: Sequence[Recipe]) -> Iterator[Recipe]:
        """Examples with each number or flag another, if they say but one: where that is neutral, it is not then."""
        for i in (i for i in self.plain if strip_optional(self.arguments[i].type) in (FLOAT, NUMBER, BOOL)):
            said = [entry.value for entry in (r.entries[i] for r in given) if isinstance(entry, PlainEntry)]
            if len(set(said)) > 1:
                continue
            others = [value for value in self.choices[i] if value is not None and value not in said]
            varied = (recipe.with_entry(i, PlainEntry(value)) for value in others for recipe in given[:MAX_VARIED])
            yield from islice(filter(self.fits, varied), 1)

    def in_other_dtypes(self, given: Sequence[Recipe]) -> Iterator[Recipe]:
        """Examples that compute in a shorter dtype, where a parameter says in which."""
        for i in (i for i in self.plain if is_dtype(self.arguments[i])):
            yield from (recipe.with_entry(i, PlainEntry(FLOAT32.code)) for recipe in given[:MAX_VARIED])

    def broadcast_examples(self, given: Sequence[Recipe]) -> Iterator[Recipe]:
        """Examples with one tensor of size 1 in its first dimension, or without it, where the results keep their shape:
        a backward that sums to sizes takes that on."""
        for recipe in given if self.subject.sums_to_sizes else ():
            shapes = self._result_shapes(recipe)
            for i, entry in enumerate(recipe.entries):
                value = entry.value if isinstance(entry, ExampleEntry) else None
                if not isinstance(value, np.ndarray) or not is_floating(value) or not value.ndim or value.shape[0] < 2:
                    continue
                others = (recipe.with_entry(i, ExampleEntry(part)) for part in (value[:1], value[0]))
                yield from (other for other in others if shapes is not None and self._result_shapes(other) == shapes)

    def _result_shapes(self, recipe: Recipe) -> list[Shape] | None:
        try:
            outputs = self.subject.forward(recipe.make(self.rng))
        except (RuntimeFailure, ValueError, TypeError):
            return None
        return [leaf.shape for leaf in floating_leaves(outputs).values()]

    def drawn(self, first: Recipe) -> Iterator[Recipe]:
        """Plain values and absent tensors in combinations without pattern."""
        absent = [i for i in self.tensors if isinstance(self.arguments[i].type, OptionalType)]
        if len(self.plain) + len(absent) < 2:
            return
        for _ in range(MAX_DRAWN):
            recipe = first
            for i in self.plain:
                recipe = recipe.with_entry(i, PlainEntry(self.choices[i][self.rng.below(len(self.choices[i]))]))
            for i in absent:
                if self.rng.below(2):
                    recipe = recipe.with_entry(i, PlainEntry(None))
            yield recipe


def _is_broadcast_anew(shapes: ShapeList, first: ShapeList) -> bool:
    """Whether tensors of one shape have unlike ones now: those are tried as broadcasting."""
    return any(a == b and c != d for (a, c), (b, d) in combinations(zip(first, shapes, strict=True), 2))


def _repeats(recipe: Recipe) -> bool:
    """Whether some place is named twice."""
    held = [e for e in recipe.entries if isinstance(e, TensorEntry) and e.domain in INDICES]
    return any(prod(entry.shape) > len(INDICES) - INDICES.index(entry.domain) for entry in held)


def _strings(subject: Subject) -> list[str]:
    """The texts that the function compares with or passes on."""
    constants = [n.attr("value") for n in subject.function.graph.all_nodes() if n.kind == "prim::Constant"]
    return list(dict.fromkeys(value for value in constants if isinstance(value, str)))


def _distinct(recipes: Sequence[Recipe]) -> list[Recipe]:
    return list({repr(recipe): recipe for recipe in recipes}.values())

"""Arguments like which a function is exported where none are given: rows and columns, vectors beside them, labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...compiler.types.types import ListType, OptionalType, is_tensor, strip_optional
from ...runtime.face.function import Function
from ..trials.arguments.draws import Rng
from ..trials.arguments.examples import examples_beside
from ..trials.arguments.inputs import InputSearch
from ..trials.arguments.recipes import ExampleEntry, PlainEntry, RecipeEntry, recipe_entry
from ..trials.arguments.samples import looks_like_data
from ..trials.evaluation import Subject

_ROWS, _COLUMNS = 6, 8
_VECTOR = re.compile(r"^(weight|bias|gamma|beta|scale|shift)$|_(weight|bias)$")


def guessed(function: Function, given: Mapping[str, Any] | None = None) -> list[Any] | None:
    """One value for each parameter, those that are `given` among them; None where nothing is found that runs.

    A function NAME_examples beside it says it; else shapes are tried that formulas usually take, then others.
    """
    given = given or {}
    if not given:
        beside = examples_beside(function)
        if beside:
            return _completed(function, beside[0][0])
    named = {a.name: i for i, a in enumerate(function.schema.arguments)}
    taken = {named[name]: value for name, value in given.items()}
    rng = Rng(0)
    for entries in _entries(function, taken):
        recipe = InputSearch(Subject(function), given=entries).first_fit()
        if recipe is not None:
            made = dict(enumerate(recipe.with_dtype("float32").make(rng)))
            return [made[i] if i not in taken else taken[i] for i in range(len(named))]
    return None


def _completed(function: Function, values: Any) -> list[Any]:
    """The values with defaults for what is left out."""
    rest = function.schema.arguments[len(values) :]
    return [*values, *(None if a.required else a.default for a in rest)]


def _entries(function: Function, given: Mapping[int, Any]) -> Iterator[dict[int, RecipeEntry]]:
    """What is fixed before the rest is searched for: defaults, and tensors of likely shapes."""
    arguments = function.schema.arguments
    fixed = {i: recipe_entry(value) for i, value in given.items()}
    for i, a in enumerate(arguments):
        is_list = isinstance(strip_optional(a.type), ListType) and is_tensor(strip_optional(a.type).element)  # type: ignore[attr-defined]
        if i not in fixed and not a.required and not is_list:
            fixed[i] = PlainEntry(a.default)
    tensors = [i for i, a in enumerate(arguments) if i not in fixed and is_tensor(strip_optional(a.type))]
    if tensors:
        yield fixed | {i: ExampleEntry(_likely(function, i)) for i in tensors}
        yield fixed | {i: ExampleEntry(np.zeros((_ROWS, _COLUMNS), np.float32)) for i in tensors}
        optional = {i for i in tensors if isinstance(arguments[i].type, OptionalType)}
        if optional:
            yield fixed | {i: PlainEntry(None) for i in optional}
    yield fixed


def _likely(function: Function, number: int) -> np.ndarray[Any, Any]:
    """A tensor such as its name says: a vector for each column, a label for each row, or rows of columns."""
    name = function.schema.arguments[number].name
    kind = looks_like_data(name)
    has_gradient = function.pair is not None and str(function.pair.backward.outputs[number].type) != "None"
    if kind == "index" and not has_gradient:
        return np.arange(_ROWS, dtype=np.int64) % _COLUMNS
    if kind == "bool" and not has_gradient:
        return np.arange(_ROWS * _COLUMNS).reshape(_ROWS, _COLUMNS) % 3 == 0
    is_vector = _VECTOR.search(name) is not None
    return np.zeros((_COLUMNS,) if is_vector else (_ROWS, _COLUMNS), np.float32)

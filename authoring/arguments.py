"""Arguments for commands: arrays of the shapes on the command line, and for the rest what a search finds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compiler.dtypes import BY_NAME, DType
from ..compiler.ops.arrays import numpy_dtype
from ..compiler.schema import Argument, FunctionSchema
from ..compiler.types import NONE, ListType, strip_optional
from ..runtime.function import Function
from .evaluation import Subject
from .examples import examples_beside
from .inputs import InputSearch
from .leaves import map_arrays
from .loading import Problem
from .recipes import Entry, ExampleEntry, PlainEntry
from .samples import DOMAINS, Rng, holds_tensors, looks_like_data
from .shapes import Shape
from .values import parse_arguments

MAX_ELEMENTS = 1 << 31
"""Of an array that is drawn."""
_SHAPE = re.compile(r"\s*[(\[]?\s*(\d+(?:\s*,\s*\d+)*)?\s*,?\s*[)\]]?\s*")


def arguments_for(
    function: Function, shapes: Sequence[str], texts: Sequence[str], dtype: str, seed: int = 0
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, positional and by name, of a call as the command line describes it.

    `shapes` are `x=64,512` or `y=64:int64`, for a list of tensors `xs=2,3;2,3`; `texts` are as for `gradscript run`.
    Floating tensors are of `dtype`. Problem for what does not read, and where nothing is found that fits beside them.
    """
    return _arguments(function, shapes, texts, _dtype(dtype, "--dtype"), np.random.default_rng(seed))


def _dtype(name: str, where: str) -> DType:
    if name not in BY_NAME:
        raise Problem(f"{where}: there is no dtype '{name}'; there are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def _arguments(
    function: Function, shapes: Sequence[str], texts: Sequence[str], dtype: DType, rng: Rng
) -> tuple[list[Any], dict[str, Any]]:
    if not dtype.is_floating:
        raise Problem(f"--dtype is that of tensors with gradients; '{dtype}' has none")
    schema = function.schema
    given = _drawn(function, shapes, dtype, rng) | _parsed(schema, texts)
    if not given:
        beside = examples_beside(function)
        if beside:
            return [map_arrays(value, lambda array: array.astype(numpy_dtype(dtype))) for value in beside[0][0]], {}
    missing = [i for i, a in enumerate(schema.arguments) if i not in given and (a.required or not given)]
    if missing:
        given = _found(function, given, dtype, rng)
    positional = [given[i] for i in range(len(schema.positional)) if i in given]
    named = {a.name: given[i] for i, a in enumerate(schema.arguments) if a.keyword_only and i in given}
    skipped = next((i for i in range(len(schema.positional)) if i not in given), len(schema.positional))
    named |= {a.name: given[i] for i, a in enumerate(schema.positional) if i > skipped and i in given}
    return positional[:skipped], named


def _found(function: Function, given: dict[int, Any], dtype: DType, rng: Rng) -> dict[int, Any]:
    """What is given, and beside it the first arguments that run."""
    entries: dict[int, Entry] = {i: _entry(value) for i, value in given.items()}
    search = InputSearch(Subject(function), given=entries)
    recipe = search.first_fit()
    if recipe is None:
        named = ", ".join(a.name for i, a in enumerate(function.schema.arguments) if i not in given)
        raise Problem(f"no arguments were found on which '{function.name}' runs; give {named} by --shape or --arg")
    values = recipe.with_dtype(numpy_dtype(dtype).name).make(rng)
    return dict(enumerate(values)) | given


def _entry(value: Any) -> Entry:
    return ExampleEntry(value) if isinstance(value, np.ndarray) else PlainEntry(value)


def _parsed(schema: FunctionSchema, texts: Sequence[str]) -> dict[int, Any]:
    """Arguments by number, from what `gradscript run` takes as well."""
    positional, named = parse_arguments(schema, texts)
    numbers = {a.name: i for i, a in enumerate(schema.arguments)}
    return dict(enumerate(positional)) | {numbers[name]: value for name, value in named.items()}


# --- shapes ---


def _drawn(function: Function, texts: Sequence[str], dtype: DType, rng: Rng) -> dict[int, Any]:
    """Arrays by number of the parameter."""
    by_name = {a.name: i for i, a in enumerate(function.schema.arguments)}
    found: dict[int, Any] = {}
    for text in texts:
        name, equals, shape = text.partition("=")
        name = name.strip()
        if not equals:
            raise Problem(f"--shape {text}: write PARAMETER=SIZES, such as x=64,512")
        if name not in by_name:
            raise Problem(f"'{function.name}' has no parameter '{name}'; it has {', '.join(by_name) or 'none'}")
        argument = function.schema.arguments[by_name[name]]
        if not holds_tensors(argument.type):
            raise Problem(f"--shape {text}: '{name}' is {argument.type}, not a Tensor; give it by --arg")
        sizes, colon, own = shape.partition(":")
        kind = _dtype(own.strip(), f"--shape {text}") if colon else _likely_dtype(function, by_name[name], dtype)
        found[by_name[name]] = _array(argument, sizes, kind, rng, text)
    return found


def _likely_dtype(function: Function, index: int, dtype: DType) -> DType:
    """Indices and masks where a parameter's name says so and it has no gradient."""
    kind = looks_like_data(function.schema.arguments[index].name)
    has_gradient = function.pair is not None and function.pair.backward.outputs[index].type != NONE
    if kind is None or has_gradient:
        return dtype
    return BY_NAME["int64" if kind == "index" else "bool"]


def _array(argument: Argument, sizes: str, dtype: DType, rng: Rng, text: str) -> Any:
    if isinstance(strip_optional(argument.type), ListType):
        return [_one(part, dtype, rng, text) for part in sizes.split(";") if part.strip()]
    return _one(sizes, dtype, rng, text)


def _one(sizes: str, dtype: DType, rng: Rng, text: str) -> Any:
    shape = _shape(sizes, text)
    domain = "real" if dtype.is_floating else "bool" if dtype == BY_NAME["bool"] else "index"
    return DOMAINS[domain](rng, shape).astype(numpy_dtype(dtype))


def _shape(sizes: str, text: str) -> Shape:
    match = _SHAPE.fullmatch(sizes)
    if match is None:
        raise Problem(f"--shape {text}: sizes are whole numbers with commas between them, such as 64,512")
    shape = tuple(int(size) for size in match[1].split(",")) if match[1] else ()
    count = 1
    for size in shape:
        count *= size
    if count > MAX_ELEMENTS:
        raise Problem(f"--shape {text}: {count:,} elements are more than fit")
    return shape

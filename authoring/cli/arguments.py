"""Arguments for commands: arrays of the shapes on the command line, and for the rest what a search finds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...compiler.ops.arguments import Shape
from ...compiler.ops.arrays import Array, numpy_dtype
from ...compiler.types.dtypes import BY_NAME, DType
from ...compiler.types.schema import Argument, FunctionSchema
from ...compiler.types.types import NONE, ListType, strip_optional
from ...runtime.face.function import Function
from ..trials.arguments.draws import Rng
from ..trials.arguments.examples import examples_beside
from ..trials.arguments.inputs import InputSearch
from ..trials.arguments.recipes import RecipeEntry, recipe_entry
from ..trials.arguments.samples import DOMAINS, holds_tensors, looks_like_data
from ..trials.evaluation import Subject
from ..trials.leaves import map_arrays
from .loading import CliError
from .values import parse_arguments

MAX_ELEMENTS = 1 << 31
"""Of an array that is drawn."""
ArrayMaker = Callable[[Shape, DType], Array]
"""What makes an array; OverflowError or MemoryError for a shape that is too large."""
_SHAPE = re.compile(r"\s*[(\[]?\s*(\d+(?:\s*,\s*\d+)*)?\s*,?\s*[)\]]?\s*")


def arguments_for(
    function: Function,
    shapes: Sequence[str],
    texts: Sequence[str],
    dtype: str,
    seed: int = 0,
    *,
    only_shapes: bool = False,
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, positional and by name, of a call as the command line describes it.

    `shapes` are `x=64,512` or `y=64:int64`, for a list of tensors `xs=2,3;2,3`; `texts` are as for `gradscript run`.
    Floating tensors are of `dtype`. With `only_shapes`, what is in arrays does not matter, and large ones are not
    filled. CliError for what does not read, and where nothing is found that fits beside them.
    """
    rng = Rng(seed)
    return _arguments(function, shapes, texts, _dtype(dtype, "--dtype"), rng, only_shapes)


def _dtype(name: str, where: str) -> DType:
    if name not in BY_NAME:
        raise CliError(f"{where}: there is no dtype '{name}'; there are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def _arguments(
    function: Function, shapes: Sequence[str], texts: Sequence[str], dtype: DType, rng: Rng, only_shapes: bool
) -> tuple[list[Any], dict[str, Any]]:
    if not dtype.is_floating:
        raise CliError(f"--dtype is that of tensors with gradients; '{dtype}' has none")
    schema = function.schema
    parsed = _parsed(schema, texts)
    shaped = _shaped(function, shapes, dtype, _unfilled if only_shapes else partial(_drawn, rng))
    twice = next((schema.arguments[i].name for i in shaped if i in parsed), None)
    if twice is not None:
        raise CliError(f"'{twice}' is given by --shape and by --arg; write --arg NAME=VALUE for another parameter")
    given = shaped | parsed
    if not given:
        beside = examples_beside(function)
        if beside:
            return [map_arrays(value, lambda array: array.astype(numpy_dtype(dtype))) for value in beside[0][0]], {}
    missing = [i for i, a in enumerate(schema.arguments) if i not in given and (a.required or not given)]
    if missing:
        given = _shaped(function, shapes, dtype, partial(_drawn, rng)) | parsed if only_shapes else given
        given = _found(function, given, dtype, rng)
    positional = [given[i] for i in range(len(schema.positional)) if i in given]
    named = {a.name: given[i] for i, a in enumerate(schema.arguments) if a.keyword_only and i in given}
    skipped = next((i for i in range(len(schema.positional)) if i not in given), len(schema.positional))
    named |= {a.name: given[i] for i, a in enumerate(schema.positional) if i > skipped and i in given}
    return positional[:skipped], named


def _found(function: Function, given: dict[int, Any], dtype: DType, rng: Rng) -> dict[int, Any]:
    """What is given, and beside it the first arguments that run."""
    entries: dict[int, RecipeEntry] = {i: recipe_entry(value) for i, value in given.items()}
    search = InputSearch(Subject(function), given=entries)
    recipe = search.first_fit()
    if recipe is None:
        named = ", ".join(a.name for i, a in enumerate(function.schema.arguments) if i not in given)
        raise CliError(f"no arguments were found on which '{function.name}' runs; give {named} by --shape or --arg")
    values = recipe.with_dtype(numpy_dtype(dtype).name).make(rng)
    return dict(enumerate(values)) | given


def _parsed(schema: FunctionSchema, texts: Sequence[str]) -> dict[int, Any]:
    """Arguments by number, from what `gradscript run` takes as well."""
    positional, named = parse_arguments(schema, texts)
    numbers = {a.name: i for i, a in enumerate(schema.arguments)}
    return dict(enumerate(positional)) | {numbers[name]: value for name, value in named.items()}


# --- shapes ---


def _shaped(function: Function, texts: Sequence[str], dtype: DType, make: ArrayMaker) -> dict[int, Any]:
    """Arrays by number of the parameter."""
    by_name = {a.name: i for i, a in enumerate(function.schema.arguments)}
    found: dict[int, Any] = {}
    for text in texts:
        name, equals, shape = text.partition("=")
        name = name.strip()
        if not equals:
            raise CliError(f"--shape {text}: write PARAMETER=SIZES, such as x=64,512")
        if name not in by_name:
            raise CliError(f"'{function.name}' has no parameter '{name}'; it has {', '.join(by_name) or 'none'}")
        argument = function.schema.arguments[by_name[name]]
        if not holds_tensors(argument.type):
            raise CliError(f"--shape {text}: '{name}' is {argument.type}, not a Tensor; give it by --arg")
        sizes, colon, own = shape.partition(":")
        kind = _dtype(own.strip(), f"--shape {text}") if colon else _likely_dtype(function, by_name[name], dtype)
        found[by_name[name]] = _array(argument, sizes, kind, make, text)
    return found


def _likely_dtype(function: Function, index: int, dtype: DType) -> DType:
    """Indices and masks where a parameter's name says so and it has no gradient."""
    kind = looks_like_data(function.schema.arguments[index].name)
    has_gradient = function.pair is not None and function.pair.backward.outputs[index].type != NONE
    if kind is None or has_gradient:
        return dtype
    return BY_NAME["int64" if kind == "index" else "bool"]


def _array(argument: Argument, sizes: str, dtype: DType, make: ArrayMaker, text: str) -> Any:
    if isinstance(strip_optional(argument.type), ListType):
        return [_one(part, dtype, make, text) for part in sizes.split(";") if part.strip()]
    return _one(sizes, dtype, make, text)


def _one(sizes: str, dtype: DType, make: ArrayMaker, text: str) -> Array:
    shape = _shape(sizes, text)
    try:
        return make(shape, dtype)
    except (MemoryError, OverflowError, ValueError) as error:
        raise CliError(f"--shape {text}: {prod(shape):,} elements are more than fit") from error


def _drawn(rng: Rng, shape: Shape, dtype: DType) -> Array:
    if prod(shape) > MAX_ELEMENTS:
        raise OverflowError
    domain = "real" if dtype.is_floating else "bool" if dtype == BY_NAME["bool"] else "index"
    return DOMAINS[domain](rng, shape).astype(numpy_dtype(dtype))


def _unfilled(shape: Shape, dtype: DType) -> Array:
    """Zeros, of which no page is there before it is looked at."""
    return np.zeros(shape, numpy_dtype(dtype))


def _shape(sizes: str, text: str) -> Shape:
    match = _SHAPE.fullmatch(sizes)
    if match is None:
        raise CliError(f"--shape {text}: sizes are whole numbers with commas between them, such as 64,512")
    return tuple(int(size) for size in match[1].split(",")) if match[1] else ()

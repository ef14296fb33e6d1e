"""Arguments from the command line, and results for it."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...compiler.ops.arrays import numpy_dtype
from ...compiler.types.dtypes import BY_NAME
from ...compiler.types.schema import FunctionSchema
from ...compiler.types.types import STR, ListType, Type, is_tensor, strip_optional
from ...runtime.execution.gradients import ones_of
from ...runtime.face.function import Function
from ...runtime.face.transforms import vjp
from ...runtime.values.describe import describe
from ..trials.leaves import is_floating
from .loading import CliError

MAX_LITERAL = 1_000_000
"""Characters of a literal; larger data belongs in a file."""


def parse_arguments(schema: FunctionSchema, texts: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments from `VALUE` and `PARAMETER=VALUE`. CliError for what does not read."""
    by_name = {argument.name: argument for argument in schema.arguments}
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if equals and name.strip() in by_name:
            named[name.strip()] = _parse(value, by_name[name.strip()].type, name.strip())
        elif equals and name.strip().isidentifier():
            raise CliError(f"'{schema.name}' has no parameter '{name.strip()}'; it has {', '.join(by_name) or 'none'}")
        elif len(positional) < len(schema.positional):
            argument = schema.positional[len(positional)]
            positional.append(_parse(text, argument.type, argument.name))
        else:
            raise CliError(f"'{schema.name}' takes {len(schema.positional)} positional arguments; '{text}' is too many")
    return positional, named


def _parse(text: str, type: Type, name: str) -> Any:
    type = strip_optional(type)
    if text.strip().endswith(".npy"):
        return _load(text.strip(), name)
    if type == STR and not text.strip().startswith(("'", '"')) and text.strip() != "None":
        return text
    body, dtype = _split_dtype(text.strip(), name)
    value = _literal(body, name)
    if value is None or isinstance(value, str):
        return value
    if is_tensor(type):
        return _array(value, dtype, name)
    if isinstance(type, ListType) and is_tensor(strip_optional(type.element)) and isinstance(value, list):
        return [_array(item, dtype, name) for item in value]
    return value


def _split_dtype(text: str, name: str) -> tuple[str, np.dtype[Any] | None]:
    body, colon, dtype = text.rpartition(":")
    if not colon or not dtype.strip().isidentifier():
        return text, None
    if dtype.strip() not in BY_NAME:
        raise CliError(f"argument '{name}': there is no dtype '{dtype.strip()}'; there are {', '.join(BY_NAME)}")
    return body, numpy_dtype(BY_NAME[dtype.strip()])


_WORDS = {"true": "True", "false": "False", "null": "None"}


def _literal(text: str, name: str) -> Any:
    if text.lower() in ("nan", "inf", "-inf", "+inf"):
        return float(text)
    if len(text) > MAX_LITERAL:
        raise CliError(f"argument '{name}' is too long to read; put it in a .npy file")
    try:
        return ast.literal_eval(_WORDS.get(text, text))
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        hint = "a number, True, False, None, a quoted string, a list, or a .npy file"
        raise CliError(f"argument '{name}': cannot read {text[:60]!r}; write {hint}") from error


def _array(value: Any, dtype: np.dtype[Any] | None, name: str) -> Any:
    try:
        array = np.array(value)
    except (ValueError, OverflowError) as error:
        raise CliError(f"argument '{name}': {value!r:.60} is no array: rows differ in length") from error
    if array.dtype.kind not in "biuf":
        raise CliError(f"argument '{name}': {value!r:.60} holds something else than numbers")
    if dtype is not None:
        return array.astype(dtype)
    return array if array.dtype.kind == "b" else array.astype(np.float64)


def _load(path: str, name: str) -> Any:
    try:
        return np.load(Path(path), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "it is no .npy file"
        raise CliError(f"argument '{name}': cannot load {path}: {reason}") from error


# --- results ---


def run_function(
    function: Function, args: Sequence[Any], named: dict[str, Any], *, grad: bool
) -> tuple[list[Any], list[Any] | None]:
    """The outputs, and the gradients for output gradients of ones if they are asked for."""
    if not grad:
        result = function(*args, **named)
        return (list(result) if isinstance(result, tuple) else [result]), None
    result, pullback = vjp(function, *args, **named)
    outputs = list(result) if isinstance(result, tuple) else [result]
    seeds = [ones_of(output) for output in outputs]
    return outputs, list(pullback(seeds[0] if len(seeds) == 1 else tuple(seeds)))


def describe_results(outputs: Sequence[Any], gradients: Sequence[Any] | None, names: Sequence[str]) -> str:
    """Each output, then each gradient, headed by dtype and shape."""
    parts = [_described(output, f"output {i}: " if len(outputs) > 1 else "") for i, output in enumerate(outputs)]
    for name, gradient in zip(names, gradients or (), strict=False):
        parts.append(_described(gradient, f"gradient of {name}: "))
    return "\n".join(parts)


def _described(value: Any, heading: str) -> str:
    if isinstance(value, np.ndarray):
        return f"{heading}{describe(value)}\n{value}"
    if isinstance(value, list | tuple) and any(isinstance(item, np.ndarray) for item in value):
        return "\n".join(_described(item, f"{heading}[{i}] ") for i, item in enumerate(value))
    return f"{heading}{value!r}"


def results_as_data(outputs: Sequence[Any], gradients: Sequence[Any] | None, names: Sequence[str]) -> dict[str, Any]:
    data: dict[str, Any] = {"outputs": [_as_data(output) for output in outputs]}
    if gradients is not None:
        data["gradients"] = {name: _as_data(g) for name, g in zip(names, gradients, strict=True)}
    return data


def _as_data(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        wide = value.astype(np.float64) if is_floating(value) else value
        return {"dtype": str(value.dtype), "shape": list(value.shape), "data": _plain(wide.tolist())}
    if isinstance(value, list | tuple):
        return [_as_data(item) for item in value]
    return _plain(value)


def _plain(value: Any) -> Any:
    """NaN and infinity as text, which JSON has no numbers for."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def save(path: str, outputs: Sequence[Any]) -> None:
    """Write the only output to a .npy file."""
    if len(outputs) != 1 or not isinstance(outputs[0], np.ndarray):
        raise CliError("--out writes one array, and the function returns something else")
    try:
        np.save(path, outputs[0], allow_pickle=False)
    except (OSError, ValueError) as error:
        raise CliError(f"cannot write {path}: {error}") from error

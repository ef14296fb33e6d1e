"""Sample calls for any pointwise op, made from its schema, and the comparison with torch."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import torch
from gradscript.compiler.ops import OPS, Op, Trait
from gradscript.compiler.types.types import BOOL, FLOAT, INT, NUMBER, STR, may_be_none, strip_optional

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16), BFLOAT16]
INTEGERS = [np.dtype(name) for name in ("int64", "int32", "int8", "uint8")]
DTYPES = [*FLOATS, *INTEGERS, np.dtype(bool)]

TOLERANCE = {
    "float64": (1e-11, 1e-13),
    "float32": (2e-5, 2e-6),
    "float16": (1.05 * 2.0**-11, 1e-6),
    "bfloat16": (1.05 * 2.0**-8, 1e-6),
}
"""Relative and absolute. For the halves that is one rounding, half an ulp, of a result computed in float32."""

_MIXED = np.random.default_rng(7).normal(size=9) * [0.1, 0.3, 0.5, 0.7, 1, 1, 2, 3, 5]
SPECIAL_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 3.0, -3.0, 6.0, 25.0, -25.0, np.inf, -np.inf, np.nan]
SAMPLE_FLOATS = np.concatenate([SPECIAL_FLOATS, _MIXED])
SAMPLE_INTEGERS = np.array([0, 1, 2, 3, 5, 7, 100, -1, -2, -3, -5, -100])
SAMPLE_DIVISORS = np.array([1, 2, 3, 5, -1, -2, -3, 100])

NUMBERS: dict[str, list[Any]] = {
    "rounding_mode": [None, "trunc", "floor"],
    "approximate": ["none", "tanh"],
    "decimals": [0, 1, -1, 2],
    "n": [0, 1, 2, 3],
    "eps": [None, 1e-3],
    "alpha": [1, 2],
    "value": [1, 2],
    "scale": [1, 1.5],
    "input_scale": [1, 0.5],
    "weight": [0.25, 0.75],
    "lambd": [0.5, 1.5],
    "beta": [1, 2],
    "threshold": [20, 1],
    "negative_slope": [0.01, 0.3],
    "rtol": [1e-5, 0.5],
    "atol": [1e-8, 0.5],
    "equal_nan": [False, True],
    "nan": [None, 1.5],
    "posinf": [None, 7.0],
    "neginf": [None, -7.0],
    "min_val": [-1, -2],
    "max_val": [1, 2],
}
"""Values for the numbers and strings of a schema, by the argument's name; the first one is taken most often."""

WHOLE_DIVISORS = ("div", "floor_divide", "remainder", "fmod")

OPS_UNDER_TEST = [op for op in OPS.all() if op.has(Trait.POINTWISE)]


def reference(op: Op) -> Any:
    """torch's own op of the same schema, or its function, which takes numbers first where the op has no such schema."""
    overloads = getattr(torch.ops.aten, op.schema.base_name)
    return getattr(overloads, op.schema.overload or "default", getattr(torch, op.schema.base_name, None))


def to_torch(value: Any) -> Any:
    """An array as a tensor that owns its memory, anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == BFLOAT16:
        return torch.from_numpy(np.array(value).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(value))


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(BFLOAT16)
    return tensor.numpy()


def call_torch(op: Op, arguments: list[Any]) -> np.ndarray:
    """torch's result; the error that torch raises where the call is no valid one."""
    positional = len(op.schema.positional)
    keywords = {a.name: v for a, v in zip(op.schema.arguments[positional:], arguments[positional:], strict=True)}
    return to_numpy(reference(op)(*map(to_torch, arguments[:positional]), **keywords))


def evaluate(op: Op, arguments: list[Any]) -> np.ndarray:
    """Our result, as the runtime computes it; a NumPy warning is an error."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        return op.evaluate(*arguments)


def sample(op: Op, dtype: np.dtype[Any], position: int) -> np.ndarray:
    """Elements of the domain, special values included, along axis `position` from the last."""
    if dtype.kind == "b":
        values = np.array([False, True])
    elif dtype.kind in "iu":
        is_divisor = position == 0 and op.schema.base_name in WHOLE_DIVISORS
        values = SAMPLE_DIVISORS if is_divisor else SAMPLE_INTEGERS
        values = values[values >= 0] if dtype.kind == "u" or "shift" in op.schema.base_name else values
    else:
        values = SAMPLE_FLOATS
    return values.astype(dtype).reshape(-1, *[1] * position)


def tensor_positions(op: Op) -> list[int]:
    return [i for i, a in enumerate(op.schema.arguments) if str(strip_optional(a.type)) == "Tensor"]


def calls(op: Op, dtype: np.dtype[Any], limit: int = 6) -> Iterator[list[Any]]:
    """Argument lists with tensors of one dtype, every pair of sample elements meeting somewhere."""
    tensors = tensor_positions(op)
    choices: list[list[Any]] = []
    for i, argument in enumerate(op.schema.arguments):
        if i in tensors:
            is_condition = argument.name in op.scalar.conditions
            kind = np.dtype(bool) if is_condition else dtype
            array = sample(op, kind, len(tensors) - 1 - tensors.index(i))
            if op.schema.full_name == "aten::masked_fill.Tensor" and argument.name == "value":
                array = array.ravel()[-1:].reshape(())
            choices.append([array, None] if may_be_none(argument.type) else [array])
        elif argument.name in NUMBERS:
            choices.append(NUMBERS[argument.name])
        else:
            assert strip_optional(argument.type) in (NUMBER, INT, FLOAT, BOOL, STR), argument
            numbers: list[Any] = [2, 3] if dtype.kind in "iub" else [2, 0.5, -1.5, 3]
            choices.append([*numbers, None] if may_be_none(argument.type) else numbers)
    yield from itertools.islice(_one_changed_at_a_time(choices), limit)


def _one_changed_at_a_time(choices: list[list[Any]]) -> Iterator[list[Any]]:
    """The first of each, all seconds, then each alternative on its own."""
    first = [options[0] for options in choices]
    yield first
    for i, options in enumerate(choices):
        for option in options[1:]:
            yield [*first[:i], option, *first[i + 1 :]]
    yield [options[min(1, len(options) - 1)] if options[-1] is not None else options[0] for options in choices]


def is_close(actual: np.ndarray, expected: np.ndarray, relative: float = 0.0) -> np.ndarray:
    """Elementwise: equal, or both NaN, or within the tolerance of the dtype of `actual`, and `relative` more."""
    if actual.dtype.kind in "iub":
        return actual == expected
    tolerance, absolute = TOLERANCE[actual.dtype.name]
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(a - e) <= absolute + (tolerance + relative) * np.abs(e)
    return (a == e) | (np.isnan(a) & np.isnan(e)) | near


def is_identical(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elementwise: equal, or both NaN."""
    return (actual == expected) | ((actual != actual) & (expected != expected))


def in_float64(op: Op, arguments: list[Any]) -> np.ndarray | None:
    """torch's result on the same numbers in float64; None where that is no computation in floats."""
    wide = [v.astype(np.float64) if isinstance(v, np.ndarray) and v.dtype.kind in "fV" else v for v in arguments]
    return call_torch(op, wide)


INEXACT_IN_TORCH = {"polygamma": 1e-8}
"""Relative error of torch's own result: its trigamma has nine digits."""


def differs_knowingly(op: Op, arguments: list[Any]) -> Any:
    """Elements where torch is wrong.

    Its trigamma is finite at the poles, its zeta function is NaN at infinity, where the limit is 0, and its
    vectorised gelu in float32 is NaN at infinity, where that in float64 is not.
    """
    name = op.schema.base_name
    if name == "special_zeta":
        return np.isinf(np.asarray(arguments[1], np.float64))
    if name == "gelu":
        return np.isposinf(arguments[0].astype(np.float64))
    if name != "polygamma":
        return False
    x = arguments[1].astype(np.float64)
    return np.isinf(x) | ((x <= 0) & (x == np.floor(x)))

"""torch's own database of operators (`torch.testing`), each sample as a program in the language and its arguments."""

from __future__ import annotations

import math
import random
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
_SUPPORTED = frozenset(getattr(torch, name) for name in DTYPES)
_OPERATORS = {
    **{f"__r{name}__": f"{{1}} {symbol} {{0}}" for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*"))},
    **{f"__r{name}__": f"{{1}} {symbol} {{0}}" for name, symbol in (("div", "/"), ("mod", "%"), ("pow", "**"))},
    **{f"__r{name}__": f"{{1}} {symbol} {{0}}" for name, symbol in (("and", "&"), ("or", "|"), ("xor", "^"))},
    "__rmatmul__": "{1} @ {0}",
}
_ORDER = {
    "where": "torch.where({1}, {0}, {2})",
    "nn.functional.embedding": "F.embedding({1}, {0}{named})",
    "nn.functional.embedding_bag": "F.embedding_bag({1}, {0}{named})",
    "polygamma": "torch.polygamma({1}, {0})",
    "special.polygamma": "torch.special.polygamma({1}, {0})",
    "einsum": "torch.einsum({1}, {0})",
}
"""Entries that take their arguments in another order than torch's function."""
_TAKEN = {"linalg.lstsq.grad_oriented": "[:2]"}
"""Entries that are some of a function's results."""


class Unspellable(Exception):
    """A sample with an argument that the language has no literal for."""


@dataclass(frozen=True)
class Case:
    """One call: the program, its tensors and lists of tensors, and the sample that it is of."""

    source: str
    values: list[Any]
    sample: Any


@cache
def database() -> list[Any]:
    """torch's entries. The module asks for a package that it needs for nothing here."""
    if "expecttest" not in sys.modules:
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def samples(op: Any, dtype: str, limit: int) -> list[Any]:
    """Some of torch's samples, the same ones every time."""
    if getattr(torch, dtype) not in op.supported_dtypes("cpu"):
        return []
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    # It would look through the stack for a test of unittest's that it is of, which takes longer than all else here.
    with warnings.catch_warnings(), patch("torch.testing._internal.common_utils.extract_test_fn", lambda: None):
        warnings.simplefilter("ignore")
        found = list(op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False))
    return found if len(found) <= limit else random.Random(1).sample(found, limit)


def all_samples(op: Any, dtype: str, limit: int, draw: int = 1) -> list[Any]:
    """torch's samples and its reference inputs, the same ones every time; of many, those of a draw."""
    if getattr(torch, dtype) not in op.supported_dtypes("cpu"):
        return []
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    kind = {"requires_grad": False}
    with warnings.catch_warnings(), patch("torch.testing._internal.common_utils.extract_test_fn", lambda: None):
        warnings.simplefilter("ignore")
        found = list(op.sample_inputs("cpu", getattr(torch, dtype), **kind))
        if op.reference_inputs_func is not None:
            found += op.reference_inputs("cpu", getattr(torch, dtype), **kind)
    return found if len(found) <= limit else random.Random(draw).sample(found, limit)


def case(op: Any, sample: Any) -> Case:
    """The program that makes a sample's call. Raises Unspellable."""
    speller = _Speller()
    first = speller.value(sample.input)
    rest = [speller.value(argument) for argument in sample.args]
    named = [f"{name}={speller.value(value)}" for name, value in sample.kwargs.items()]
    if op.name in _OPERATORS:
        text = _OPERATORS[op.name].format(first, *rest)
    elif op.name in _ORDER:
        text = _ORDER[op.name].format(first, *rest, named="".join(f", {argument}" for argument in named))
    else:
        function = _function(op.name)
        given = [*([] if function.startswith(".") else [first]), *rest, *named]
        text = f"{first if function.startswith('.') else ''}{function}({', '.join(given)})"
    text += _TAKEN.get(name_of(op), "")
    parameters = ", ".join(speller.parameters)
    return Case(f"def f({parameters}):\n    return {text}\n", speller.values, sample)


def _function(name: str) -> str:
    if name.startswith("nn.functional."):
        return f"F.{name.removeprefix('nn.functional.')}"
    return f"torch.{name}" if "." in name or hasattr(torch, name) else f".{name}"


class _Speller:
    """Arguments as source: tensors become parameters, everything else a literal."""

    def __init__(self) -> None:
        self.parameters: list[str] = []
        self.values: list[Any] = []

    def value(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return self._parameter(value, "Tensor", [value])
        if isinstance(value, list | tuple):
            if value and all(isinstance(item, torch.Tensor) for item in value):
                return self._parameter(list(value), "List[Tensor]", value)
            return f"[{', '.join(self.value(item) for item in value)}]"
        if value is None or isinstance(value, bool | str | int):
            return repr(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(value, torch.dtype) and value in _SUPPORTED:
            return str(value)
        if isinstance(value, torch.device):
            return repr(str(value))
        raise Unspellable(f"{value!r}")

    def _parameter(self, value: Any, annotation: str, tensors: Any) -> str:
        if any(t.dtype not in _SUPPORTED or t.layout != torch.strided for t in tensors):
            raise Unspellable("a tensor that the language has no counterpart of")
        name = f"a{len(self.values)}"
        self.parameters.append(f"{name}: {annotation}")
        self.values.append(value)
        return name


def flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, list | tuple) else [value]


def tensors_of(sample: Any) -> Iterator[torch.Tensor]:
    for leaf in flat([sample.input, list(sample.args), list(sample.kwargs.values())]):
        if isinstance(leaf, torch.Tensor) and leaf.dtype in _SUPPORTED and leaf.layout == torch.strided:
            yield leaf


def replaced(sample: Any, tensor: Any, number: Any) -> Any:
    """The sample with `tensor(t)` for its tensors and `number(n)` for its numbers."""

    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return tensor(value)
        if isinstance(value, list | tuple):
            return type(value)([convert(item) for item in value])
        return number(value) if isinstance(value, bool | int | float) else value

    return type(sample)(
        convert(sample.input),
        args=tuple(convert(argument) for argument in sample.args),
        kwargs={name: convert(value) for name, value in sample.kwargs.items()},
    )

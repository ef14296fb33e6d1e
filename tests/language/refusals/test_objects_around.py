"""Objects of Python that a text names: what is none for it is refused with what it is, whatever it does when asked."""

from __future__ import annotations

import collections
import enum
import functools
import re
import types
import unittest.mock
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch


class Raising:
    """As proxies of what is not there yet do."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Hiding:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Property:
    @property
    def shape(self) -> Any:
        raise ValueError("not yet")


class Called:
    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x

    def __call__(self, x: Any) -> Any:
        return x


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


class Kind(enum.Enum):
    ONE = 1


class Uncompared:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("nothing equals it")


OBJECTS: dict[str, Any] = {
    "raising": Raising(),
    "hiding": Hiding(),
    "with_property": Property(),
    "called": Called(),
    "called_of_class": Called.of_class,
    "called_class": Called,
    "module": Scaled(),
    "module_class": Scaled,
    "kind": Kind.ONE,
    "uncompared": Uncompared(),
    "mocked": unittest.mock.MagicMock(),
    "partial": functools.partial(torch.add, 1),
    "generator": (i for i in range(3)),
    "array": np.ones(3),
    "uninitialized": torch.nn.UninitializedParameter(),
    "complex_number": 1j,
    "named": collections.namedtuple("named", "a b")(1, 2),
    "ellipsis": Ellipsis,
    "namespace": types.SimpleNamespace(a=1),
    "many": 10**100,
    "error": ValueError("x"),
    "operator": torch.ops.aten.relu.default,
    "compiled": torch.compile(lambda x: x),
}
FORMS = (
    *("x * {0}", "{0}(x)", "x + {0}.a", "{0}.forward(x)", "{0}[0] + x", "x if {0} else x * 2", "x * len({0})"),
    *("{0} == x", "[{0}, x][1]", "isinstance(x, {0})", "x.sum({0})", "{0}.T + x", "F.relu(x, {0})", "{0}.__name__"),
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OBJECTS)
def test_it_is_taken_or_refused_with_a_diagnostic(name: str, form: str) -> None:
    text = f"import torch.nn.functional as F\n\ndef f(x):\n    return {form.format(name)}\n"
    try:
        gs.CompilationUnit(text, scope=OBJECTS).f(torch.ones(2))
    except (gs.CompileError, gs.RuntimeFailure) as error:
        assert re.search(r"--> .+:\d+:\d+\n", str(error))


@pytest.mark.parametrize("form", ["{0}(x)", "{0}.forward(x)"])
def test_a_class_of_modules_is_a_class(form: str) -> None:
    text = f"def f(x):\n    return {form.format('module_class')}\n"
    with pytest.raises(gs.CompileError, match="is the Python class 'Scaled'"):
        gs.CompilationUnit(text, scope=OBJECTS)

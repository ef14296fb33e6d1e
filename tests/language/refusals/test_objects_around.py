"""Objects of Python that a text names: what is none for it is refused with what it is, whatever it does when asked."""

from __future__ import annotations

import collections
import enum
import functools
import re
import types
import unittest.mock
from collections.abc import Callable
from typing import Any, Literal, Optional

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


TYPES: dict[str, Any] = {
    "OptTensor": Optional[torch.Tensor],  # noqa: UP045 (as older code has it)
    "Pair": tuple[torch.Tensor, torch.Tensor],
    "Sizes": list[int],
    "Number": int | float,
    "Kind": Literal["sum", "mean"],
    "Tensor_": torch.Tensor,
    "Text": str | torch.Tensor,
    "Callback": Callable[[int], int],
}


def test_names_of_types_stand_in_annotations() -> None:
    text = """
def f(x: Tensor_, sizes: Sizes, mask: OptTensor = None, pair: "Optional[Pair]" = None, k: Number = 2, how: Kind = ""):
    if mask is not None:
        x = x * mask
    if pair is not None:
        x = x + pair[0]
    return x * k * sizes[0] if how == "" else x
"""
    function = gs.CompilationUnit(text, scope=TYPES).f
    assert [str(argument.type) for argument in function.schema.arguments] == [
        *("Tensor", "List[int]", "Optional[Tensor]", "Optional[Tuple[Tensor, Tensor]]", "number", "str"),
    ]
    x = torch.ones(2)
    torch.testing.assert_close(function(x, [3], x * 2, (x, x), 0.5), torch.full((2,), 4.5))


@pytest.mark.parametrize(
    ("annotation", "column", "told"),
    [
        ("Text", 10, "'Text' is str | torch.Tensor: the only union is with None"),
        ("List[Callback]", 15, "'Callback' is "),
        ('"Optional[Tensr]"', 10, "unknown type 'Tensr'"),
        ('"int, y: int"', 10, "unknown type 'int, y: int'"),
        ('"int = 3"', 10, "unknown type 'int = 3'"),
        ('"int) -> (int"', 10, "unknown type 'int) -> (int'"),
    ],
)
def test_what_is_no_type_of_the_language_is_told_where_it_stands(annotation: str, column: int, told: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x: {annotation}):\n    return x\n", scope=TYPES)
    assert told in str(caught.value) and f"<string>:1:{column}\n" in str(caught.value)


@pytest.mark.parametrize("form", ["{0}(x)", "{0}.forward(x)"])
def test_a_class_of_modules_is_a_class(form: str) -> None:
    text = f"def f(x):\n    return {form.format('module_class')}\n"
    with pytest.raises(gs.CompileError, match="is the Python class 'Scaled'"):
        gs.CompilationUnit(text, scope=OBJECTS)

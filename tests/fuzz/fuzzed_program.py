"""A program as text: its functions, and the calls of `f` that its comments name.

    # arguments: T(2, 3), T(3), 2
    # arguments: T(4), T(4), n=0
    def f(x, y, n: int): …

`T(…)` is a tensor of that shape, of numbers that only its shape and its place among the tensors decide.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

MARK = "# arguments:"


@dataclass(frozen=True)
class Call:
    """One call: what is no tensor stands for itself, a `Shape` for a tensor."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def shapes(self) -> list[Shape]:
        """The tensors, lists and tuples taken apart."""
        return [leaf for leaf in leaves([*self.args, *self.kwargs.values()]) if isinstance(leaf, Shape)]

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """Numbers for the tensors, float64."""
        return [shape.array(i) for i, shape in enumerate(self.shapes)]

    def filled(self, tensors: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with these for the tensors."""
        left = iter(tensors)

        def fill(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return type(value)([fill(item) for item in value])
            return next(left) if isinstance(value, Shape) else value

        return tuple(fill(arg) for arg in self.args), {name: fill(arg) for name, arg in self.kwargs.items()}

    def wrap(self, make: Callable[[np.ndarray[Any, Any]], Any]) -> tuple[list[Any], tuple[Any, ...], dict[str, Any]]:
        """The tensors as `make` gives them, and the arguments of the call with them."""
        tensors = [make(array) for array in self.arrays()]
        return tensors, *self.filled(tensors)


@dataclass(frozen=True)
class Shape:
    dims: tuple[int, ...]
    scale: float = 0.7

    def array(self, place: int) -> np.ndarray[Any, Any]:
        return np.asarray(np.random.default_rng([place, *self.dims]).normal(size=self.dims) * self.scale)


@dataclass(frozen=True)
class FuzzedProgram:
    """`scale` is that of the tensors' numbers."""

    source: str
    scale: float = 0.7

    @cached_property
    def calls(self) -> list[Call]:
        lines = [line[len(MARK) :] for line in self.source.splitlines() if line.startswith(MARK)]
        return [_call(line, self.scale) for line in lines]


def leaves(value: Any) -> list[Any]:
    """What a result or an argument holds, lists and tuples taken apart."""
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list | tuple) else [value]


def _call(text: str, scale: float) -> Call:
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    args = tuple([_argument(arg, scale) for arg in call.args])
    return Call(args, {k.arg or "": _argument(k.value, scale) for k in call.keywords})


def _argument(node: ast.expr, scale: float) -> Any:
    if isinstance(node, ast.Call):
        return Shape(tuple(ast.literal_eval(item) for item in node.args), scale)
    if isinstance(node, ast.List):
        return [_argument(item, scale) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_argument(item, scale) for item in node.elts)
    return ast.literal_eval(node)

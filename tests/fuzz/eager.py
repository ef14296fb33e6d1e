"""What torch makes of a program: its values and gradients to second order, in float64.

The text runs as Python. A function with a backward of its own is its forward alone there, so that the gradients are
autograd's. What is differentiated is one number: the sum of `r * cos(r)` over the results, and for the second order
over the first gradients, so that every element counts and none as much as another.
"""

from __future__ import annotations

import ast
import math
import typing
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from fuzzed_program import Call, FuzzedProgram, leaves

REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, AssertionError, ZeroDivisionError, OverflowError)
"""What torch and Python raise for data that does not fit."""
LARGE = 1e6
"""Programs with larger numbers say little: they may lose all digits."""


@dataclass
class Outcome:
    """What a call gives. Gradients are one per tensor of the arguments, None where there is none."""

    value: Any = None
    first: list[Any] | None = None
    second: list[Any] | None = None
    failure: Exception | None = None
    """Why there is no value."""

    @property
    def leaves(self) -> list[Any]:
        return leaves(self.value)


@dataclass
class Eager:
    """A program as Python over torch."""

    program: FuzzedProgram
    functions: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.functions = in_torch(ast.unparse(forward_alone(ast.parse(self.program.source))))

    @property
    def f(self) -> Callable[..., Any]:
        function: Callable[..., Any] = self.functions["f"]
        return function

    def run(self, call: Call, order: int = 2, dtype: Any = torch.float64) -> Outcome:
        tensors, args, kwargs = call.wrap(lambda array: torch.tensor(array, dtype=dtype, requires_grad=order > 0))
        # Variables of their own, for what writes into an argument would be refused by autograd.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                value = self.f(*args, **kwargs)
            except REFUSALS as failure:
                return Outcome(failure=failure)
            first, second = gradients(value, tensors, order)
        return Outcome(detached(value), first, second)


def gradients(value: Any, tensors: Sequence[Any], order: int) -> tuple[list[Any] | None, list[Any] | None]:
    """First and second gradients of the weighted results; None where autograd has none to give."""
    if not order or not tensors:
        return None, None
    nothing: list[Any] = [None] * len(tensors)
    try:
        first = gradient_of(weighed(leaves(value)), tensors, order > 1)
        if order == 1 or first is None:
            return first or nothing, nothing
        return first, gradient_of(weighed(first), tensors, False) or nothing
    except RuntimeError:
        return None, None


def gradient_of(total: Any, tensors: Sequence[Any], again: bool) -> list[Any] | None:
    if total is None or not total.requires_grad:
        return None
    return [*torch.autograd.grad(total, tensors, create_graph=again, allow_unused=True)]


def weighed(results: Sequence[Any]) -> Any:
    """The sum of `r * cos(r)` over the floating tensors; None where there are none."""
    total: Any = None
    for result in results:
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            term = (result * torch.cos(result)).sum()
            total = term if total is None else total + term
    return total


def slope(result: torch.Tensor) -> torch.Tensor:
    """How the weighted sum changes with a result: the gradient to start from."""
    return torch.cos(result) - result * torch.sin(result)


def detached(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([detached(item) for item in value])
    return value.detach() if isinstance(value, torch.Tensor) else value


def is_tame(outcome: Outcome) -> bool:
    """Whether all numbers are of a size at which rounding cannot hide what is wrong."""
    found = [*outcome.leaves, *(outcome.first or ()), *(outcome.second or ())]
    floats = [t for t in found if isinstance(t, torch.Tensor) and t.is_floating_point()]
    return not any(bool((t.abs() > LARGE).any()) for t in floats)


# --- the text as Python ---


def in_torch(source: str) -> dict[str, Any]:
    """The functions of a text, run over torch. It is text of our own making."""
    names: dict[str, Any] = {
        "torch": torch,
        "F": torch.nn.functional,
        "math": math,
        "Tensor": torch.Tensor,
        "gs": SimpleNamespace(save=lambda x: x, recompute=lambda x: x),
        **{name: getattr(typing, name) for name in ("List", "Tuple", "Optional")},
    }
    exec(source, names)
    return names


def forward_alone(module: ast.Module) -> ast.Module:
    """Without the inner functions, and without what returns them."""
    for function in module.body:
        if isinstance(function, ast.FunctionDef):
            inner = {node.name for node in function.body if isinstance(node, ast.FunctionDef)}
            function.body = [node for node in function.body if not isinstance(node, ast.FunctionDef)]
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                    node.value = _without(node.value, inner)
    return module


def _without(value: ast.Tuple, names: set[str]) -> ast.expr:
    last = value.elts[-1] if value.elts else None
    if not isinstance(last, ast.Name) or last.id not in names:
        return value
    kept = value.elts[:-1]
    return kept[0] if len(kept) == 1 else ast.Tuple(kept, ast.Load())

"""What is made of ints and bools has no gradient, whichever way they were made: torch's gradients on every road."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

RESULTS = {
    "a dtype by name": "(x * x.to(torch.int64).to(torch.float64)).sum()",
    "a dtype by keyword": "(x * x.to(dtype=torch.int32)).sum()",
    "bools": "(x * x.to(torch.bool)).sum()",
    "a method": "(x * x.long()).sum()",
    "through a half": "(x * x.to(torch.float16).to(torch.int16)).sum()",
    "another's type": "(x * x.type_as(i)).sum()",
    "another's dtype": "(x * x.to(i.dtype)).sum()",
    "another tensor": "(x * x.to(i)).sum()",
    "another's type that is floating": "(x * x.type_as(h)).sum()",
    "a tensor of a tensor": "(torch.as_tensor(x, dtype=torch.int64) * x).sum()",
    "a function of ints": "(x * torch.square(x.to(torch.int64)).type_as(x)).sum()",
    "under a branch": "(x * (x.to(torch.int64) if flag else x)).sum()",
    "a sum": "x.to(torch.int64).sum() * x.sum()",
    "a copy": "(x * torch.zeros(3, dtype=torch.int64).copy_(x)).sum()",
    "a cube": "(x * x * x.type_as(i) * x.to(torch.int64)).sum()",
}
X, INTS, HALVES = np.array([1.5, -2.5, 3.75]), np.array([1, 2, 3]), np.array([1, 2, 3], np.float16)


def _by_tape(function: Any, flag: bool) -> Any:
    x = gs.tape.Variable(X, requires_grad=True)
    function(x, INTS, HALVES, flag).backward()
    return np.asarray(x.grad)


def _by_torch(function: Any, flag: bool) -> Any:
    x = torch.tensor(X, requires_grad=True)
    function(x, torch.tensor(INTS), torch.tensor(HALVES), flag).backward()
    assert x.grad is not None
    return x.grad.numpy()


def _again(function: Any, flag: bool) -> Any:
    gradient = gs.grad(function)
    return [gradient(X, INTS, HALVES, flag) for _ in range(4)][-1]


ROADS: dict[str, Callable[[Any, bool], Any]] = {
    "grad": lambda function, flag: gs.grad(function)(X, INTS, HALVES, flag),
    "grad, called again": _again,
    "vjp": lambda function, flag: gs.vjp(function, X, INTS, HALVES, flag)[1](np.array(1.0))[0],
    "tape": _by_tape,
    "torch": _by_torch,
}


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("expression", RESULTS)
def test_the_gradient_is_torchs(expression: str, road: str, backend: str) -> None:
    text = f"def f(x, i, h, flag: bool):\n    return {RESULTS[expression]}\n"
    function = gs.CompilationUnit(text).f
    for flag in (True, False):
        x = torch.tensor(X, requires_grad=True)
        scope = {"torch": torch, "x": x, "i": torch.tensor(INTS), "h": torch.tensor(HALVES), "flag": flag}
        result = eval(RESULTS[expression], scope)
        (wanted,) = torch.autograd.grad(result, x)
        with gs.settings.backend(backend):
            np.testing.assert_allclose(ROADS[road](function, flag), wanted.numpy(), rtol=1e-12)


def test_second_derivatives_pass_by_ints_too() -> None:
    unit = gs.CompilationUnit("def f(x, i):\n    return (x * x * x * x.type_as(i)).sum()\n")
    first = gs.trace(lambda x, i: gs.grad(unit.f)(x, i).sum(), X, INTS)
    np.testing.assert_allclose(gs.grad(first)(X, INTS), 6 * X * np.trunc(X), rtol=1e-12)


@pytest.mark.parametrize("result", ["x.sum().to(torch.int64)", "x.sum() > 0"])
def test_an_output_of_ints_has_none(result: str) -> None:
    function = gs.CompilationUnit(f"def f(x, i):\n    return {result}\n").f
    with pytest.raises((ValueError, gs.RuntimeFailure), match="a gradient is taken of"):
        gs.grad(function)(X, INTS)


PAIRS = """
def rounded(x):
    def backward(grad):
        return grad
    return x.to(torch.int64), backward

def both(x):
    def backward(grad, unused):
        return grad * 2
    return x * 2, x.long(), backward

def one(x):
    return (x * rounded(x)).sum()

def two(x):
    doubled, whole = both(x)
    return (doubled * whole * x).sum()
"""


@pytest.mark.parametrize("road", ["grad", "grad, called again", "vjp", "tape", "torch"])
@pytest.mark.parametrize(("name", "wanted"), [("one", np.trunc(X)), ("two", 4 * X * np.trunc(X))])
def test_a_backward_of_ones_own_gets_no_gradient_for_ints(name: str, wanted: Any, road: str) -> None:
    text = PAIRS + f"\ndef f(x, i, h, flag: bool):\n    return {name}(x)\n"
    function = gs.CompilationUnit(text).f
    np.testing.assert_allclose(ROADS[road](function, True), wanted, rtol=1e-12)

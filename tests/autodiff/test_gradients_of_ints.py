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


FLOATING = {
    "the dtype of an argument": "h = x.float()\n    return (h * torch.rsqrt(h.square().mean()) * w).to(x.dtype)",
    "an element that is written": "y = x * 1\n    y[0] = w.sum()\n    return y * y",
    "rows that a loop writes": (
        "out = torch.empty_like(x)\n    for t in range(3):\n        out[t] = w[t] * x.sum()\n    return out"
    ),
    "a product with what is floating": "h = w.float()\n    return x.type_as(x + h) * w",
    "both sides of a branch": "y = x.float() if w.dim() > 1 else w.double()\n    return x.type_as(y) * y",
}
"""Programs in which what is cast is of floats, whichever dtypes their arguments have."""


@pytest.mark.parametrize("body", FLOATING.values(), ids=FLOATING)
def test_a_lifted_backward_asks_for_no_dtype_where_floats_are_certain(body: str) -> None:
    function = gs.CompilationUnit(f"def f(x, w):\n    {body}\n").f
    for text in (function.show("lifted"), function.show("optimized")):
        assert "is_floating" not in text and "grad_defined" not in text


@pytest.mark.parametrize(
    "body",
    [
        "return x.to(n.dtype) * w",
        "y = x.type_as(n).clone()\n    y[0] = w.sum()\n    return y * x",
        "y = x.to(n.dtype)\n    for t in range(3):\n        y = y * 2\n    return y * w",
        "z = (w * 2).to(n.dtype)\n    return z, w.to(n.dtype) * x",
    ],
)
def test_a_lifted_backward_asks_where_they_are_not(body: str) -> None:
    """Of ints that meet floats no gradient comes back."""
    function = gs.CompilationUnit(f"def f(x, w, n):\n    {body}\n").f
    assert "is_floating" in function.show("lifted")
    values = [torch.tensor(X, requires_grad=True), torch.tensor(X + 1, requires_grad=True), torch.tensor(INTS)]
    scope: dict[str, Any] = {}
    exec(f"def f(x, w, n):\n    {body}\n", {"torch": torch}, scope)

    def total(result: Any) -> torch.Tensor:
        results = result if isinstance(result, tuple) else (result,)
        return sum((r.sum() for r in results if r.is_floating_point()), torch.zeros(()))

    wanted = torch.autograd.grad(total(scope["f"](*values)), values[:2], allow_unused=True)
    found = torch.autograd.grad(total(function(*values)), values[:2], allow_unused=True)
    for have, want in zip(found, wanted, strict=True):
        for one, other in ((have, want), (want, have)):
            assert one is not None or other is None or not other.any()
        if have is not None and want is not None:
            torch.testing.assert_close(have, want)

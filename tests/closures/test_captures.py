"""What a backward captures, made by helpers, other pairs, branches, loops and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

HELPERS = """
def doubled(x):
    return x * 2


def branching(x):
    if bool(x.sum() > 0):
        y = doubled(x).exp()
    else:
        y = x.norm() * x
    return y


def looping(x):
    y = x
    for i in range(3):
        y = branching(y) * 0.1
    return y


def squared(x):
    m = doubled(x)

    def backward(grad_output):
        return grad_output * m

    return x * x, backward


def deep(x):
    return squared(doubled(x)) + looping(x)


def two(x):
    return x.norm(), F.normalize(x, dim=0)


def either(x):
    if bool(x.sum() > 0):
        return x.exp(), x
    t = (x, x * 2)
    for i in range(2):
        t = (t[1], t[0] * 3)
    return t
"""
EXPRESSIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "doubled(x)": lambda x: x * 2,
    "branching(x)": lambda x: (x * 2).exp() if x.sum() > 0 else x.norm() * x,
    "looping(x)": lambda x: _looping(x),
    "squared(x)": lambda x: x * x,
    "deep(x)": lambda x: (x * 2) ** 2 + _looping(x),
    "two(x)[0] * two(x)[1]": lambda x: x.norm() * torch.nn.functional.normalize(x, dim=0),
    "either(x)[0] * either(x)[1]": lambda x: x.exp() * x if x.sum() > 0 else 18 * x * x,
    "(x > 0).type_as(x)": lambda x: (x > 0).type_as(x),
    "x.std() + torch.var(x) * x": lambda x: x.std() + torch.var(x) * x,
    "torch.stack([doubled(row) for row in [x, x]]).sum(0)": lambda x: 4 * x,
    "squared(squared(x)) if doubled(x).sum() > 0 else x": lambda x: x**4 if x.sum() > 0 else x,
}
"""Each in the language, and by torch."""


def _looping(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = ((x * 2).exp() if x.sum() > 0 else x.norm() * x) * 0.1
    return x


def _unit(expression: str) -> gs.CompilationUnit:
    return gs.CompilationUnit(
        HELPERS
        + f"""
def captured(x):
    m = {expression}

    def backward(grad_output):
        return grad_output * m + grad_output * x * m.cos()

    return (x * m).sum(), backward
"""
    )


def _variable(x: np.ndarray, f: gs.Function) -> Any:
    variable = gs.tape.Variable(x, requires_grad=True)
    f(variable).backward()
    return variable.grad.data


def _tensor(x: np.ndarray, f: gs.Function) -> Any:
    tensor = torch.from_numpy(x).requires_grad_()
    return torch.autograd.grad(f(tensor), tensor)[0].numpy()


ROADS: dict[str, Callable[[np.ndarray, gs.Function], Any]] = {
    "vjp": lambda x, f: gs.vjp(f, x)[1](1.0)[0],
    "grad": lambda x, f: gs.grad(f)(x),
    "policy": lambda x, f: gs.vjp(f, x, policy="recompute_all")[1](1.0)[0],
    "halves": lambda x, f: f.backward(f.forward(x)[1], np.array(1.0))[0],
    "tape": _variable,
    "tensor": _tensor,
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_first_and_second_order(expression: str, sign: float) -> None:
    f = _unit(expression).captured
    x = np.array([1.0, -0.5, 0.7]) * sign
    tensor = torch.from_numpy(x).requires_grad_()
    made = EXPRESSIONS[expression](tensor)
    slope = made + tensor * made.cos()
    for name, road in ROADS.items():
        np.testing.assert_allclose(road(x, f), slope.detach().numpy(), rtol=1e-10, err_msg=name)
    weights = np.array([0.3, 1.1, -2.0])
    (expected,) = torch.autograd.grad((slope * torch.from_numpy(weights)).sum(), tensor)
    np.testing.assert_allclose(gs.vjp(gs.grad(f), x)[1](weights)[0], expected.numpy(), rtol=1e-9)
    found = torch.autograd.grad(f(tensor), tensor, create_graph=True)[0] * torch.from_numpy(weights)
    np.testing.assert_allclose(torch.autograd.grad(found.sum(), tensor)[0], expected, rtol=1e-9)


def test_an_op_without_a_gradient_stops_the_second_derivative_only() -> None:
    f = gs.CompilationUnit("""
def f(x):
    m = torch.special.zeta(x, 2.0)

    def backward(grad_output):
        return grad_output * m

    return (x * m).sum(), backward
""").f
    x = np.array([2.0, 3.0])
    expected = torch.special.zeta(torch.from_numpy(x), 2.0).numpy()
    for name, road in ROADS.items():
        np.testing.assert_allclose(road(x, f), expected, rtol=1e-10, err_msg=name)
    with pytest.raises(gs.CompileError, match=r"zeta.* has no gradient"):
        gs.vjp(gs.grad(f), x)
    tensor = torch.from_numpy(x).requires_grad_()
    (slope,) = torch.autograd.grad(f(tensor), tensor, create_graph=True)
    # Kernels meet it as a node of their own, single ops where the plan of the backward runs.
    with pytest.raises((gs.CompileError, gs.RuntimeFailure), match=r"zeta.* has no gradient[\s\S]*call .detach\(\)"):
        torch.autograd.grad(slope.sum(), tensor)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_backward_that_captures_a_tensor_of_no_dimension(backend: str) -> None:
    """The size is a list without elements, which has a length like any other, and may be kept."""
    unit = gs.CompilationUnit(
        "def f(x):\n    half = x.new_full([], 0.5)\n"
        "    def backward(g):\n"
        "        def backward_of_backward(gg):\n            return gg * 2 + 0 * half, torch.zeros_like(x)\n"
        "        return g * 2, backward_of_backward\n"
        "    return x * 2, backward\n\n\n"
        "def loss(x):\n    y = f(x)\n    return (y * y).sum()\n"
    )
    x = np.array([1.0, -2.0])
    with gs.settings.backend(backend):
        value, pullback = gs.vjp(gs.grad(unit.loss), x)
        np.testing.assert_array_equal(value, 8 * x)
        np.testing.assert_array_equal(pullback(np.ones(2))[0], [8.0, 8.0])

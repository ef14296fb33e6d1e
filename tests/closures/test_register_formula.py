"""Formulas of users' in the place of the library's: checked, used on every road, and undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

X = np.array([0.3, -1.2, 2.0])
SIGMOID = """
def ten(y):
    return y * (1 - y)


def sigmoid(x):
    y = torch.sigmoid(x)

    def backward(grad):
        return grad * ten(y)

    return y, backward
"""
MARKED = SIGMOID.replace("grad * ten(y)", "grad * ten(y) * 1.0000001")
"""Right as far as a check can tell, and told apart by the last digits."""
USER = gs.CompilationUnit("""
def f(x):
    return (torch.sigmoid(x) * x).sum()
""").f


def on_tensors() -> Any:
    tensor = torch.from_numpy(X).requires_grad_()
    return torch.autograd.grad(USER(tensor), tensor)[0].numpy()


def on_tape() -> Any:
    variable = gs.tape.Variable(X, requires_grad=True)
    USER(variable).backward()
    return variable.grad.data


ROADS: dict[str, Callable[[], Any]] = {
    "vjp": lambda: gs.vjp(USER, X)[1](1.0)[0],
    "grad": lambda: gs.grad(USER)(X),
    "policy": lambda: gs.vjp(USER, X, policy="min_cut")[1](1.0)[0],
    "tensors": on_tensors,
    "tape": on_tape,
}


def gradient(factor: float) -> np.ndarray:
    y = 1 / (1 + np.exp(-X))
    return y + X * y * (1 - y) * factor


@pytest.fixture
def undo() -> Iterator[Callable[[], None]]:
    remove = gs.register_formula("aten::sigmoid", gs.CompilationUnit(MARKED).sigmoid)
    yield remove
    remove()


@pytest.mark.parametrize("road", ROADS)
def test_in_force_until_undone(road: str) -> None:
    run = ROADS[road]
    np.testing.assert_allclose(run(), gradient(1.0), rtol=1e-12)
    undo = gs.register_formula("aten::sigmoid", gs.CompilationUnit(MARKED).sigmoid)
    try:
        np.testing.assert_allclose(run(), gradient(1.0000001), rtol=1e-12)
        assert np.abs(run() - gradient(1.0)).max() > 1e-9
    finally:
        undo()
    undo()
    np.testing.assert_allclose(run(), gradient(1.0), rtol=1e-12)


def test_second_order(undo: Callable[[], None]) -> None:
    tensor = torch.from_numpy(X).requires_grad_()
    (slope,) = torch.autograd.grad((torch.sigmoid(tensor) * tensor).sum(), tensor, create_graph=True)
    expected = torch.autograd.grad(slope.sum(), tensor)[0].numpy()
    np.testing.assert_allclose(gs.vjp(gs.grad(USER), X)[1](np.ones(3))[0], expected, rtol=1e-5)


def test_the_last_one_is_in_force(undo: Callable[[], None]) -> None:
    second = gs.register_formula("aten::sigmoid", gs.CompilationUnit(SIGMOID).sigmoid)
    np.testing.assert_allclose(ROADS["vjp"](), gradient(1.0), rtol=1e-12)
    undo()
    np.testing.assert_allclose(ROADS["vjp"](), gradient(1.0), rtol=1e-12)
    second()
    np.testing.assert_allclose(ROADS["vjp"](), gradient(1.0), rtol=1e-12)


@pytest.mark.parametrize(
    ("op", "source", "reason"),
    [
        ("aten::sigmoyd", SIGMOID, "there is no op 'aten::sigmoyd'; did you mean 'aten::sigmoid'?"),
        ("aten::clamp.Tensr", SIGMOID, "its overloads are aten::clamp"),
        ("aten::tanh", SIGMOID, "it must return what the op gives for its parameters"),
        ("aten::sigmoid", "def sigmoid(x):\n    return torch.sigmoid(x)\n", "it has no backward of its own"),
        (
            "aten::sigmoid",
            SIGMOID.replace("return y, backward", "return y * 1, backward"),
            "it must return what the op",
        ),
        ("aten::sigmoid", SIGMOID.replace("* ten(y)", "* ten(y) * 1.01"), "its gradient is wrong\nsigmoid: "),
        ("aten::sigmoid", SIGMOID.replace("* ten(y)", "* torch.sigmoid(x).sum() * ten(y)"), "its gradient is wrong"),
        (
            "aten::sigmoid",
            SIGMOID.replace("y = torch.sigmoid(x)", "y = torch.sigmoid(x)\n    z = torch.sigmoid(x * 1)").replace(
                "* ten(y)", "* ten(z)"
            ),
            "its forward calls the op more than once",
        ),
        (
            "aten::sigmoid",
            SIGMOID.replace(
                "    return y * (1 - y)",
                "    def back(g):\n        return g * (1 - 2 * y)\n    return y * (1 - y), back",
            ),
            "it calls 'ten', which has a backward of its own",
        ),
        (
            "aten::bernoulli",
            "def sigmoid(x):\n    def b(g):\n        return g\n    return torch.bernoulli(x), b\n",
            "random",
        ),
    ],
)
def test_refused_with_the_reason(op: str, source: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        gs.register_formula(op, gs.CompilationUnit(source).sigmoid)
    assert reason in str(caught.value)
    np.testing.assert_allclose(ROADS["vjp"](), gradient(1.0), rtol=1e-12)


def test_what_is_no_function() -> None:
    with pytest.raises(TypeError, match="takes a Function of a CompilationUnit, not builtin_function_or_method"):
        gs.register_formula("aten::sigmoid", abs)  # type: ignore[arg-type]

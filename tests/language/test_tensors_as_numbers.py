"""A tensor of one element where a number is wanted, and tuples of tensors in lists where a gradient is asked for."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from eager_programs import check

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
N = np.array(2)
CALLS = (
    "x.sum(n - 1)",
    "torch.sum(x, dim=n - 2)",
    "x.transpose(n - 2, n - 1)",
    "x.narrow(1, n - 2, n)",
    "x.select(0, n - 1)",
    "torch.softmax(x, n - 1)",
    "[x, x * 2][n - 1]",
    "torch.cumsum(x, n - 2)",
    "x.unsqueeze(n)",
    "torch.stack([x for i in range(n)])",
    "torch.full_like(x, n) * x",
    "F.leaky_relu(x - 3, n)",
    "torch.add(x, x, alpha=n)",
)


@pytest.mark.parametrize("call", CALLS)
def test_as_eager(call: str) -> None:
    check(f"def f(x, n):\n    return {call}\n", "f", X, N)


IN_LISTS = (
    *("x.sum({})", "x.mean({}, keepdim=True)", "x.flip({})", "torch.amax(x, dim={})", "torch.logsumexp(x, {})"),
    *("torch.zeros({}) + x[0, 0]", "torch.full({}, 2.5)", "x.new_ones(size={})", "x.repeat({})", "x.expand({})"),
    *(
        "x.view({})",
        "x.permute({})",
        "torch.tile(x, {})",
        "F.pad(x, {})",
        "F.avg_pool2d(x[None], {})",
        "x.split({}, 1)[0]",
    ),
    *("torch.rot90(x, 1, {})", "torch.broadcast_to(x[0, 0], {})", "torch.stack(x.split({}, 1), 0)", "x.std({})"),
)
"""Calls that take a list of ints."""


@pytest.mark.parametrize("call", IN_LISTS)
def test_in_lists_of_ints(call: str) -> None:
    """What torch takes, and what it refuses."""
    arguments = (X, N)
    for numbers in ("[n - 1, n - 2]", "(n - 1, 0)", "[n, 3]", "[1, n]", "(n, n + 1)", "[n - 1]", "[n]", "(n, n, 3)"):
        body = call.format(numbers)
        try:
            eval(body, {"torch": torch, "F": F, "x": torch.tensor(X), "n": torch.tensor(N)})
        except (RuntimeError, IndexError, TypeError):
            with pytest.raises((gs.CompileError, gs.RuntimeFailure)):
                gs.CompilationUnit(f"def f(x, n):\n    return {body}\n").f(*arguments)
        else:
            check(f"def f(x, n):\n    return {body}\n", "f", *arguments)


def test_a_list_of_tensors_and_numbers_is_none_elsewhere() -> None:
    for body, code in (("torch.stack([x, 2])", "E301"), ("len([x, 2])", "E301"), ("[n, 2]", "E301")):
        with pytest.raises(gs.CompileError) as caught:
            gs.CompilationUnit(f"def f(x, n):\n    return {body}\n")
        assert caught.value.code == code
    with pytest.raises(gs.RuntimeFailure):
        gs.CompilationUnit("def f(x, n):\n    return x.sum([n])\n").f(X, np.array(1.0))


@pytest.mark.parametrize("made", ["[x.sum(), x[0, 0]]", "[[x[:1, 0]], [x[:1, 1]]]", "(x[0, 0], x[0, 1])"])
@pytest.mark.parametrize("function", ["torch.tensor", "torch.as_tensor"])
def test_a_tensor_of_numbers_in_tensors_leaves_their_gradients_behind(made: str, function: str) -> None:
    check(f"def f(x, n):\n    return {function}({made}).sum() * x * n\n", "f", X, N)
    unit = gs.CompilationUnit(f"def f(x):\n    return {function}({made})\ndef g(x):\n    return {function}([x, x])\n")
    assert not unit.f(torch.tensor(X, requires_grad=True)).requires_grad
    with pytest.raises(gs.RuntimeFailure, match="only a tensor of one element is a number"):
        unit.g(X)


@pytest.mark.parametrize("number", (np.array([1, 0]), np.array(1.0)))
def test_what_is_no_int(number: np.ndarray) -> None:
    function = gs.CompilationUnit("def f(x, n):\n    y = x * 2\n    return y.sum(n)\n").f
    with pytest.raises(gs.RuntimeFailure) as caught:
        function(X, number)
    assert caught.value.span.line == 3
    with pytest.raises((TypeError, RuntimeError)):
        torch.tensor(X).sum(torch.tensor(number))


@pytest.mark.parametrize("call", ["torch.add(x, x, alpha=n)", "F.leaky_relu(x, n)", "torch.full((2,), n)", "x.norm(n)"])
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_tensor_with_dimensions_is_no_number(call: str, backend: str) -> None:
    function = gs.CompilationUnit(f"def f(x, n):\n    return {call}\n").f
    with gs.settings.backend(backend), pytest.raises(gs.RuntimeFailure, match="a number is wanted"):
        function(torch.tensor(X), torch.tensor([2]))
    with pytest.raises(TypeError):
        eval(call, {"torch": torch, "F": torch.nn.functional, "x": torch.tensor(X), "n": torch.tensor([2])})


def test_a_number_that_would_lose_a_gradient() -> None:
    function = gs.CompilationUnit("def f(x, a):\n    return torch.add(x, x, alpha=a).sum()\n").f
    with pytest.raises(gs.RuntimeFailure, match="requires a gradient") as caught:
        gs.vjp(function, X, np.array(2.0))
    assert caught.value.span.line == 2
    value, pullback = gs.vjp(function, X, np.array(2))
    assert value == 63.0
    np.testing.assert_equal(pullback(1.0)[0], 3.0 * np.ones_like(X))


@pytest.mark.parametrize("expression", ["torch.add(x, x, alpha=a)", "torch.full_like(x, a)", "F.elu(x, a)"])
def test_a_variable_that_would_lose_its_gradient(expression: str) -> None:
    function = gs.CompilationUnit(f"def f(x, a):\n    return ({expression}).sum()\n").f
    with pytest.raises(gs.RuntimeFailure, match="requires a gradient") as caught:
        function(gs.tape.Variable(X), gs.tape.Variable(np.array(2.0)))
    assert caught.value.span.line == 2
    value = function(gs.tape.Variable(X), gs.tape.Variable(np.array(2.0), requires_grad=False))
    np.testing.assert_allclose(value.data, function(X, np.array(2.0)))


def test_tuples_in_lists() -> None:
    """Their gradients are known where their places are."""
    source = "def f(x, w):\n    l = [(x, 1), (w, 2)]\n    for v, n in l:\n        x = x * v * n\n    return x\n"
    function = gs.CompilationUnit(source).f
    value, pullback = gs.vjp(function, X, X)
    np.testing.assert_equal(value, X**3 * 2)
    by_x, by_w = pullback(np.ones_like(X))
    np.testing.assert_allclose(by_x, 4 * X**2)
    np.testing.assert_allclose(by_w, 2 * X**2)


@pytest.mark.parametrize(
    ("items", "taken"),
    [("(x, 1), (w, 2)", "v, n = l[i]"), ("((x, 1), 0), ((w, 2), 0)", "p, _ = l[i]\n        v, n = p")],
)
def test_tuples_in_lists_at_places_that_are_unknown(items: str, taken: str) -> None:
    loop = f"    for i in range(x.size(0)):\n        {taken}\n        x = x * v * n\n    return x\n"
    function = gs.CompilationUnit(f"def f(x, w):\n    l = [{items}]\n{loop}").f
    np.testing.assert_equal(function(X, X), X**3 * 2)
    with gs.settings.backend("numpy"), pytest.raises(gs.CompileError) as caught:
        gs.vjp(function, X, X)
    assert caught.value.code == "E408"
    assert caught.value.span.line == 2
    with gs.settings.backend("c"):
        # Kernels are planned for sizes at hand, by which the rounds are written out: places are known.
        _, pullback = gs.vjp(function, X, X)
        by_x, by_w = pullback(np.ones_like(X))
    np.testing.assert_allclose(by_x, 4 * X**2)
    np.testing.assert_allclose(by_w, 2 * X**2)

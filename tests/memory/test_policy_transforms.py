"""gs.vjp, gs.grad and gs.value_and_grad under a policy: the same to the bit, and for every shape."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

POLICIES: tuple[Any, ...] = ("save_all", "mirror", "min_cut", "recompute_all", "budget=2000", 0)
SOURCE = """
def loss(x, w, bias: Optional[Tensor] = None, n: int = 3):
    for i in range(n):
        x = torch.tanh(x @ w)
        if bias is not None:
            x = x * torch.sigmoid(x + bias)
    return (torch.softmax(x, -1) * x).sum()


def parts(pair: Tuple[Tensor, Tensor], rest: List[Tensor]):
    a, b = pair
    total = a * b
    for item in rest:
        total = torch.sin(total + item)
    return total, rest[0] * 2


def scaled(x):
    def backward(grad):
        return grad * 10

    return x * 2, backward


def uses_scaled(x, unused):
    return torch.exp(scaled(torch.sin(x))).sum()


def dropped(x, p: float):
    y = F.dropout(torch.sin(x), p, True)
    return (y * torch.exp(y)).sum()
"""
UNIT = gs.CompilationUnit(SOURCE)
RNG = np.random.default_rng(3)
X, W, B = RNG.standard_normal((4, 5)), RNG.standard_normal((5, 5)), RNG.standard_normal(5)


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, list | tuple):
        assert type(found) is type(expected) and len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            same(f, e)
    elif expected is None:
        assert found is None
    else:
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("op_by_op")  # kernels of what is computed again may sum in another order
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("arguments", [(X, W), (X, W, B), (X.astype(np.float32), W.astype(np.float32), None, 7)])
def test_vjp_is_the_same_to_the_bit(policy: Any, arguments: tuple[Any, ...]) -> None:
    value, pullback = gs.vjp(UNIT.loss, *arguments, policy="save_all")
    found, again = gs.vjp(UNIT.loss, *arguments, policy=policy)
    same(found, value)
    # Without a policy, products of matrices are joined: the same but for the last bits.
    plain, joined = gs.vjp(UNIT.loss, *arguments)
    same(found, plain)
    for seed in (1.0, -2.5):
        same(again(seed), pullback(seed))
        for left, right in zip(again(seed), joined(seed), strict=True):
            assert left is right is None or np.allclose(left, right, rtol=1e-4 if left.dtype == "f4" else 1e-11)


@pytest.mark.parametrize("policy", POLICIES)
def test_tuples_and_lists(policy: Any) -> None:
    arguments = ((X, X + 1), [X, X * 2, X * 3])
    value, pullback = gs.vjp(UNIT.parts, *arguments)
    found, again = gs.vjp(UNIT.parts, *arguments, policy=policy)
    same(found, value)
    for seeds in ((X, X), (X, None), (None, None)):
        same(again(seeds), pullback(seeds))


@pytest.mark.parametrize("policy", POLICIES)
def test_grad_is_the_same_to_the_bit(policy: Any) -> None:
    for argnums in (0, 1, (1, 0)):
        expected = gs.vjp(UNIT.loss, X, W, B, policy="save_all")[1](1.0)
        wanted = expected[argnums] if isinstance(argnums, int) else tuple(expected[i] for i in argnums)
        same(gs.grad(UNIT.loss, argnums, policy=policy)(X, W, bias=B), wanted)
        value, gradient = gs.value_and_grad(UNIT.loss, argnums, policy=policy)(X, W, B)
        same(gradient, wanted)
        np.testing.assert_allclose(value, UNIT.loss(X, W, B), rtol=1e-12)


def test_a_backward_of_the_users_is_used_and_zeros_stand_for_none() -> None:
    with_value = gs.value_and_grad(UNIT.uses_scaled, (0, 1), policy="min_cut", allow_unused=True)
    _, (grad, zero) = with_value(X, W)
    np.testing.assert_allclose(grad, np.exp(2 * np.sin(X)) * 10 * np.cos(X), rtol=1e-12)
    same(zero, np.zeros_like(W))


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_random_is_not_drawn_again(policy: Any) -> None:
    value, pullback = gs.vjp(UNIT.dropped, X, 0.5, policy=policy)
    gradient, _ = pullback(1.0)
    # Where an element was dropped, the gradient is zero: the same mask in both halves.
    kept = gradient != 0
    y = np.where(kept, np.sin(X) * 2, 0)
    np.testing.assert_allclose(value, (y * np.exp(y)).sum(), rtol=1e-12)


def test_each_shape_is_compiled_for_itself() -> None:
    function = gs.grad(UNIT.loss, policy="min_cut")
    for rows in (4, 2, 4, 1):
        x = RNG.standard_normal((rows, 5))
        assert function(x, W).shape == (rows, 5)
        same(function(x, W), gs.vjp(UNIT.loss, x, W, policy="save_all")[1](1.0)[0])


def test_numbers_that_differ_in_type_alone_are_told_apart() -> None:
    unit = gs.CompilationUnit("def f(x, k: float, flag: bool):\n    return (x * k * (2 if flag else 3)).sum()\n")
    for k in (1.0, 2.0, 1.0):
        for flag in (True, False):
            (grad, *_) = gs.vjp(unit.f, X, k, flag, policy="min_cut")[1](1.0)
            np.testing.assert_array_equal(grad, np.full_like(X, k * (2 if flag else 3)))


def test_second_derivatives_are_those_of_the_whole_graph() -> None:
    unit = gs.CompilationUnit("def cube(x):\n    return (x * x * x).sum()\n")
    inner = gs.grad(unit.cube, policy="recompute_all")
    total = gs.CompilationUnit("def double(x):\n    return (x * x * 3).sum()\n")
    np.testing.assert_allclose(inner(X), 3 * X * X)
    np.testing.assert_allclose(gs.vjp(inner, X)[1](np.ones_like(X))[0], gs.grad(total.double)(X))


def test_torch_tensors_and_variables() -> None:
    function = gs.grad(UNIT.loss, policy="min_cut")
    expected = function(X, W)
    found = function(torch.from_numpy(X), torch.from_numpy(W))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), expected)
    recorded = function(gs.tape.Variable(X, requires_grad=True), W)
    assert isinstance(recorded, gs.tape.Variable)
    np.testing.assert_allclose(recorded.data, expected, rtol=1e-12)


def test_a_policy_that_does_not_exist() -> None:
    for make in (lambda: gs.vjp(UNIT.loss, X, W, policy="least"), lambda: gs.grad(UNIT.loss, policy="least")):
        with pytest.raises(ValueError, match="there is no policy 'least'"):
            make()


def test_a_gradient_of_more_than_a_number() -> None:
    unit = gs.CompilationUnit("def f(x):\n    return x * 2\n")
    with pytest.raises(gs.RuntimeFailure, match="a gradient is taken of one number"):
        gs.grad(unit.f, policy="min_cut")(X)


def test_a_budget_is_kept_or_the_least_is_told() -> None:
    source = """
def f(x, w):
    h = gs.save(torch.tanh(x @ w))
    h = torch.tanh(h @ w)
    return (h * h).sum()
"""
    function = gs.CompilationUnit(source).f
    x, w = np.ones((4, 4)), np.full((4, 4), 0.3)
    size = x.nbytes
    with pytest.raises(gs.CompileError, match=rf"the least is {size}\b") as told:
        gs.vjp(function, x, w, policy=size - 1)
    assert told.value.code == "E410"
    with pytest.raises(gs.CompileError, match="the least"):
        function.memory(x, w, policy=0)
    expected = gs.vjp(function, x, w)[1](1.0)
    for budget in (size, 2 * size, 100 * size):
        report = function.memory(x, w, policy=budget)
        assert report.saved_bytes <= budget
        for found, wanted in zip(gs.vjp(function, x, w, policy=budget)[1](1.0), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)

"""What differentiate makes of graphs, and that authors' backwards are used, to second order."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.autodiff import differentiate
from gradscript.compiler.ir.verify import verify

SOURCE = """
def poly(a, b):
    return a * b * a + b

def silu(x):
    s = torch.sigmoid(x)
    def backward(grad):
        return grad * s * (1 + x * (1 - s))
    return x * s, backward

def energy(x):
    return (silu(x) * x).sum()

def straight_through(x):
    def backward(grad):
        return grad
    return torch.round(x), backward

def rounded(x):
    return (straight_through(x) * x).sum()

def cube(x):
    def backward(grad):
        def backward(grad_grad):
            return grad_grad * 3 * x * x, grad_grad * grad * 6 * x
        return grad * 3 * x * x, backward
    return x * x * x, backward

def cube_in_part(x):
    def backward(grad):
        def backward(grad_grad):
            return grad_grad * 3 * x * x
        return grad * 3 * x * x, backward
    return x * x * x, backward

def odd_second(x):
    def backward(grad):
        def backward(grad_grad):
            return grad_grad * 3 * x * x, grad_grad * grad * 1000
        return grad * 3 * x * x, backward
    return x * x * x, backward

def total(x):
    return cube(x).sum()

def total_in_part(x):
    return cube_in_part(x).sum()

def total_odd(x):
    return odd_second(x).sum()

def twice(x):
    y = x * x
    return y, y, x

def scaled(x, w):
    def backward(grad):
        return grad * w, grad * x
    return x * w, backward
"""


@pytest.fixture(scope="module")
def unit() -> gs.CompilationUnit:
    return gs.CompilationUnit(SOURCE)


def test_captures_and_vjps_are_those_of_torchs_own_test(unit: gs.CompilationUnit) -> None:
    gradient = differentiate(unit.poly.graph)
    verify(gradient.f)
    verify(gradient.df)
    assert gradient.num_real_outputs == 1
    assert gradient.input_vjps == (0, 1)
    assert gradient.captured_inputs == (0, 1)
    assert gradient.output_vjps == (0, 1)
    # The temporary a * b, and the size of a * b * a: never that tensor itself.
    assert gradient.captured_outputs == (1, 2)
    assert [str(gradient.f.outputs[i].type) for i in gradient.captured_outputs] == ["Tensor", "List[int]"]
    kinds = [node.kind for node in gradient.df.nodes]
    assert kinds.count("prim::GradOf") == 3 and kinds.count("prim::AutogradAdd") == 3
    names = [node.attr("name") for node in gradient.df.nodes if node.kind == "prim::GradOf"]
    assert names == ["aten::add.Tensor", "aten::mul.Tensor", "aten::mul.Tensor"]


def test_an_input_that_needs_no_gradient_gets_none(unit: gs.CompilationUnit) -> None:
    gradient = differentiate(unit.poly.graph, [True, False])
    assert gradient.output_vjps == (0,)


def test_a_saved_intermediate_is_differentiated_too(unit: gs.CompilationUnit) -> None:
    x = np.linspace(-3, 3, 7)
    t = torch.tensor(x, requires_grad=True)
    (first,) = torch.autograd.grad((torch.nn.functional.silu(t) * t).sum(), t, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), t)
    by_gs = gs.grad(unit.energy)
    np.testing.assert_allclose(by_gs(x), first.detach(), rtol=1e-12)
    _, pullback = gs.vjp(by_gs, x)
    np.testing.assert_allclose(pullback(np.ones(7))[0], second, rtol=1e-11)
    at = np.asarray(0.7)
    t = torch.tensor(at, requires_grad=True)
    third = gs.grad(gs.grad(by_gs))
    value = torch.nn.functional.silu(t) * t
    for _ in range(3):
        (value,) = torch.autograd.grad(value, t, create_graph=True)
    np.testing.assert_allclose(third(at), value.item(), rtol=1e-10)


def test_the_authors_backward_is_used_wherever_the_function_is(unit: gs.CompilationUnit) -> None:
    x = np.array([0.4, 1.7, -2.2])
    np.testing.assert_allclose(gs.grad(unit.rounded)(x), np.round(x) + x)
    _, pullback = gs.vjp(unit.straight_through, x)
    np.testing.assert_allclose(pullback(x)[0], x)


@pytest.mark.parametrize(("name", "second"), [("total", 6.0), ("total_in_part", 6.0), ("total_odd", None)])
def test_second_order_formulas(unit: gs.CompilationUnit, name: str, second: float | None) -> None:
    x = np.array([0.5, -1.5, 2.0])
    first = gs.grad(unit[name])
    np.testing.assert_allclose(first(x), 3 * x * x)
    _, pullback = gs.vjp(first, x)
    expected = np.full(3, 1000.0) if second is None else second * x
    np.testing.assert_allclose(pullback(np.ones(3))[0], expected)


def test_an_output_returned_twice_takes_two_gradients(unit: gs.CompilationUnit) -> None:
    x = np.array([1.0, 2.0])
    _, pullback = gs.vjp(unit.twice, x)
    np.testing.assert_allclose(pullback((np.ones(2), 10 * np.ones(2), 100 * np.ones(2)))[0], 22 * x + 100)


def test_a_users_gradient_is_summed_where_the_input_was_broadcast(unit: gs.CompilationUnit) -> None:
    x, w = np.arange(3.0).reshape(3, 1), np.arange(4.0)
    _, pullback = gs.vjp(unit.scaled, x, w)
    to_x, to_w = pullback(np.ones((3, 4)))
    np.testing.assert_allclose(to_x, np.full((3, 1), w.sum()))
    np.testing.assert_allclose(to_w, np.full(4, x.sum()))


def test_no_gradient_in_no_gradient_out(unit: gs.CompilationUnit) -> None:
    _, pullback = gs.vjp(unit.poly, np.ones(2), np.ones(2))
    assert pullback(None) == (None, None)


def test_a_backward_asks_for_a_size_by_an_argument() -> None:
    """The dimension is known when it runs, not when it is differentiated."""
    unit = gs.CompilationUnit("""
def scaled(x, dim: int):
    def backward(grad):
        return grad * x.size(dim), None

    return torch.exp(x), backward


def total(x, dim: int):
    return scaled(x, dim).sum()
""")
    for dim, size in enumerate((2, 3)):
        np.testing.assert_array_equal(gs.grad(unit.total)(np.ones((2, 3)), dim), np.full((2, 3), float(size)))


def test_nothing_to_unbind_has_a_gradient_of_nothing() -> None:
    unit = gs.CompilationUnit("""
def parts(x):
    return x.unbind(1)


def total(x):
    result = x.sum()
    for part in x.unbind(1):
        result = result + part.sum()
    return result
""")
    x = np.ones((2, 0))
    assert gs.grad(unit.total)(x).shape == (2, 0)
    outputs, pullback = gs.vjp(unit.parts, x)
    assert outputs == []
    (gradient,) = pullback([])
    assert gradient is None or gradient.shape == (2, 0)


def test_gradients_have_the_dtypes_of_arguments_that_were_converted_there_and_back() -> None:
    """The dtype that the last conversion asks for is known when it runs, and only then."""
    unit = gs.CompilationUnit("""
def total(x, bias):
    return (x.to(torch.float32) + bias.to(torch.float32)).to(x.dtype).sum()
""")
    x, bias = np.ones((2, 3), np.float16), np.ones(3, np.float16)
    gradient = gs.grad(unit.total, (0, 1))
    for _ in range(3):
        assert [g.dtype for g in gradient(x, bias)] == [np.float16, np.float16]


def test_a_dimension_is_asked_for_where_a_branch_knows_that_it_is_there() -> None:
    unit = gs.CompilationUnit("""
def f(x):
    def backward(g):
        return g * 2 if x.dim() > 0 and x.size(0) >= 250 else g * 3

    return x * 3, backward

def h(x):
    return f(x) * x
""")
    for optimized in (False, True):
        with gs.settings.optimize(optimized):
            assert gs.grad(gs.grad(unit.h))(np.array(2.0)) == 6.0

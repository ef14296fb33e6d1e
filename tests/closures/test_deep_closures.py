"""Closures inside closures, to any depth, against derivatives known without a compiler, and on tensors and the tape."""

from __future__ import annotations

import itertools

import gradscript as gs
import numpy as np
import pytest
import torch
from polynomials import Polynomial, program

ONE = Polynomial({(("x", 5),): 1.0})
TWO = Polynomial({(("x", 3), ("y", 2)): 2.0, (("x", 1), ("y", 1)): -1.5, (("y", 4),): 0.5})
POINT = {"x": 1.5, "y": -0.75}
SHAPES = [(True, *rest) for depth in range(4) for rest in itertools.product([True, False], repeat=depth)]


def value(polynomial: Polynomial) -> float:
    return float(sum(f * np.prod([POINT[n] ** p for n, p in m]) for m, f in polynomial.terms.items()))


@pytest.mark.parametrize("whole", SHAPES)
def test_derivatives_of_every_order(whole: tuple[bool, ...]) -> None:
    names = "xy" if len(whole) < 3 else "x"
    polynomial = TWO if len(names) == 2 else ONE
    f = gs.CompilationUnit(program(polynomial, list(names), whole)).f
    for order in range(1, len(whole) + 2):
        for path in itertools.combinations_with_replacement(range(len(names)), order):
            expected, derived = polynomial, f
            for number in path:
                expected = expected.derivative(names[number])
                derived = gs.grad(derived, number)
            found = derived(*(POINT[name] for name in names))
            np.testing.assert_allclose(found, value(expected), rtol=1e-6, err_msg=str(path))


@pytest.mark.parametrize("whole", SHAPES)
def test_the_text_of_a_gradient_compiles_with_all_closures_in_it(whole: tuple[bool, ...]) -> None:
    """A backward that became a function takes its context as parameters: closures further in say nothing of those."""
    f = gs.CompilationUnit(program(ONE, ["x"], whole)).f
    for derived in (gs.grad(f), gs.grad(gs.grad(f))):
        unit = gs.CompilationUnit(derived.code)
        assert gs.CompilationUnit(unit.code).code == unit.code
        again = gs.grad(unit[derived.schema.name])
        np.testing.assert_allclose(again(POINT["x"]), gs.grad(derived)(POINT["x"]), rtol=1e-6)


@pytest.mark.parametrize("whole", [(True,) * 4, (True, True, False, True), (True, False, True, False)])
def test_on_tensors_and_on_the_tape(whole: tuple[bool, ...]) -> None:
    f = gs.CompilationUnit(program(ONE, ["x"], whole)).f
    x = np.array(POINT["x"])
    expected, tensor, variable = ONE, torch.from_numpy(x).requires_grad_(), gs.tape.Variable(x, requires_grad=True)
    on_torch, on_tape = f(tensor), f(variable)
    for _ in range(4):
        expected = expected.derivative("x")
        (on_torch,) = torch.autograd.grad(on_torch, tensor, create_graph=True)
        (on_tape,) = gs.tape.grad(on_tape, [variable], create_graph=True)
        np.testing.assert_allclose(on_torch.detach().numpy(), value(expected))
        np.testing.assert_allclose(on_tape.data, value(expected))


@pytest.mark.parametrize("level", range(5))
def test_the_closure_of_each_level_is_the_one_used(level: int) -> None:
    """One that is wrong by a factor is wrong in the derivative of its order, and in none before."""
    scales = [10.0 if i == level else 1.0 for i in range(5)]
    f = gs.CompilationUnit(program(ONE, ["x"], [True] * 5, scales)).f
    expected = ONE
    for order in range(level + 1):
        expected, f = expected.derivative("x"), gs.grad(f)
        np.testing.assert_allclose(f(POINT["x"]), value(expected) * scales[order], rtol=1e-6)


@pytest.mark.parametrize("depth", [1, 3, 8, 30])
def test_partial_closures_at_depth(depth: int) -> None:
    """Each gives the gradient of what it takes alone: their number does not matter."""
    f = gs.CompilationUnit(program(ONE, ["x"], [True] + [False] * depth)).f
    np.testing.assert_allclose(gs.grad(gs.grad(f))(1.5), 20 * 1.5**3, rtol=1e-6)
    assert gs.CompilationUnit(f.code).f.code == f.code
    assert gs.CompilationUnit(f.pair.code).code == f.pair.code


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("a * b", "'third' returns 1 gradient; 'second' has 2 inputs (h, k)"),
        ("a, b, a, b", "'third' returns 4 gradients; 'second' has 2 inputs (h, k)"),
        ("a, b, a, b, a, b, a", "'third' returns 7 gradients; 'second' has 2 inputs (h, k)"),
    ],
)
def test_wrong_counts_name_the_closure_around(returned: str, message: str) -> None:
    source = f"""
def f(x, y):
    def first(g):
        def second(h, k):
            def third(a, b, c):
                return {returned}
            return h * x + k * y, h * g, k * g, third
        return g * x, g * y, second
    return (x * x + y * y) / 2, first
"""
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(source)
    assert (caught.value.code, caught.value.message) == ("E405", message)

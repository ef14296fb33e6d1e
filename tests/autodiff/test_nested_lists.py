"""Lists of lists of tensors are differentiated like lists: valid IR at every order, and the derivatives of torch."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from amounts import some_of
from gradscript.compiler.autodiff import differentiate
from gradscript.compiler.ir.verify import verify

BODIES = {
    "taken": "z = rows[0][0] * rows[1][0] * rows[-1][0]",
    "an element set": "rows[0] = [x * 3, x]\n    z = rows[0][0] * rows[1][0]",
    "an inner element set": "rows[0][0] = x * 3\n    z = rows[0][0] * rows[1][0]",
    "appended": "rows.append([x * 5])\n    z = rows[2][0] * rows[0][1]",
    "inserted": "rows.insert(1, [x * 5])\n    z = rows[2][0] * rows[0][1] * rows[1][0]",
    "popped": "last = rows.pop()\n    z = rows[0][0] * last[0]",
    "sliced": "part = rows[1:]\n    z = part[0][0] * rows[0][1]",
    "joined": "rows = rows + [[x * x]]\n    z = rows[2][0] * rows[0][1]",
    "repeated": "rows = rows * 2\n    z = rows[2][0] * rows[0][1]",
    "repeated, the number first": "rows = n * rows\n    z = rows[2][0] * rows[0][0]",
    "extended": "rows.extend([[x * x]])\n    z = rows[2][0] * rows[0][1]",
    "reversed": "rows.reverse()\n    z = rows[0][0] * rows[1][1]",
    "copied": "other = rows.copy()\n    z = other[0][0] * rows[1][0]",
    "listed": "other = list(rows)\n    z = other[0][0] * rows[1][0]",
    "made in a loop": (
        "z = x\n    for i in range(n):\n        rows.append([rows[i][0] * x])\n        z = z + rows[i + 1][0] * z"
    ),
    "of a branch": "if n > 1:\n        rows = [[x * x, x], [x, x]]\n    z = rows[0][0] * rows[1][0]",
    "made by comprehensions": "new = [[item * 2 for item in row] for row in rows]\n    z = new[0][0] * new[1][0]",
    "three deep": (
        "deep = [rows, [[x]]]\n    deep.append([[x * x]])\n    z = deep[0][1][0] * deep[2][0][0] * deep[1][0][0]"
    ),
    "with optionals": "last = rows[len(rows) - 1]\n    last.append(x)\n    z = last[1] * last[0]",
}
X = np.array([1.0, 2.0, -3.0])


def function(body: str) -> gs.Function:
    return gs.CompilationUnit(
        f"def f(x, n: int):\n    rows = [[x * 2, x + 1], [x * x]]\n    {body}\n    return z.sum()\n"
    ).f


@pytest.mark.parametrize("name", BODIES)
def test_the_ir_is_valid_to_the_third_order(name: str) -> None:
    f = function(BODIES[name])
    for _ in range(3):
        gradient = differentiate(f.graph)
        verify(gradient.f)
        verify(gradient.df)
        f = gs.grad(f, allow_unused=True)
        verify(f.graph)


@pytest.mark.parametrize("name", some_of(BODIES))
def test_the_derivatives_hold(name: str) -> None:
    f = function(BODIES[name])
    for report in (gs.check(f, X, 2), gs.check(gs.grad(f), X, 2)):
        # With one `n` only one side of `if n > 1` is reached.
        assert {failure.kind for failure in report.failures} <= {"unreached"}, str(report)
    x = gs.tape.Variable(X, requires_grad=True)
    (found,) = gs.tape.grad(f(x, 2), x)
    np.testing.assert_allclose(found.data, gs.grad(f)(X, 2), rtol=1e-12)


def test_a_backward_of_ones_own_for_lists_of_lists() -> None:
    unit = gs.CompilationUnit(
        """
def product(rows: List[List[Tensor]]):
    def backward(grad):
        return [[grad * rows[1][0], torch.zeros_like(rows[0][1])], [grad * rows[0][0]]]

    return rows[0][0] * rows[1][0], backward


def f(x):
    return product([[x * 3, x], [x * x]]).sum()
"""
    )
    assert gs.check(unit.f, X).ok
    out, pullback = gs.vjp(unit.product, [[X, X], [X + 1]])
    ((first, zeros), (second,)) = pullback(np.ones_like(out))[0]
    np.testing.assert_array_equal(first, X + 1)
    np.testing.assert_array_equal(second, X)
    assert not zeros.any()
    np.testing.assert_allclose(gs.grad(unit.f)(X), 9 * X * X)
    x = gs.tape.Variable(X, requires_grad=True)
    (found,) = gs.tape.grad(unit.f(x), x)
    np.testing.assert_allclose(found.data, 9 * X * X)


def test_a_list_of_numbers_is_there_before_the_list_that_holds_it() -> None:
    f = gs.CompilationUnit(
        """
def f(x):
    rows = [[x, x], [x * 1, x * 1]]
    some = [1]
    first: List[List[Tensor]] = []
    for i in some:
        first.append(rows[i])
    groups = [some, [0]]
    taken: List[List[List[Tensor]]] = []
    for group in groups:
        taken.append([rows[i] for i in group])
    return (taken[0][0][0] * 3).sum() + (first[0][0] * 5).sum()
"""
    ).f
    verify(gs.grad(f).graph)
    np.testing.assert_allclose(gs.grad(f)(X), np.full_like(X, 8))


@pytest.mark.parametrize("gradient", ["[grad, grad]", "grad", "[[[grad]]]", "[[1]]"])
def test_a_gradient_of_another_depth_is_told(gradient: str) -> None:
    backward = f"    def backward(grad):\n        return {gradient}\n"
    source = f"def f(rows: List[List[Tensor]]):\n{backward}    return rows[0][0], backward\n"
    with pytest.raises(gs.CompileError, match=r"must be a List\[List\[Tensor\]\]") as caught:
        gs.CompilationUnit(source)
    assert caught.value.code == "E405"

"""Calls of pullbacks and gradients: which arguments have one, and how what is wrong with them is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest

UNIT = gs.CompilationUnit("""
def defaults(x, y=None, n: int = 2, *, k: float = 1.0):
    return (x * n * k).sum()

def rows(l: List[Tensor], x):
    return l[0].sum() * x.sum()

def wrong(x, w):
    def backward(g):
        return g, (g * x).sum(0)
    return x * w, backward

def outer(x, w):
    return (wrong(x * 2, w) * 3).sum()

def summed_to_another(x, w):
    def backward(g):
        return (g * w).sum_to_size(w.size()), g * x
    return x * w, backward

def around(x, w):
    return (summed_to_another(x * 2, w) * 3).sum()
""")
X = np.ones((5, 4))


@pytest.mark.parametrize(
    ("args", "kwargs", "count"),
    [((X,), {}, 1), ((X, X), {}, 2), ((X,), {"k": 2.0}, 2), ((X, None, 3), {"k": 1.0}, 4), ((), {"n": 1, "x": X}, 2)],
)
def test_a_pullback_gives_one_gradient_per_argument_given(
    args: tuple[Any, ...], kwargs: dict[str, Any], count: int
) -> None:
    gradients = gs.vjp(UNIT.defaults, *args, **kwargs)[1](1.0)
    assert len(gradients) == count
    assert gradients[0].shape == X.shape and all(g is None for g in gradients[1:] if g is not gradients[0])


@pytest.mark.parametrize("given", [np.arange(3), np.ones(2, bool), 3, True, np.int32(1)])
@pytest.mark.parametrize(
    "make",
    [
        lambda: gs.grad(UNIT.defaults),
        lambda: gs.value_and_grad(UNIT.defaults, (0,)),
        lambda: gs.grad(UNIT.defaults, policy="min_cut"),
        lambda: gs.grad(gs.grad(UNIT.defaults, allow_unused=True), allow_unused=True),
    ],
)
def test_there_is_no_gradient_with_respect_to_integers(make: Callable[[], gs.Function], given: Any) -> None:
    with pytest.raises(gs.RuntimeFailure, match=r"argument 'x': there is no gradient.*(?s:.)*x\.astype\(float\)"):
        make()(given)


def test_nor_to_a_list_of_them() -> None:
    with pytest.raises(gs.RuntimeFailure, match=r"argument 'l': there is no gradient.* element 1, an array of int64"):
        gs.grad(UNIT.rows)([X, np.arange(3)], X)
    assert gs.grad(UNIT.rows, 1)([np.arange(3)], X).shape == X.shape


@pytest.mark.parametrize("argnums", [1, (0, -1)])
def test_nor_to_what_is_not_there(argnums: Any) -> None:
    unit = gs.CompilationUnit(
        "def f(x, w: Optional[Tensor] = None):\n    return x.sum() if w is None else (x * w).sum()\n"
    )
    with pytest.raises(gs.RuntimeFailure, match=r"argument 'w': there is no gradient .* None(?s:.)*argnums"):
        gs.grad(unit.f, argnums)(X)


@pytest.mark.parametrize("argnums", [1.0, "x", [0.5], 7, [True], None])
def test_argnums_are_ints(argnums: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="argnum"):
        gs.grad(UNIT.outer, argnums)


@pytest.mark.parametrize(("name", "argument", "shape"), [("outer", "w", "[4]"), ("around", "x", "[4]")])
def test_a_gradient_of_the_wrong_shape_is_told_at_the_users_line(name: str, argument: str, shape: str) -> None:
    w = np.ones((5, 1)) if name == "outer" else np.ones(4)
    with pytest.raises(gs.RuntimeFailure) as failure:
        gs.grad(UNIT[name], (0, 1))(X, w)
    assert f"the gradient of '{argument}' has shape {shape}, the argument" in str(failure.value)
    assert failure.value.argument == argument and failure.value.span.text.startswith("(g *")

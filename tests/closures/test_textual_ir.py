"""Textual IR with closures and calls: it means what the graphs mean, or is refused by name."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.autodiff import differentiate

UNIT = gs.CompilationUnit("""
def helper(x):
    return x * 2


def own(x):
    m = helper(x)

    def backward(grad):
        def second(grad_grad):
            return grad_grad * 100

        return helper(grad) * 50, second

    return x * m, backward


def caller(x):
    y = own(x)
    if bool(y.sum() > 0):
        y = own(y)
    return helper(y).sum() + own(x).sum()


def plain(x):
    return (x * x).sum()
""")
X = np.array([0.5, 1.5])


@pytest.mark.parametrize("name", UNIT)
def test_a_text_says_what_it_calls(name: str) -> None:
    graph = UNIT[name].graph
    again = gs.parse_ir(str(graph))
    assert str(again) == str(graph)
    f, g = UNIT[name], gs.Function.of_graph(again)
    np.testing.assert_array_equal(f(X), g(X))
    cotangent = np.ones_like(f(X))
    np.testing.assert_array_equal(gs.vjp(f, X)[1](cotangent)[0], gs.vjp(g, X)[1](cotangent)[0])
    if f(X).ndim == 0:
        np.testing.assert_array_equal(gs.grad(f)(X), gs.grad(g)(X))
        np.testing.assert_array_equal(gs.vjp(gs.grad(f), X)[1](X)[0], gs.vjp(gs.grad(g), X)[1](X)[0])


@pytest.mark.parametrize("name", UNIT)
def test_a_graph_is_differentiated_by_its_own_closure(name: str) -> None:
    graph = UNIT[name].graph
    texts = {differentiate(g).df.text(alone=True) for g in (graph, gs.parse_ir(str(graph)))}
    assert len(texts) == 1
    if name == "own":
        assert 'prim::GradOf[name="own"]' in texts.pop()


def test_gradients_of_pairs_are_text_too() -> None:
    """Graphs that call halves of pairs: their closures are put back."""
    gradient = gs.grad(UNIT.caller)
    again = gs.Function.of_graph(gs.parse_ir(str(gradient.graph)))
    np.testing.assert_array_equal(gradient(X), again(X))
    np.testing.assert_array_equal(gs.vjp(gradient, X)[1](X)[0], gs.vjp(again, X)[1](X)[0])


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            'graph f(%x : Tensor): %y : Tensor = prim::CallFunction[callee="missing"](%x) return (%y)',
            "E503",
            "unknown function 'missing'",
        ),
        (
            'graph f(%x : Tensor): %y : Tensor = prim::CallFunction[callee="f"](%x) return (%y)',
            "E407",
            "recursion: 'f' calls 'f'",
        ),
        ("graph f(): return () graph f(): return ()", "E502", "graph 'f' is defined twice"),
        (
            'graph f(%n : int): %y : int = prim::CallFunction[callee="g"](%n) return (%y) '
            "graph g(%x : Tensor): return (%x)",
            "E504",
            "",
        ),
        (
            'graph f(%x : Tensor): %b : Closure = prim::Function[name="lost"]() block(%g : Tensor): return (%g, %g) '
            "return (%x, %b) ",
            "E405",
            "'lost' returns 2 gradients; 'f' has 1 input (x)",
        ),
    ],
)
def test_refusals(text: str, code: str, message: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.Function.of_graph(gs.parse_ir(text))
    assert caught.value.code == code
    assert message in caught.value.message

"""gs.tape.Function in gs.trace: the trace is differentiated by the class's own backward."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest

X, W = np.array([1.2, -2.7, 0.4]), np.array([3.0, 4.2, -0.5])


class Straight(gs.tape.Function):
    """Rounds, and says that its derivative is 100 times what it is not. `k` is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: float) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x.round() * k

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 100 * ctx.saved[0] * ctx.k, None


class SplitScale(gs.tape.Function):
    """Several outputs, one without gradient; something of the forward is left on the context as it is."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.positive = x > 1
        index = x.argmax()
        ctx.mark_non_differentiable(index)
        return [(x * 2).exp(), index, x * w]

    @staticmethod
    def backward(ctx: Any, first: Any, index: Any, second: Any) -> Any:
        assert index is None
        return first * 2 * (ctx.saved[0] * 2).exp() * ctx.positive + second, None


class Nested(gs.tape.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return Straight.apply(x, 1.0) + x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return Straight.apply(grad * ctx.saved[0], 0.5)


def _straight(x: Any, w: Any) -> Any:
    return (Straight.apply(x * w, 2.0) * x).sum() + Straight.apply(w, 3.0).sum()


def _split(x: Any, w: Any) -> Any:
    first, index, second = SplitScale.apply(x * x, w)
    return (first * second).sum() + index


def _nested(x: Any, w: Any) -> Any:
    return (Nested.apply(x) * w * x).sum()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", [_straight, _split, _nested])
def test_a_trace_has_the_gradients_of_the_tape(function: Any) -> None:
    traced = gs.trace(function, X, W)
    results = []
    for run in (function, traced):
        x, w = gs.tape.Variable(X[::-1].copy()), gs.tape.Variable(W)
        value = run(x, w)
        first = gs.tape.grad(value, [x, w], create_graph=True, allow_unused=True)
        (second,) = gs.tape.grad((first[0] * first[0]).sum(), x)
        results.append([value, *first, second])
    for found, expected in zip(*results, strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            np.testing.assert_allclose(found.data, expected.data, rtol=1e-12)
    plain = gs.grad(traced)(X[::-1].copy(), W)
    np.testing.assert_allclose(plain, results[0][1].data, rtol=1e-12)


def test_it_stands_in_the_graph_as_a_function_with_its_backward() -> None:
    traced = gs.trace(_straight, X, W)
    calls = [node.attr("callee") for node in traced.graph.nodes if node.kind == "prim::CallFunction"]
    assert calls == ["Straight", "Straight_1"]
    assert traced.graph.functions["Straight"].pair is not None


def test_mistakes() -> None:
    class TooMany(gs.tape.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, grad

    with pytest.raises(RuntimeError, match="returned 2 gradients for 1 arguments"):
        gs.trace(TooMany.apply, X)

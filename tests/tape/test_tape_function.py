"""gs.tape.Function: nodes written in Python."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch


class Cube(gs.tape.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved
        return grad * 3 * x * x


class Exp(gs.tape.Function):
    """Saves its own output."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = np.exp(x.data)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved[0]


class SplitScale(gs.tape.Function):
    """Two outputs and an index, an argument that is no tensor, and None among the gradients."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float, w: Any) -> Any:
        ctx.factor = factor
        ctx.save_for_backward(x, w)
        index = gs.tape.Variable(np.arange(2))
        ctx.mark_non_differentiable(index)
        return x * factor, x * w, index

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any, index: Any) -> Any:
        assert index is None
        x, w = ctx.saved
        needs_x, _, needs_w = ctx.needs_input_grad
        return (first * ctx.factor + second * w if needs_x else None), None, (second * x if needs_w else None)


@pytest.mark.parametrize("function", [Cube, Exp])
def test_three_derivatives(function: type[gs.tape.Function]) -> None:
    data = np.array([0.5, 2.0])
    v, t = gs.tape.Variable(data), torch.tensor(data, requires_grad=True)
    y, expected = function.apply(v * 1), t**3 if function is Cube else torch.exp(t)
    for _ in range(3):
        (y,) = gs.tape.grad(y.sum(), v, create_graph=True)
        (expected,) = torch.autograd.grad(expected.sum(), t, create_graph=True)
        np.testing.assert_allclose(y.data, expected.detach().numpy(), rtol=1e-14)


def test_joins_the_tape() -> None:
    unit = gs.CompilationUnit("def f(x):\n    return torch.sin(x) * x\n")
    v, t = gs.tape.Variable(np.array([0.5, 2.0])), torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    y = unit.f(Cube.apply(v.exp()))
    assert y.grad_fn.edges[0].node.name == "Cube"
    y.sum().backward()
    cube = torch.exp(t) ** 3
    (torch.sin(cube) * cube).sum().backward()
    np.testing.assert_allclose(v.grad.data, t.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_several_outputs_and_arguments(needs: tuple[bool, bool]) -> None:
    x, w = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    v, u = gs.tape.Variable(x, requires_grad=needs[0]), gs.tape.Variable(w, requires_grad=needs[1])
    first, second, index = SplitScale.apply(v, 4.0, u)
    assert not index.requires_grad and first.requires_grad and second.requires_grad
    second.sum().backward()
    # Nothing flows into the first output: its gradient is zeros by the time that backward has it.
    assert (v.grad is not None) == needs[0] and (u.grad is not None) == needs[1]
    if needs[0]:
        np.testing.assert_array_equal(v.grad.data, w)
    if needs[1]:
        np.testing.assert_array_equal(u.grad.data, x)


def test_nothing_is_recorded_without_need() -> None:
    assert Cube.apply(gs.tape.Variable(np.ones(2), requires_grad=False)).grad_fn is None
    with gs.tape.no_grad():
        assert Cube.apply(gs.tape.Variable(np.ones(2))).grad_fn is None


def test_undefined_gradients_can_be_seen() -> None:
    seen: list[Any] = []

    class Watch(gs.tape.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.materialize_grads = False
            return x * 1, x * 2

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            seen.append((first, second))
            return None

    v = gs.tape.Variable(np.ones(2))
    Watch.apply(v)[1].sum().backward()
    assert seen[0][0] is None
    assert seen[0][1] is not None
    assert v.grad is None


def test_gradients_are_summed_to_the_shape_of_the_argument() -> None:
    class Widen(gs.tape.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x + np.zeros((4, 3))

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    v = gs.tape.Variable(np.ones((1, 3), np.float32))
    Widen.apply(v).sum().backward()
    np.testing.assert_array_equal(v.grad.data, 4 * np.ones((1, 3), np.float32))
    assert v.grad.dtype == np.float32


def test_saved_after_freeing() -> None:
    y = Cube.apply(gs.tape.Variable(np.ones(2))).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()


def test_mistakes() -> None:
    class TooMany(gs.tape.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, grad

    class WrongShape(TooMany):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return np.ones(5)

    v = gs.tape.Variable(np.ones(3))
    with pytest.raises(RuntimeError, match="returned 2 gradients for 1 arguments"):
        TooMany.apply(v).sum().backward()
    with pytest.raises(gs.RuntimeFailure, match=r"shape \[5\] was given for a tensor of shape \[3\]"):
        WrongShape.apply(v).sum().backward()
    with pytest.raises(NotImplementedError, match="static method `forward"):
        gs.tape.Function.apply(v)


@pytest.mark.parametrize("materialize", [True, False])
@pytest.mark.parametrize("create_graph", [True, False])
def test_a_backward_that_gives_none_lets_the_next_one_run(materialize: bool, create_graph: bool) -> None:
    """As in torch: the next function gets zeros if it asks for them, hooks see None, and a leaf keeps None."""
    torch = pytest.importorskip("torch")
    seen: dict[str, list[Any]] = {"ours": [], "torch": []}

    def plain(value: Any) -> Any:
        return None if value is None else np.asarray(value.data).tolist()

    def functions(base: Any, log: list[Any]) -> tuple[Any, Any]:
        class Stops(base):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                log.append(("stops", plain(grad)))
                return None

        class Goes(base):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                if base is gs.tape.Function:
                    ctx.materialize_grads = materialize
                else:
                    ctx.set_materialize_grads(materialize)
                return x * 3

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                log.append(("goes", plain(grad)))
                return None if grad is None else grad * 3

        return Stops, Goes

    for name, base, leaf in (
        ("ours", gs.tape.Function, lambda: gs.tape.Variable(np.ones(2))),
        ("torch", torch.autograd.Function, lambda: torch.ones(2, dtype=torch.float64, requires_grad=True)),
    ):
        log = seen[name]
        stops, goes = functions(base, log)
        x, y = leaf(), leaf()
        x.register_hook(lambda grad, log=log: log.append(("leaf", plain(grad))))
        middle = goes.apply(x * y)
        middle.register_hook(lambda grad, log=log: log.append(("tensor", plain(grad))))
        middle.grad_fn.register_prehook(lambda grads, log=log: log.append(("before", *map(plain, grads))))
        middle.grad_fn.register_hook(lambda *grads, log=log: log.append(("after", len(grads))))
        stops.apply(middle).sum().backward(create_graph=create_graph)
        log.append(("left", plain(x.grad), plain(y.grad)))
    assert seen["ours"] == seen["torch"]

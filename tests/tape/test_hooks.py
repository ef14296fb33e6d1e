"""Hooks on Variables and on nodes."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest


def test_a_hook_sees_and_replaces_a_gradient() -> None:
    v = gs.tape.Variable(np.ones(3))
    y = v * 2
    seen: list[Any] = []
    y.register_hook(lambda grad: seen.append(grad.data.copy()))
    handle = y.register_hook(lambda grad: grad * 10)
    y.sum().backward(retain_graph=True)
    np.testing.assert_array_equal(seen[0], np.ones(3))
    np.testing.assert_array_equal(v.grad.data, 20 * np.ones(3))
    handle.remove()
    handle.remove()
    v.grad = None
    y.sum().backward()
    np.testing.assert_array_equal(v.grad.data, 2 * np.ones(3))


def test_a_hook_on_a_leaf_runs_once_on_the_whole_gradient() -> None:
    v = gs.tape.Variable(np.ones(3))
    seen: list[Any] = []
    v.register_hook(lambda grad: seen.append(grad.data.copy()))
    (v * 2 + v * 3).sum().backward()
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], 5 * np.ones(3))


def test_node_hooks() -> None:
    v = gs.tape.Variable(np.ones(3))
    y = v * 2
    calls: list[tuple[Any, ...]] = []
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 3,))
    y.grad_fn.register_hook(lambda inputs, outputs: calls.append((inputs, outputs)))
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(g if g is None else g * 5 for g in inputs))
    y.sum().backward()
    np.testing.assert_array_equal(v.grad.data, 30 * np.ones(3))
    ((inputs, outputs),) = calls
    np.testing.assert_array_equal(inputs[0].data, 6 * np.ones(3))
    np.testing.assert_array_equal(outputs[0].data, 3 * np.ones(3))


def test_hooks_are_recorded_under_create_graph() -> None:
    v = gs.tape.Variable(np.array([2.0]))
    y = v * v
    y.register_hook(lambda grad: grad * v)
    (first,) = gs.tape.grad(y.sum(), v, create_graph=True)
    (second,) = gs.tape.grad(first.sum(), v)
    assert first.item() == 8.0
    assert second.item() == 8.0


def test_retain_grad() -> None:
    v = gs.tape.Variable(np.ones(3))
    y = v * 2
    y.retain_grad()
    (y * y).sum().backward()
    np.testing.assert_array_equal(y.grad.data, 4 * np.ones(3))


def test_mistakes() -> None:
    v = gs.tape.Variable(np.ones(3))
    with pytest.raises(RuntimeError, match="requires a gradient"):
        v.detach().register_hook(print)
    with pytest.raises(TypeError, match="a hook is a function"):
        v.register_hook(3)
    y = v * 2
    y.grad_fn.register_prehook(lambda grads: (None, None))
    with pytest.raises(RuntimeError, match="2 gradients in the place of 1"):
        y.sum().backward()

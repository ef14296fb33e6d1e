"""gs.tape.Variable: what it is made of, what it says of itself, and the modes of recording."""

from __future__ import annotations

import threading
from typing import Any

import gradscript as gs
import numpy as np
import pytest


def test_a_leaf_shares_its_array() -> None:
    array = np.ones((2, 3))
    v = gs.tape.Variable(array)
    assert v.data is array
    assert (v.shape, v.ndim, v.dtype) == ((2, 3), 2, np.float64)
    assert v.is_leaf and v.requires_grad and v.grad is None and v.grad_fn is None


def test_only_floating_arrays_require_gradients() -> None:
    assert not gs.tape.Variable(np.arange(3)).requires_grad
    with pytest.raises(TypeError, match="only floating arrays"):
        gs.tape.Variable(np.arange(3), requires_grad=True)
    with pytest.raises(TypeError, match="made of an array"):
        gs.tape.Variable("text")


def test_what_is_computed_has_a_node() -> None:
    v = gs.tape.Variable(np.ones(3))
    y = v.exp()
    assert not y.is_leaf
    assert y.grad_fn.name == "aten::exp"
    assert y.grad_fn.next_functions[0][0].name == "AccumulateGrad"
    with pytest.raises(RuntimeError, match="only a leaf"):
        y.requires_grad = False


def test_one_node_for_a_compiled_function() -> None:
    unit = gs.CompilationUnit("def f(x, w):\n    y = torch.tanh(x * w)\n    return (y * x - y.exp()).sum()\n")
    v, w = gs.tape.Variable(np.ones(3)), gs.tape.Variable(np.ones(3))
    y = unit.f(v, w=w)
    assert y.grad_fn.name == "f"
    assert len(y.grad_fn.edges) == 2
    assert {node.name for node, _ in y.grad_fn.next_functions} == {"AccumulateGrad"}


def test_results_that_have_no_gradient_have_no_edge() -> None:
    v = gs.tape.Variable(np.array([3.0, 1.0]))
    for result in (v.argmax(), v > 2, v.detach(), v.to(np.int64)):
        assert isinstance(result, gs.tape.Variable)
        assert not result.requires_grad and result.grad_fn is None
    assert v.size() == [2] and v.dim() == 1


def test_operators_on_either_side() -> None:
    v, a = gs.tape.Variable(np.array([1.0, 2.0])), np.array([3.0, 4.0])
    results = {
        "a + v": (a + v, a + v.data),
        "a - v": (a - v, a - v.data),
        "a * v": (a * v, a * v.data),
        "a / v": (a / v, a / v.data),
        "a ** v": (a**v, a**v.data),
        "a @ v": (a @ v, a @ v.data),
        "2 - v": (2 - v, 2 - v.data),
        "2 / v": (2 / v, 2 / v.data),
        "2 ** v": (2**v, 2**v.data),
        "v // 2": (v // 2, v.data // 2),
        "v % 2": (v % 2, v.data % 2),
        "a < v": (a < v, a < v.data),
        "v == 1": (v == 1, v.data == 1),
        "-v": (-v, -v.data),
        "~(v > 1)": (~(v > 1), ~(v.data > 1)),
        "np.exp": (np.exp(v), np.exp(v.data)),
        "np.sum": (np.sum(v, axis=0), np.sum(v.data)),
        "np.where": (np.where(v > 1, v, a), np.where(v.data > 1, v.data, a)),
        "np.concatenate": (np.concatenate([v, a]), np.concatenate([v.data, a])),
        "np.maximum": (np.maximum(a, v), a),
    }
    for name, (found, expected) in results.items():
        assert isinstance(found, gs.tape.Variable), name
        np.testing.assert_allclose(found.data, expected, rtol=1e-15, err_msg=name)


def test_subscripts() -> None:
    v = gs.tape.Variable(np.arange(24.0).reshape(2, 3, 4))
    index = np.array([0, 2])
    pairs = [
        (v[0], v.data[0]),
        (v[:, 1:], v.data[:, 1:]),
        (v[..., -1], v.data[..., -1]),
        (v[:, None], v.data[:, None]),
        (v[:, index], v.data[:, index]),
        (v[:, [0, 2]], v.data[:, [0, 2]]),
        (v[1, ::2, 1:3], v.data[1, ::2, 1:3]),
        (v[v > 3], v.data[v.data > 3]),
    ]
    for found, expected in pairs:
        np.testing.assert_array_equal(found.data, expected)
    with pytest.raises(TypeError, match="not changed in place"):
        v[0] = 1.0


def test_ops_by_name() -> None:
    v = gs.tape.Variable(np.array([[1.0, 2.0], [3.0, 5.0]]))
    y = gs.ops.softmax(v, dim=1)
    assert y.grad_fn is not None
    assert isinstance(gs.ops.softmax(v.data, dim=1), np.ndarray)
    np.testing.assert_allclose(gs.ops.softmax(v.data, dim=1), y.data)
    np.testing.assert_allclose(gs.ops.cat([v, v.data], 1).data, np.concatenate([v.data, v.data], 1))
    values, indices = v.max(1)
    assert values.requires_grad and not indices.requires_grad
    assert v.T.shape == (2, 2)
    assert v.sum((0, 1), keepdim=True).shape == (1, 1)
    assert v.view(4, 1).shape == (4, 1)
    assert v.to(np.float32).dtype == np.float32


def test_mistakes_say_what_to_do() -> None:
    v = gs.tape.Variable(np.ones(3))
    with pytest.raises(AttributeError, match="did you mean 'softmax'"):
        v.softmx(0)
    with pytest.raises(AttributeError, match="there is no op"):
        gs.ops.no_such_op(v)
    with pytest.raises(gs.RuntimeFailure) as failure:
        v.sum("x", 3, 4)
    assert failure.value.code == "R001"
    with pytest.raises(TypeError, match="is no operand"):
        v + object()
    with pytest.raises(TypeError, match=r"np\.convolve does not take"):
        np.convolve(v, v)
    with pytest.raises(TypeError, match=r"becomes an array by `\.data`"):
        np.asarray(v)
    np.testing.assert_array_equal(np.asarray(v.detach()), v.data)


def test_what_a_function_cannot_take() -> None:
    unit = gs.CompilationUnit("def f(x, k: float):\n    return x * k\n")
    v = gs.tape.Variable(np.ones(3))
    with pytest.raises(gs.RuntimeFailure) as failure:
        unit.f(v, v)
    assert failure.value.argument == "k"
    with pytest.raises(gs.RuntimeFailure, match="stands where an array is needed"):
        gs.vjp(unit.f, v, 2.0)


def test_no_grad_is_a_context_and_a_decorator() -> None:
    v = gs.tape.Variable(np.ones(3))
    with gs.tape.no_grad():
        assert not gs.tape.is_grad_enabled()
        assert not (v * 2).requires_grad
        with gs.tape.enable_grad():
            assert (v * 2).requires_grad
        assert not (v * 2).requires_grad
    assert (v * 2).requires_grad

    @gs.tape.no_grad()
    def frozen(depth: int) -> Any:
        return frozen(depth - 1) if depth else v * 2

    assert not frozen(3).requires_grad
    assert gs.tape.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), gs.tape.no_grad():
        raise ZeroDivisionError
    assert gs.tape.is_grad_enabled()


def test_the_mode_belongs_to_a_thread() -> None:
    seen: list[bool] = []
    with gs.tape.no_grad():
        thread = threading.Thread(target=lambda: seen.append(gs.tape.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_data_and_grad_may_be_set() -> None:
    w = gs.tape.Variable(np.array([1.0, 2.0]))
    (w * w).sum().backward()
    w.data = w.data - 0.5 * w.grad.data
    np.testing.assert_array_equal(w.data, [0.0, 0.0])
    w.data = np.ones(3)
    w.grad = None
    (w * 2).sum().backward()
    np.testing.assert_array_equal(w.grad.data, [2.0, 2.0, 2.0])
    with pytest.raises(ValueError, match="has shape"):
        w.grad = np.ones(5)
    with pytest.raises(TypeError, match="cannot hold"):
        w.data = np.arange(3)


def test_python_numbers_and_iteration() -> None:
    v = gs.tape.Variable(np.array([1.0, 2.0]))
    assert float(v[0]) == 1.0 and int(v[1]) == 2 and len(v) == 2 and bool(v[0] > 0)
    rows = list(v)
    assert [row.item() for row in rows] == [1.0, 2.0]
    assert rows[0].requires_grad
    assert "requires_grad=True" in repr(v) and "grad_fn" in repr(v * 2)

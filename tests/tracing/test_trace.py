"""gs.trace: graphs from Python code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

UNIT = gs.CompilationUnit(
    """
def clipped(x, k: float = 6.0):
    if bool((x.sum() > 0).item()):
        y = x.clamp(0.0, k)
    else:
        y = x * 0.5
    return y

def powers(x, n: int):
    y = x
    for i in range(n):
        y = y * x
    return y

def own(x, w):
    def backward(grad):
        return grad * w * 3.0, grad * x
    return x * w, backward

def uses_own(x):
    return own(x, x) + clipped(x)
"""
)
X = np.random.default_rng(1).normal(size=(2, 3))
OTHER = np.random.default_rng(2).normal(size=(4, 3))


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.TracerWarning)
        yield


def _kinds(function: gs.Function) -> list[str]:
    return [node.kind for node in function.graph.all_nodes() if node.kind != "prim::Constant"]


def test_inputs_are_the_parameters() -> None:
    def f(x: Any, scale: Any) -> Any:
        return (x * scale).tanh().sum(1)

    traced = gs.trace(f, X, 2.0)
    assert traced.name == "f"
    assert [(a.name, str(a.type)) for a in traced.schema.arguments] == [("x", "Tensor"), ("scale", "float")]
    assert _kinds(traced) == ["aten::mul.Scalar", "aten::tanh", "prim::ListConstruct", "aten::sum.dim_IntList"]
    np.testing.assert_allclose(traced(OTHER, 3.0), np.tanh(OTHER * 3).sum(1), rtol=1e-12)
    assert gs.CompilationUnit(traced.code)["f"](OTHER, scale=3.0).shape == (4,)
    gs.parse_ir(str(traced.graph))


def test_sizes_follow_the_arguments() -> None:
    def f(x: Any) -> Any:
        rows, columns = x.shape
        return x.reshape(rows * columns, 1) + x.size(0), x.shape[1]

    found, columns = gs.trace(f, X)(OTHER)
    np.testing.assert_array_equal(found, OTHER.reshape(12, 1) + 4)
    assert columns == 3


def test_arrays_become_constants() -> None:
    w = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    traced = gs.trace(lambda x: x.to(np.float32) @ w + w[0], X)
    text = str(traced.graph)
    assert "prim::Constant[value=tensor(float32, [3, 2], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])]()" in text
    assert str(gs.parse_ir(text)) == text
    expected = traced(OTHER)
    w[:] = 0
    np.testing.assert_array_equal(traced(OTHER), expected)
    recompiled = gs.CompilationUnit(traced.code)
    assert recompiled.code == gs.CompilationUnit(recompiled.code).code
    np.testing.assert_array_equal(recompiled["traced"](OTHER), expected)


@pytest.mark.parametrize(
    "array",
    [
        np.array(2.5),
        np.array([True, False]),
        np.zeros((0, 3), np.float32),
        np.array([[-1, 2]], np.int8),
        np.array([np.nan, np.inf, -np.inf, -0.0], np.float16),
    ],
    ids=str,
)
def test_constants_of_every_kind(array: np.ndarray[Any, Any]) -> None:
    traced = gs.trace(lambda x: (x, array), X)
    parsed = gs.parse_ir(str(traced.graph))
    assert str(parsed) == str(traced.graph)
    kept = traced(OTHER)[1]
    assert kept.dtype == array.dtype
    np.testing.assert_array_equal(kept, array)
    (constant,) = [node for node in parsed.nodes if node.kind == "prim::Constant"]
    np.testing.assert_array_equal(constant.attr("value").array, array)


@pytest.mark.parametrize(
    "text", ["tensor(float99, [1], [1.0])", "tensor(int8, [2], [1])", "tensor(bool, [1], [3])", "tensor(int8, 3, [1])"]
)
def test_constants_that_make_no_sense(text: str) -> None:
    with pytest.raises(gs.CompileError) as error:
        gs.parse_ir(f"graph f():\n  %1 : Tensor = prim::Constant[value={text}]()\n  return (%1)\n")
    assert error.value.code in ("E005", "E501", "E503")


def test_numpy_functions_and_ops() -> None:
    def f(x: Any) -> Any:
        y = np.exp(x) + np.maximum(x, 0.5) * np.sum(x, axis=1, keepdims=True)
        return gs.ops.softmax(y, dim=1), np.concatenate([x, y], axis=0), np.where(x > 0, x, -1.0 * x)

    found = gs.trace(f, X)(OTHER)
    y = np.exp(OTHER) + np.maximum(OTHER, 0.5) * OTHER.sum(1, keepdims=True)
    np.testing.assert_allclose(found[0], torch.softmax(torch.tensor(y), 1).numpy(), rtol=1e-12)
    np.testing.assert_allclose(found[1], np.concatenate([OTHER, y]), rtol=1e-12)
    np.testing.assert_array_equal(found[2], abs(OTHER))


def test_lists_and_tuples_in_and_out() -> None:
    def f(pair: Any, xs: Any) -> Any:
        values, indices = pair[0].max(1)
        return [values, values * 2], (indices, gs.ops.cat(xs, 0)), pair[1]

    traced = gs.trace(f, (X, 3), [X, X])
    (first, second), (indices, joined), number = traced((OTHER, 5), [OTHER, X, X])
    np.testing.assert_array_equal(first, OTHER.max(1))
    np.testing.assert_array_equal(second, OTHER.max(1) * 2)
    np.testing.assert_array_equal(indices, OTHER.argmax(1))
    assert joined.shape == (8, 3) and number == 5


def test_compiled_functions_keep_their_control_flow() -> None:
    traced = gs.trace(lambda x, n: UNIT.clipped(UNIT.powers(x, n), k=2.0), X, 2)
    assert {"prim::If", "prim::Loop"} <= set(_kinds(traced))
    for n in (0, 1, 5):
        for x in (OTHER, abs(OTHER), -abs(OTHER)):
            np.testing.assert_allclose(traced(x, n), UNIT.clipped(UNIT.powers(x, n), k=2.0))


def test_own_backwards_are_kept() -> None:
    traced = gs.trace(lambda x: (UNIT.uses_own(x) + UNIT.own(x, x)).sum(), X)
    assert "prim::CallFunction" in _kinds(traced)
    found = gs.grad(traced)(abs(X))
    np.testing.assert_allclose(found, 2 * 4 * abs(X) + (abs(X) < 6))


def test_functions_of_one_name_from_two_units() -> None:
    other = gs.CompilationUnit(
        "def hundredfold(x):\n    return x * 100.0\n"
        "def own(x, w):\n    def backward(grad):\n        return hundredfold(grad), grad\n    return x + w, backward\n"
    )
    traced = gs.trace(lambda x: (UNIT.own(x, x) + other.own(x, x)).sum(), X)
    np.testing.assert_allclose(gs.grad(traced)(X), 3 * X + X + 100 + 1)


def test_traces_are_differentiated() -> None:
    def f(x: Any, w: Any) -> Any:
        return ((x @ w).tanh() ** 2).sum()

    w = np.random.default_rng(5).normal(size=(3, 2))
    traced = gs.trace(f, X, w)
    tx, tw = torch.tensor(OTHER, requires_grad=True), torch.tensor(w, requires_grad=True)
    f(tx, tw).backward()
    found = gs.grad(traced, (0, 1))(OTHER, w)
    np.testing.assert_allclose(found[0], tx.grad.numpy(), rtol=1e-10)
    np.testing.assert_allclose(found[1], tw.grad.numpy(), rtol=1e-10)
    v = gs.tape.Variable(OTHER)
    traced(v, w).backward()
    np.testing.assert_allclose(v.grad.data, tx.grad.numpy(), rtol=1e-10)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x: x if x.sum() > 0 else -x, r"bool\(\)"),
        (lambda x: x * int(x.sum()), r"int\(\)"),
        (lambda x: x * float(x.sum()), r"float\(\)"),
        (lambda x: x * len(x), r"len\(\)"),
        (lambda x: sum(row for row in x), "iteration"),
        (lambda x: [x * i for i in range(x.size(0))], "an index or a range"),
        (lambda x: x + np.asarray(x), "conversion to an array"),
    ],
    ids=["bool", "int", "float", "len", "iteration", "range", "array"],
)
def test_what_depends_on_data_is_warned_of(function: Any, what: str) -> None:
    with pytest.warns(gs.TracerWarning, match=what) as caught:
        gs.trace(function, X, check=False)
    assert caught[0].filename == __file__


def test_the_check_finds_what_depends_on_data() -> None:
    def absolute(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.warns(gs.TracerWarning) as caught:
        gs.trace(absolute, X)
    assert "does not hold on" in str(caught[-1].message)


def test_the_check_finds_what_depends_on_chance() -> None:
    draw = np.random.default_rng(0)
    with pytest.warns(gs.TracerWarning, match="does not hold on the example itself"):
        gs.trace(lambda x: x * draw.normal(), X)


def test_what_compiled_code_draws_is_drawn_anew() -> None:
    traced = gs.trace(lambda x: gs.ops.dropout(x, 0.5, True) + gs.ops.rand_like(x), X)
    with gs.random.local_seed(1):
        first, second = traced(X), traced(X)
    assert not np.array_equal(first, second)
    with gs.random.local_seed(1):
        np.testing.assert_array_equal(traced(X), first)


def test_what_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"is traced inside the trace of 'outer': call it there instead"):

        def outer(x: Any) -> Any:
            return gs.trace(lambda y: y * 2, x)(x)

        gs.trace(outer, X)
    kept: list[Any] = []
    gs.trace(lambda x: kept.append(x * 2) or x, X, check=False)
    with pytest.raises(RuntimeError, match="outside its trace"):
        kept[0] + 1
    with pytest.raises(TypeError, match="is compiled already"):
        gs.trace(UNIT.own, X, X)
    with pytest.raises(TypeError, match="returns a value of type dict"):
        gs.trace(lambda x: {"x": x}, X)
    with pytest.raises(TypeError, match="example 1: "):
        gs.trace(lambda x, mode: x, X, "fast")
    with pytest.raises(TypeError, match="not changed in place"):
        gs.trace(lambda x: x.__setitem__(0, 1.0), X)
    with pytest.raises(AttributeError, match="did you mean 'softmax'"):
        gs.trace(lambda x: x.softmx(0), X)
    # A failed trace leaves the way free for another.
    assert gs.trace(lambda x: x * 2, X)(X).shape == (2, 3)


def test_a_variable_in_a_trace_is_a_constant() -> None:
    w = gs.tape.Variable(np.array([1.0, 2.0, 3.0]))
    traced = gs.trace(lambda x: x * w, X)
    np.testing.assert_array_equal(traced(OTHER), OTHER * w.data)

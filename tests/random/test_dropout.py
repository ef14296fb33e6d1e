"""Dropout: the mask of the forward is made again in the backward from its seed, to any order, and never kept."""

from __future__ import annotations

import threading
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.analysis.draws import draws
from gradscript.compiler.autodiff import differentiate
from gradscript.compiler.formulas.library import compile_formula, formula, formula_names
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ops import OPS
from gradscript.compiler.ops.composite import is_composite
from gradscript.compiler.ops.registry import Trait
from gradscript.compiler.types.types import is_tensor

SOURCE = """
def plain(x, p: float, train: bool):
    return torch.dropout(x, p, train)

def functional(x):
    return F.dropout(x, 0.3)

def native(x):
    return torch.native_dropout(x, 0.3, True)

def channels(x):
    return F.dropout2d(x, 0.5)

def volumes(x):
    return F.dropout3d(x, 0.5)

def lines(x):
    return F.dropout1d(x, 0.5)

def alpha(x):
    return F.alpha_dropout(x, 0.2, True)

def feature_alpha(x):
    return F.feature_alpha_dropout(x, 0.2, True)

def slopes(x):
    return F.rrelu(x, 0.1, 0.4, True)

def deep(x, w):
    h = F.dropout(torch.tanh(x @ w), 0.25)
    for i in range(3):
        if i != 1:
            h = torch.sin(F.dropout(h, 0.5))
    return F.dropout(h, 0.1)

def own(x):
    seed = gs.seed()
    keep = gs.uniform(seed, x.size()) >= 0.5

    def backward(grad_output):
        return grad_output * 2 * (gs.uniform(seed, x.size()) >= 0.5)

    return x * keep * 2, backward

def saves_what_it_drew(x, n: int):
    noise = torch.ones_like(x)
    for i in range(n):
        for j in range(i):
            if j != 1:
                noise = noise * torch.rand_like(x)
    h = torch.sin(x) * noise

    def backward(grad_output):
        return grad_output * 2 * h * torch.cos(x) * noise, None

    return h * h, backward

def calls_own(x):
    return own(own(x) * 3) + own(x)

def total(x):
    return (F.dropout(x, 0.5) * x * x).sum()
"""
UNIT = gs.CompilationUnit(SOURCE)
X = np.linspace(0.5, 1.5, 2 * 3 * 4 * 2).reshape(2, 3, 4, 2)


def seeded(function: Any, *arguments: Any, seed: int = 5) -> Any:
    with gs.random.local_seed(seed):
        return function(*arguments)


def vjp(name: str, *arguments: Any, seed: int = 5) -> tuple[Any, Any]:
    result: tuple[Any, Any] = seeded(gs.vjp, UNIT[name], *arguments, seed=seed)
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_gradient_is_the_mask_of_the_forward(dtype: type) -> None:
    x = X.astype(dtype)
    out, pullback = vjp("functional", x)
    kept = out != 0
    grad = np.full_like(x, 3.0)
    scale = 1 / (1 - 0.3)
    for _ in range(2):
        (found,) = pullback(grad)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.where(kept, 3.0 * scale, 0), rtol=1e-3 if dtype == np.float16 else 1e-6)
    np.testing.assert_allclose(
        out, np.where(kept, x * scale, 0).astype(dtype), rtol=1e-3 if dtype == np.float16 else 1e-6
    )
    assert 0 < kept.mean() < 1


@pytest.mark.parametrize("name", ["functional", "channels", "volumes", "alpha", "feature_alpha", "slopes", "own"])
def test_a_call_and_its_derivative_draw_alike(name: str) -> None:
    x = X if name != "volumes" else X.reshape(2, 3, 4, 2, 1)
    out, pullback = vjp(name, x)
    np.testing.assert_array_equal(out, seeded(UNIT[name], x))
    with gs.settings.optimize(False):
        np.testing.assert_array_equal(out, seeded(UNIT[name], x))
    # All of them are linear where the sign of x stays, up to a constant.
    (grad,) = pullback(np.ones_like(x))
    moved = seeded(UNIT[name], x + 0.25)
    np.testing.assert_allclose(moved - out, 0.25 * grad, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", ["functional", "channels", "alpha", "feature_alpha", "slopes", "own", "calls_own"])
def test_derivatives_hold_to_second_order(name: str) -> None:
    report = gs.check(UNIT[name], X)
    assert report.ok, str(report)
    assert {case.order for case in report.cases} == {1, 2}


def test_derivatives_of_whole_programs() -> None:
    for report in (
        gs.check(UNIT.deep, X[0, :, :, 0], X[0, 0]),
        gs.check(UNIT.saves_what_it_drew, X[0, 0], 4),
        gs.check(UNIT.plain, X[0, 0], 0.5, True),
        gs.check(gs.grad(UNIT.total), X[0, 0]),
    ):
        assert report.ok, str(report)


def test_a_backward_that_draws_anew_is_found_out() -> None:
    source = """
def f(x):
    def backward(grad_output):
        return F.dropout(grad_output, 0.5)
    return F.dropout(x, 0.5), backward
"""
    report = gs.check(gs.CompilationUnit(source).f, X)
    assert [failure.kind for failure in report.failures] == ["value"]


@pytest.mark.parametrize("name", ["functional", "native", "channels", "lines", "alpha", "slopes", "deep"])
def test_no_mask_is_kept(name: str) -> None:
    """Of the forward, a backward keeps inputs, numbers and sizes, and what the other ops of `deep` need."""
    graph: Graph = UNIT[name].graph
    gradient = differentiate(graph)
    captured = [gradient.f.outputs[i] for i in gradient.captured_outputs]
    if name != "deep":
        assert not any(is_tensor(value.type) for value in captured)
    makers = {value.node.kind for value in captured if is_tensor(value.type)}
    assert not makers & {"gs::uniform", "aten::ge.Scalar", "aten::lt.Scalar", "gs::masked_dropout", "aten::where.self"}
    assert "int" in {str(value.type) for value in captured}


def test_a_second_derivative_keeps_no_mask_either() -> None:
    graph = UNIT.functional.graph
    second = differentiate(differentiate(graph).df)
    assert not any(is_tensor(second.f.outputs[i].type) for i in second.captured_outputs)


def test_where_nothing_is_random() -> None:
    ones = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(UNIT.plain(ones, 0.0, True), ones)
    np.testing.assert_array_equal(UNIT.plain(ones, 0.5, False), ones)
    np.testing.assert_array_equal(UNIT.plain(ones, 1.0, True), 0 * ones)
    out, pullback = gs.vjp(UNIT.plain, ones, 1.0, True)
    np.testing.assert_array_equal(pullback(ones)[0], 0 * ones)
    for shape in ((), (0, 3)):
        out, pullback = vjp("plain", np.ones(shape, np.float32), 0.5, True)
        assert out.shape == pullback(np.ones(shape, np.float32))[0].shape == shape
    for p in (-0.1, 1.5, float("nan")):
        with pytest.raises(gs.RuntimeFailure, match="between 0 and 1"):
            UNIT.plain(ones, p, True)


def test_native_dropout_gives_its_mask() -> None:
    (out, mask), pullback = vjp("native", X)
    assert mask.dtype == np.bool_
    np.testing.assert_array_equal(out != 0, mask)
    np.testing.assert_allclose(pullback((np.ones_like(X), None))[0], mask / (1 - 0.3))


ATTENTION = """
def some(q, k, v, p: float):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=p)

def half(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, None, 0.5, True)

def none(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, None, 0.0)
"""


def test_attention_drops_weights() -> None:
    unit = gs.CompilationUnit(ATTENTION)
    assert "gs::dropout_attention" in str(unit.half.graph) and "gs::dropout_attention" in str(unit.some.graph)
    assert "aten::scaled_dot_product_attention" in str(unit.none.graph)
    assert gs.CompilationUnit(unit.code).code == unit.code
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 2, 5, 4))
    v = np.broadcast_to(np.eye(5), (2, 5, 5))
    np.testing.assert_allclose(seeded(unit.some, q, k, v, 0.0), unit.none(q, k, v))
    weights = unit.none(q, k, v)
    dropped = seeded(unit.some, q, k, v, 0.25)
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], weights[kept] / 0.75)
    assert 0 < kept.mean() < 1
    assert gs.check(unit.half, q, k, v).ok
    with pytest.raises(gs.RuntimeFailure, match="between 0 and 1"):
        unit.some(q, k, v, 2.0)


def test_channels_go_as_a_whole() -> None:
    out = seeded(UNIT.channels, np.ones((40, 5, 3, 2), np.float32))
    assert set(np.unique(out)) == {0.0, 2.0}
    assert (out == out[:, :, :1, :1]).all()
    assert 60 < (out[:, :, 0, 0] == 0).sum() < 140
    unbatched = seeded(UNIT.lines, np.ones((50, 3), np.float32))
    assert (unbatched == unbatched[:, :1]).all() and len(np.unique(unbatched)) == 2
    with pytest.raises(gs.RuntimeFailure, match="2 dimensions"):
        UNIT.channels(np.ones(3, np.float32))


def test_how_many_are_dropped_and_what_stays_of_the_moments() -> None:
    many = np.ones((400, 500), np.float32)
    for p in (0.1, 0.5, 0.9):
        dropped = (seeded(UNIT.plain, many, p, True) == 0).mean()
        assert abs(dropped - p) < 5 * np.sqrt(p * (1 - p) / many.size)
    normal = np.random.default_rng(0).normal(size=(400, 500))
    out = seeded(UNIT.alpha, normal)
    assert abs(out.mean()) < 0.01 and abs(out.std() - 1) < 0.01
    slopes = seeded(UNIT.slopes, -many)
    assert -0.4 <= slopes.min() < -0.39 and -0.11 < slopes.max() <= -0.1
    np.testing.assert_array_equal(seeded(UNIT.slopes, many), many)


def test_each_call_draws_its_own_seed_in_any_thread() -> None:
    ones = np.ones(64, np.float32)
    seen: list[bytes] = []

    def work() -> None:
        for _ in range(50):
            out, pullback = gs.vjp(UNIT.functional, ones)
            np.testing.assert_allclose(pullback(ones)[0], out)
            seen.append(np.packbits(out != 0).tobytes())

    gs.random.manual_seed(0)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 200
    assert len(set(seen)) == 200


def test_the_tape_makes_the_same_mask_again() -> None:
    x = gs.tape.Variable(X.copy(), requires_grad=True)
    out = seeded(UNIT.functional, x)
    out.sum().backward()
    kept = seeded(UNIT.functional, X) != 0
    np.testing.assert_allclose(np.asarray(x.grad.data), kept / (1 - 0.3))


def test_every_op_that_is_written_in_the_language_and_draws_says_so() -> None:
    for op in filter(is_composite, OPS.all()):
        callee = formula(op.schema)
        assert callee is not None
        assert draws(callee.graph) == op.has(Trait.RANDOM), op.schema.full_name


def test_no_function_of_the_library_draws_and_has_a_backward() -> None:
    """It is a random op that is differentiated through, down to ops of a seed: those are what has a backward."""
    for name in formula_names():
        pair = compile_formula(name).pair
        assert pair is None or not draws(pair.forward), name

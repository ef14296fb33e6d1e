"""Profiling: what is recorded, what is made of it, and the guard before it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.ir.graph import Graph
from gradscript.runtime.execution.profiling import MAX_SPECIALIZED, PATIENCE, RUNS

pytestmark = pytest.mark.usefixtures("op_by_op")
"""What plans the interpreter makes, on whichever backend the suite runs."""

X = np.arange(12, dtype=np.float32).reshape(3, 4)
W = np.arange(8, dtype=np.float32).reshape(4, 2)

SOURCE = """
def shaped(x, w, n: int):
    y = x @ w
    if y.size(0) > 2 and y.size(1) == 2:
        y = y.view(y.size(1), y.size(0))
    for i in range(y.dim()):
        y = y + y.sum(i, keepdim=True)
    return y * y.numel() * n

def product(x, w):
    return x @ w

def optional(x, b: Optional[Tensor] = None):
    if b is not None:
        x = x + b
    return x.view(x.numel())

def nested(p: Tuple[Tensor, int], xs: List[Tensor]):
    return p[0] * p[1] + xs[0].size(0)

def signed(x, k: float):
    return x / k

def drawn(x):
    return torch.bernoulli(x * 0 + 0.5) + torch.rand_like(x) + torch.nn.functional.dropout(x, 0.5, True) + torch.rand(4)
"""


@pytest.fixture
def unit() -> gs.CompilationUnit:
    return gs.CompilationUnit(SOURCE)


@pytest.fixture(autouse=True)
def _profiling() -> Iterator[None]:
    with gs.settings.profiling(True):
        yield


def _last() -> Graph:
    graph = gs.compiler_debug.last_executed_graph()
    assert graph is not None
    return graph


def _kinds() -> set[str]:
    return {node.kind for node in _last().all_nodes()}


def _plain(name: str, *args: Any) -> Any:
    with gs.settings.profiling(False):
        return gs.CompilationUnit(SOURCE)[name](*args)


def test_sizes_propagate_through_the_graph(unit: gs.CompilationUnit) -> None:
    """Not only those of arguments: the branch and the loop hang on the size of a product."""
    expected = _plain("shaped", X, W, 2)
    for _ in range(2):
        np.testing.assert_array_equal(unit.shaped(X, W, 2), expected)
        assert "prim::If" in _kinds()
    np.testing.assert_array_equal(unit.shaped(X, W, 2), expected)
    assert not _kinds() & {"prim::If", "prim::Loop", "aten::size", "aten::size.int", "aten::dim", "aten::numel"}
    other = X[:2]
    np.testing.assert_array_equal(unit.shaped(other, W, 2), _plain("shaped", other, W, 2))
    assert "prim::If" in _kinds()
    np.testing.assert_array_equal(unit.shaped(X, W, 3), _plain("shaped", X, W, 3))
    assert "prim::If" in _kinds()
    unit.shaped(X, W, 2)
    assert "prim::If" not in _kinds()


def test_what_differs_between_the_first_runs_stays_open(unit: gs.CompilationUnit) -> None:
    unit.shaped(X, W, 2)
    unit.shaped(X, W, 3)
    for n in (4, 5):
        result = unit.shaped(X, W, n)
        assert "prim::If" not in _kinds() and _last().inputs[2].use_count == 1
        np.testing.assert_array_equal(result, _plain("shaped", X, W, n))


def test_numbers_are_told_apart_by_sign_and_type(unit: gs.CompilationUnit) -> None:
    x = np.ones(2)
    for k in (0.0, 0.0, 0.0, -0.0, 1.0, 0.0):
        np.testing.assert_array_equal(
            unit.signed(x, k), np.full(2, np.inf if not np.signbit(k) else -np.inf) if k == 0 else x
        )


def test_runs_that_fail_fail_the_same_later(unit: gs.CompilationUnit) -> None:
    messages = []
    for _ in range(4):
        with pytest.raises(gs.RuntimeFailure) as caught:
            unit.product(X, X)
        messages.append(str(caught.value))
    assert len(set(messages)) == 1
    np.testing.assert_array_equal(unit.product(X, W), X @ W)


def test_what_is_not_recorded_is_left_alone(unit: gs.CompilationUnit) -> None:
    for k in range(4):
        np.testing.assert_array_equal(unit.optional(X), X.ravel())
        np.testing.assert_array_equal(unit.optional(X, X), 2 * X.ravel())
        np.testing.assert_array_equal(unit.nested((X, k), [X]), X * k + 3)


def test_specialising_draws_no_random_numbers(unit: gs.CompilationUnit) -> None:
    def runs(function: gs.Function) -> list[Any]:
        with gs.random.local_seed(0):
            return [function(X) for _ in range(5)]

    with gs.settings.profiling(False):
        expected = runs(gs.CompilationUnit(SOURCE).drawn)
    np.testing.assert_array_equal(runs(unit.drawn), expected)


def test_each_spec_has_a_profile(unit: gs.CompilationUnit) -> None:
    wide = X.astype(np.float64), W.astype(np.float64)
    for _ in range(3):
        unit.shaped(X, W, 2)
        unit.shaped(*wide, 2)
    assert "prim::If" not in _kinds()
    assert unit.shaped(*wide, 2).dtype == np.float64
    assert len(unit.shaped.debug_state().plans) == 2


def test_threads_share_a_profile(unit: gs.CompilationUnit) -> None:
    shapes = [(3, 4), (2, 4), (5, 4)]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = [_plain("shaped", x, W, 2) for x in inputs]
    wrong: list[int] = []
    start = threading.Barrier(8)

    def work(seed: int) -> None:
        start.wait()
        with gs.settings.profiling(True):
            for i in range(60):
                index = (seed + i) % len(inputs) if seed % 2 else 0
                if unit.shaped(inputs[index], W, 2).tobytes() != expected[index].tobytes():
                    wrong.append(index)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


ROUNDS = "def f(x):\n    y = x\n    for i in range(x.size(0)):\n        y = y * x[i]\n    return y\n"


def test_it_learns_again_after_some_failures_in_a_row_and_keeps_what_it_knew() -> None:
    function, plain = gs.CompilationUnit(ROUNDS).f, gs.CompilationUnit(ROUNDS).f
    special: list[bool] = []
    with gs.settings.profiling(True):
        for count in [2] * 4 + [3] * (PATIENCE + RUNS + 1) + [2, 3, 2, 3]:
            x = np.linspace(0.5, 1.5, 3 * count).reshape(count, 3)
            expected = _plainly(plain, x)
            np.testing.assert_array_equal(function(x), expected)
            special.append("prim::Loop" not in _kinds())
    assert special == [False] * RUNS + [True] * 2 + [False] * (PATIENCE + RUNS) + [True] * 5


def test_of_sizes_that_come_and_go_the_last_few_are_kept() -> None:
    function = gs.CompilationUnit(ROUNDS).f
    with gs.settings.profiling(True):
        for count in range(2, 2 + MAX_SPECIALIZED + 2):
            for _ in range(PATIENCE + RUNS + 2):
                function(np.ones((count, 3)))
        for count in range(2, 2 + MAX_SPECIALIZED + 2):
            function(np.ones((count, 3)))
            assert ("prim::Loop" not in _kinds()) == (count >= 4)


@pytest.mark.parametrize("road", ["vjp", "tape", "torch"])
def test_both_halves_of_a_gradient_are_specialised(road: str) -> None:
    function = gs.CompilationUnit(ROUNDS).f
    torch = pytest.importorskip("torch")

    def gradient(count: int) -> Any:
        x = np.linspace(0.5, 1.5, 3 * count).reshape(count, 3)
        if road == "vjp":
            return gs.vjp(function, x)[1](np.ones_like(x))[0]
        if road == "tape":
            variable = gs.tape.Variable(x)
            function(variable).sum().backward()
            return variable.grad.data  # type: ignore[union-attr]
        tensor = torch.tensor(x, requires_grad=True)
        function(tensor).sum().backward()
        return tensor.grad.numpy()

    def reference(count: int) -> Any:
        x = torch.linspace(0.5, 1.5, 3 * count, dtype=torch.float64).reshape(count, 3).requires_grad_()
        y = x
        for i in range(count):
            y = y * x[i]
        return torch.autograd.grad(y.sum(), x)[0].numpy()

    with gs.settings.profiling(True):
        for count in (2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 2):
            np.testing.assert_allclose(gradient(count), reference(count), rtol=1e-12)
        # The backward ran last.
        assert "prim::Loop" not in _kinds()


def _plainly(function: Any, x: Any) -> Any:
    with gs.settings.profiling(False):
        return function(x)

"""Optimisation off, profiling, failures told in terms of the source, and passes of users."""

from __future__ import annotations

import threading
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.passes.check_in_place import WritesInPlace, check_in_place
from gradscript.compiler.pipeline import EXECUTOR, InvalidPass, pass_name, stages
from gradscript.compiler.types.types import INT
from gradscript.runtime.settings.modes import TOUCHED

X = np.arange(6, dtype=np.float32).reshape(2, 3)

SOURCE = """
def inner(x, y):
    return x * y

def outer(x, n: int):
    for i in range(n):
        x = inner(x, x + 1.0)
    return x

def sized(x):
    y = x
    for i in range(x.size(0)):
        y = y + x[i]
    return y.view(x.size(1), x.size(0)) * x.numel()

def bad(x, y):
    return inner(x, y)

def unstable(x):
    if bool((x > 0).all()):
        raise ValueError("positive")
    return x
"""


@pytest.fixture
def unit() -> gs.CompilationUnit:
    return gs.CompilationUnit(SOURCE)


def _kinds(graph: Graph | None) -> list[str]:
    assert graph is not None
    return [node.kind for node in graph.all_nodes()]


@pytest.mark.usefixtures("op_by_op")
def test_without_optimisation_a_fallback_plan_runs(unit: gs.CompilationUnit) -> None:
    optimized = unit.outer(X, 3)
    assert "prim::CallFunction" not in _kinds(gs.compiler_debug.last_executed_graph())
    gs.compiler_debug.reset_counters()
    with gs.settings.optimize(False):
        plain = unit.outer(X, 3)
        assert "prim::CallFunction" in _kinds(gs.compiler_debug.last_executed_graph())
    np.testing.assert_array_equal(plain, optimized)
    counted = gs.compiler_debug.counters()
    assert (counted["graph_executor_invocations"], counted["plan_cache_hits"]) == (1, 0)
    unit.outer(X, 3)
    assert "prim::CallFunction" not in _kinds(gs.compiler_debug.last_executed_graph())


@pytest.mark.usefixtures("op_by_op")
def test_a_setting_is_the_threads_own(unit: gs.CompilationUnit) -> None:
    seen: list[bool] = []

    def work() -> None:
        with gs.settings.optimize(False):
            unit.outer(X, 1)
        seen.append("prim::CallFunction" in _kinds(gs.compiler_debug.last_executed_graph()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    unit.outer(X, 1)
    assert seen == [True] and "prim::CallFunction" not in _kinds(gs.compiler_debug.last_executed_graph())


def test_profiling_specialises_behind_a_guard(unit: gs.CompilationUnit) -> None:
    with gs.settings.profiling(True):
        expected = [unit.sized(X) for _ in range(2)]
        assert "prim::Loop" in _kinds(gs.compiler_debug.last_executed_graph())
        result = unit.sized(X)
        kinds = _kinds(gs.compiler_debug.last_executed_graph())
        assert "prim::Loop" not in kinds and "aten::size" not in kinds and "aten::numel" not in kinds
        np.testing.assert_array_equal(result, expected[0])
        other = unit.sized(np.ones((4, 3), np.float32))
        assert "prim::Loop" in _kinds(gs.compiler_debug.last_executed_graph())
    np.testing.assert_array_equal(other, unit.sized(np.ones((4, 3), np.float32)))
    assert len(unit.sized.debug_state().plans) == 1


def test_profiling_takes_numbers_in_and_varying_ones_out(unit: gs.CompilationUnit) -> None:
    with gs.settings.profiling(True):
        for _ in range(3):
            result = unit.outer(X, 2)
        assert "prim::Loop" not in _kinds(gs.compiler_debug.last_executed_graph())
        np.testing.assert_allclose(unit.outer(X, 3), gs.CompilationUnit(SOURCE).outer(X, 3))
        assert "prim::Loop" in _kinds(gs.compiler_debug.last_executed_graph())
    np.testing.assert_array_equal(result, unit.outer(X, 2))
    varying = gs.CompilationUnit(SOURCE).outer
    with gs.settings.profiling(True):
        for n in (1, 2, 3, 4):
            varying(X, n)
        assert "prim::Loop" in _kinds(gs.compiler_debug.last_executed_graph())


def test_failures_name_the_calls_that_inlining_hid(unit: gs.CompilationUnit) -> None:
    with pytest.raises(gs.RuntimeFailure) as caught:
        unit.bad(np.ones(2), np.ones(3))
    assert caught.value.op == "aten::mul.Tensor"
    assert any("called from bad" in note for note in caught.value.notes)
    with pytest.raises(gs.RuntimeFailure, match="ValueError: positive"):
        unit.unstable(np.ones(2))
    np.testing.assert_array_equal(unit.unstable(-np.ones(2)), -np.ones(2))


def test_the_passes_are_in_the_executors_order() -> None:
    """These, and whatever else stands between them."""
    names = iter([pass_name(p) for name in stages(differentiable=False) for p in EXECUTOR[name]])
    for wanted in (
        *("specialize_types", "inline_functions", "lower_grad_of", "specialize_autograd_zero", "lower_tuples"),
        *("pool_constants", "remove_expands", "canonicalize", "eliminate_dead_code"),
        *("fold_constants", "propagate_types", "propagate_requires_grad"),
        *("eliminate_dead_code", "eliminate_common_subexpressions", "pool_constants", "peephole"),
        *("fold_constants", "unroll_loops", "check_in_place", "decompose_ops", "batch_matmuls", "aggregate_gradients"),
    ):
        assert wanted in names, f"{wanted} does not follow"


def test_the_table_is_in_the_executors_order() -> None:
    plain, sliced = stages(differentiable=False), stages(differentiable=True)
    assert plain == (
        *("specialize", "inline", "lower", "required", "propagate", "optimize"),
        *("decompose", "batch", "fuse", "aggregate", "finish"),
    )
    assert sliced == (
        *("specialize", "inline_keeping_pairs", "lower", "required", "propagate", "optimize"),
        *("autodiff", "finish"),
    )


# --- passes of users ---


def test_a_pass_of_a_users_runs_at_its_point(unit: gs.CompilationUnit) -> None:
    seen: list[str] = []

    def spy(graph: Graph) -> bool:
        seen.append(graph.name)
        return False

    def double(graph: Graph) -> bool:
        builder = Builder(graph)
        builder.returns(builder.op("aten::mul.Scalar", graph.outputs[0], 2.0))
        return True

    unit.inner(X, X)
    removals = [gs.compiler_debug.register_pass(point, spy) for point in EXECUTOR]
    removals.append(gs.compiler_debug.register_pass("fuse", double))
    try:
        np.testing.assert_array_equal(unit.inner(X, X), 2 * X * X)
        assert seen == ["inner"] * len(stages(differentiable=False))
    finally:
        for remove in removals:
            remove()
    np.testing.assert_array_equal(unit.inner(X, X), X * X)


def test_a_broken_pass_is_named(unit: gs.CompilationUnit) -> None:
    def forget_a_type(graph: Graph) -> bool:
        graph.inputs[0].type = INT
        return True

    remove = gs.compiler_debug.register_pass("optimize", forget_a_type)
    try:
        with pytest.raises(InvalidPass, match="pass forget_a_type left invalid IR"):
            unit.inner(X, X)
    finally:
        remove()
    np.testing.assert_array_equal(unit.inner(X, X), X * X)


@pytest.mark.parametrize("point", [point for point in EXECUTOR if point in stages(differentiable=False)])
def test_a_broken_pass_is_named_at_every_point(unit: gs.CompilationUnit, point: str) -> None:
    def add_an_input(graph: Graph) -> bool:
        graph.body.add_input()
        return True

    def use_before_definition(graph: Graph) -> bool:
        (node,) = [node for node in graph.nodes if node.kind == "aten::mul.Tensor"]
        other = Builder(graph).op("aten::exp", graph.inputs[0])
        node.set_input(0, other)
        return False

    for broken, rule in ((add_an_input, "it has 3 inputs"), (use_before_definition, "before")):
        remove = gs.compiler_debug.register_pass(point, broken)
        try:
            with pytest.raises(InvalidPass, match=rule) as caught:
                unit.inner(X, X)
            assert caught.value.pass_name == broken.__name__
        finally:
            remove()
        np.testing.assert_array_equal(unit.inner(X, X), X * X)


def test_a_pass_says_whether_it_changed_the_graph(unit: gs.CompilationUnit) -> None:
    def forgets(graph: Graph) -> Any:
        return None

    remove = gs.compiler_debug.register_pass("finish", forgets)
    try:
        with pytest.raises(TypeError, match="pass forgets returned None: a pass says whether"):
            unit.inner(X, X)
    finally:
        remove()


def test_what_a_pass_raises_is_the_users(unit: gs.CompilationUnit) -> None:
    def fails(graph: Graph) -> bool:
        raise ZeroDivisionError("of the user's")

    remove = gs.compiler_debug.register_pass("batch", fails)
    try:
        with pytest.raises(ZeroDivisionError, match="of the user's"):
            unit.inner(X, X)
    finally:
        remove()
    np.testing.assert_array_equal(unit.inner(X, X), X * X)


def test_points_are_checked() -> None:
    with pytest.raises(ValueError, match="no point 'nowhere'; the points are specialize"):
        gs.compiler_debug.register_pass("nowhere", lambda graph: False)
    bad: Any = 3
    with pytest.raises(TypeError, match="not int"):
        gs.compiler_debug.register_pass("fuse", bad)


def test_an_op_that_writes_is_refused() -> None:
    graph = Graph("f")
    node = Builder(graph).node("aten::add_.Tensor", [graph.body.add_input()])
    with pytest.raises(WritesInPlace, match=r"graph f: aten::add_\.Tensor writes"):
        check_in_place(graph)
    assert node.owner is graph.body


def test_settings_are_checked() -> None:
    with pytest.raises(TypeError, match="optimize is True or False, not 'no'"):
        gs.settings.optimize("no")  # type: ignore[arg-type]
    setting = gs.settings.profiling(True)
    with setting:
        pass
    with pytest.raises(RuntimeError, match="make another"), setting:
        pass


def test_calls_look_at_settings_only_while_one_may_be_in_force() -> None:
    before = TOUCHED.any
    with gs.settings.optimize(True):
        assert TOUCHED.any is before
    with gs.settings.optimize(False), gs.settings.profiling(True):
        assert TOUCHED.any
    assert TOUCHED.any is before

"""Plans by ArgumentSpec: what makes a new one, what does not, and what the cache counts."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.execution import executor as module
from gradscript.runtime.execution.argument_spec import OptionalSpec, TensorSpec

pytestmark = pytest.mark.usefixtures("op_by_op")
"""What plans the interpreter makes, on whichever backend the suite runs."""

SOURCE = """
def mul(x, y):
    return x * y

def scaled(x, k: float, bias: Optional[Tensor] = None, n: Optional[int] = None):
    y = x * k
    if bias is not None:
        y = y + bias
    if n is not None:
        y = y * n
    return y

def paired(p: Tuple[Tensor, int]):
    a, n = p
    return a * n

def deep(x):
    y = torch.tanh(x)
    if y.dim() == 2:
        y = y.sum(0)
    return torch.sigmoid(y) * 2.0
"""


@pytest.fixture(autouse=True)
def _from_zero() -> Iterator[None]:
    gs.compiler_debug.reset_counters()
    yield
    gs.compiler_debug.reset_counters()


@pytest.fixture
def unit() -> gs.CompilationUnit:
    return gs.CompilationUnit(SOURCE)


def _array(shape: tuple[int, ...] = (3,), dtype: Any = np.float32) -> Any:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)


def _plans(function: gs.Function) -> int:
    return len(function.debug_state().plans)


def test_sizes_strides_and_numbers_make_no_new_plan(unit: gs.CompilationUnit) -> None:
    for shape in ((3,), (4,), (0,), (1,)):
        unit.mul(_array(shape), _array(shape))
    unit.mul(_array((8,))[::2], _array((8,))[::-2])
    assert _plans(unit.mul) == 1
    for k in (1.0, 2.0, -0.0):
        unit.scaled(_array(), k)
    assert _plans(unit.scaled) == 1


def test_dtype_rank_and_presence_make_one(unit: gs.CompilationUnit) -> None:
    unit.mul(_array(), _array())
    unit.mul(_array(dtype=np.float64), _array())
    unit.mul(_array((2, 3)), _array())
    assert _plans(unit.mul) == 3
    unit.scaled(_array(), 1.0)
    unit.scaled(_array(), 1.0, _array())
    unit.scaled(_array(), 1.0, None, 3)
    unit.scaled(_array(), 1.0, None, 4)
    specs = list(unit.scaled.debug_state().plans)
    assert len(specs) == 3
    assert specs[1].arguments[2] == TensorSpec(True, False, specs[1].arguments[0].dtype, 1)
    assert specs[0].arguments[1:] == (None, TensorSpec(False), OptionalSpec(False))


def test_tuples_are_looked_into(unit: gs.CompilationUnit) -> None:
    unit.paired((_array(), 1))
    unit.paired((_array(), 2))
    unit.paired((_array((1, 1)), 2))
    assert _plans(unit.paired) == 2


def test_a_plan_is_specialised(unit: gs.CompilationUnit) -> None:
    x = _array((2, 3))
    np.testing.assert_allclose(unit.deep(x), 2 / (1 + np.exp(-np.tanh(x).sum(0))), rtol=1e-6)
    kinds = [node.kind for node in gs.compiler_debug.last_executed_graph().all_nodes()]  # type: ignore[union-attr]
    assert "prim::If" not in kinds and "aten::sum.dim_IntList" in kinds
    unit.deep(_array())
    assert "aten::sum.dim_IntList" not in str(gs.compiler_debug.last_executed_graph())
    state = unit.deep.debug_state()
    assert "prim::If" in str(state.graph) and "prim::If" in str(state.fallback.graph)
    assert all("prim::If" not in str(plan.graph) for plan in state.plans.values())


def test_counters(unit: gs.CompilationUnit) -> None:
    for _ in range(3):
        unit.mul(_array(), _array())
    unit.mul(_array((2, 3)), _array())
    unit.scaled(_array(), 2.0)
    assert gs.compiler_debug.counters() == {
        "graph_executors_constructed": 2,
        "graph_executor_invocations": 5,
        "plan_cache_hits": 2,
        "plan_cache_misses": 3,
    }
    gs.compiler_debug.reset_counters()
    assert set(gs.compiler_debug.counters().values()) == {0}


def test_the_cache_is_bounded_and_drops_what_was_used_longest_ago(
    unit: gs.CompilationUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PLANS", 3)
    shapes = [(1,) * rank for rank in range(1, 5)]
    for shape in shapes[:3]:
        unit.mul(_array(shape), _array(shape))
    unit.mul(_array(shapes[0]), _array(shapes[0]))
    unit.mul(_array(shapes[3]), _array(shapes[3]))
    ranks = sorted(spec.arguments[0].rank for spec in unit.mul.debug_state().plans)
    assert ranks == [1, 3, 4]
    before = gs.compiler_debug.counters()["plan_cache_misses"]
    unit.mul(_array(shapes[1]), _array(shapes[1]))
    assert gs.compiler_debug.counters()["plan_cache_misses"] == before + 1
    assert _plans(unit.mul) == 3


def test_torch_tensors_share_the_plans_of_arrays(unit: gs.CompilationUnit) -> None:
    torch = pytest.importorskip("torch")
    unit.mul(_array(), _array())
    result = unit.mul(torch.ones(3), torch.ones(3))
    assert isinstance(result, torch.Tensor)
    assert _plans(unit.mul) == 1


def test_32_threads_on_cold_keys_compile_each_once() -> None:
    function = gs.CompilationUnit(SOURCE).deep
    rng = np.random.default_rng(0)
    inputs = [
        rng.standard_normal((2,) * rank).astype(dtype) for rank in range(1, 6) for dtype in (np.float32, np.float64)
    ]
    with gs.settings.optimize(True):
        expected = [gs.CompilationUnit(SOURCE).deep(x) for x in inputs]
    gs.compiler_debug.reset_counters()
    wrong: list[Any] = []
    start = threading.Barrier(32)

    def work(seed: int) -> None:
        order = random.Random(seed)
        start.wait()
        for _ in range(1000):
            index = order.randrange(len(inputs))
            result = function(inputs[index])
            if result.tobytes() != expected[index].tobytes() or result.dtype != expected[index].dtype:
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    counted = gs.compiler_debug.counters()
    assert counted["plan_cache_misses"] == len(inputs) == _plans(function)
    assert counted["graph_executor_invocations"] == 32_000
    assert counted["graph_executors_constructed"] == 1


def test_threads_on_a_cache_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are dropped while others run them."""
    monkeypatch.setattr(module, "MAX_PLANS", 2)
    function = gs.CompilationUnit(SOURCE).deep
    inputs = [np.full((2,) * rank, 0.1 * rank, np.float32) for rank in range(1, 6)]
    expected = [gs.CompilationUnit(SOURCE).deep(x) for x in inputs]
    gs.compiler_debug.reset_counters()
    wrong: list[Any] = []
    start = threading.Barrier(8)

    def work(seed: int) -> None:
        order = random.Random(seed)
        start.wait()
        for _ in range(25):
            index = order.randrange(len(inputs))
            if function(inputs[index]).tobytes() != expected[index].tobytes():
                wrong.append(index)
            function.debug_state()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = gs.compiler_debug.counters()
    assert not wrong and _plans(function) == 2
    assert counted["plan_cache_hits"] + counted["plan_cache_misses"] == counted["graph_executor_invocations"] == 200
    assert len(function.executor.known) <= 2 * 2


def test_functions_in_threads_have_an_executor_each_once() -> None:
    functions = [gs.CompilationUnit(SOURCE).mul for _ in range(4)]
    gs.compiler_debug.reset_counters()
    start = threading.Barrier(16)

    def work() -> None:
        start.wait()
        for function in functions:
            function(_array(), _array())

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = gs.compiler_debug.counters()
    assert (counted["graph_executors_constructed"], counted["plan_cache_misses"]) == (4, 4)

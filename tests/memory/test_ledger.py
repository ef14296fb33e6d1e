"""The ledger: every buffer counted once, from the instruction that makes it to the one after which nobody holds it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.execution.derivatives import derivatives_of
from gradscript.runtime.memory.ledger import Ledger, arrays_in, memory_owner, run_watched
from gradscript.runtime.memory.measure import measure
from gradscript.runtime.plans.build import PlanCache, build_plan
from gradscript.runtime.plans.interpreter import execute, run_plan
from gradscript.runtime.plans.plan import ExecutionPlan

SIZE = 1000
BYTES = 8 * SIZE
ONES = np.ones(SIZE)


def plan_of(source: str) -> ExecutionPlan:
    (function,) = gs.CompilationUnit(source).functions.values()
    return build_plan(function.graph)


def live_after(plan: ExecutionPlan, *arguments: Any) -> list[int]:
    """Buffers of BYTES that are live after each op that made or freed one."""
    ledger = Ledger()
    run_watched(plan, arguments, ledger)
    ledger.finish()
    count, found = 0, []
    for step in ledger.steps:
        count += sum(b.nbytes == BYTES for b in step.born) - sum(b.nbytes == BYTES for b in step.died)
        if step.born or step.died:
            found.append(count)
    return found


def test_a_chain_keeps_its_argument_and_one_value() -> None:
    plan = plan_of("def f(x):\n    return torch.tanh(torch.sin(torch.exp(x)))\n")
    ledger = Ledger()
    ledger.hold([ONES])
    results = run_watched(plan, [ONES], ledger)
    ledger.finish()
    made = [step for step in ledger.steps if step.node is not None and step.born]
    assert [step.node.kind for step in made if step.node] == ["aten::exp", "aten::sin", "aten::tanh"]
    assert [len(step.died) for step in made] == [0, 1, 1]
    assert len(ledger.buffers([ONES, *results])) == 2


def test_results_are_those_of_the_plain_interpreter() -> None:
    plan = plan_of(
        "def f(x, n: int):\n    for i in range(n):\n        x = torch.sin(x) if i > 1 else x * 2\n    return x\n"
    )
    (expected,) = run_plan(plan, [ONES, 5])
    (found,) = run_watched(plan, [ONES, 5], Ledger())
    np.testing.assert_array_equal(found, expected)


def test_a_view_shares_the_buffer_that_it_keeps_alive() -> None:
    # The slice keeps all of its base: after the base's last use as well.
    plan = plan_of("def f(x):\n    y = torch.exp(x)\n    z = y[:10]\n    return torch.sin(z).sum() + z.sum()\n")
    assert live_after(plan, ONES)[-1] == 0
    ledger = Ledger()
    run_watched(plan, [ONES], ledger)
    ledger.finish()
    exp = next(step for step in ledger.steps if step.node and step.node.kind == "aten::exp")
    (buffer,) = exp.born
    death = next(i for i, step in enumerate(ledger.steps) if buffer in step.died)
    last_use = max(i for i, step in enumerate(ledger.steps) if step.node and step.node.kind == "aten::sum")
    assert buffer.nbytes == BYTES
    assert death == last_use


def test_an_expanded_tensor_costs_what_is_behind_it() -> None:
    plan = plan_of("def f(x):\n    return torch.exp(x).unsqueeze(0).expand(50, -1)\n")
    ledger = Ledger()
    results = run_watched(plan, [ONES], ledger)
    assert results[0].shape == (50, SIZE)
    assert [buffer.nbytes for buffer in ledger.buffers(results)] == [BYTES]


def test_a_loop_frees_what_its_rounds_do_not_carry() -> None:
    plan = plan_of(
        "def f(x, n: int):\n    for i in range(n):\n        y = torch.exp(x)\n        x = torch.sin(y)\n    return x\n"
    )
    # The argument, which the caller holds no more as far as the ledger knows; then exp and sin take turns.
    assert max(live_after(plan, ONES, 20)) == 1
    ledger = Ledger()
    run_watched(plan, [ONES, 20], ledger)
    assert sum(len(step.born) for step in ledger.steps) == 1 + 2 * 20


def test_a_list_holds_its_elements_once() -> None:
    plan = plan_of(
        "def f(x, n: int):\n    kept: List[Tensor] = []\n    for i in range(n):\n        x = torch.sin(x)\n"
        "        kept.append(x)\n        kept.append(x)\n    return kept\n"
    )
    ledger = Ledger()
    (kept,) = run_watched(plan, [ONES, 6], ledger)
    ledger.finish()
    assert len(kept) == 12
    assert len(ledger.buffers([kept])) == 6
    assert sum(len(s.born) for s in ledger.steps) - sum(len(s.died) for s in ledger.steps) == 6


def test_only_the_branch_taken_counts() -> None:
    plan = plan_of(
        "def f(x, flag: bool):\n    if flag:\n        y = torch.sin(torch.exp(x))\n    else:\n        y = x\n"
        "    return y\n"
    )
    assert len(live_after(plan, ONES, True)) > len(live_after(plan, ONES, False))
    ledger = Ledger()
    run_watched(plan, [ONES, False], ledger)
    assert sum(len(step.born) for step in ledger.steps) == 1


def test_operands_and_results_are_live_together() -> None:
    ledger = Ledger()
    run_watched(plan_of("def f(x):\n    return torch.exp(torch.sin(x))\n"), [ONES], ledger)
    ledger.finish()
    # exp's result takes over the register of its operand, which is there all the same while it runs.
    exp = next(step for step in ledger.steps if step.node and step.node.kind == "aten::exp")
    assert len(exp.born) == len(exp.died) == 1


def test_a_plan_with_calls_is_refused() -> None:
    unit = gs.CompilationUnit("def g(x):\n    return x * 2\n\n\ndef f(x):\n    return g(x)\n")
    with pytest.raises(ValueError, match="inline them first"):
        run_watched(PlanCache().plan(unit.f.graph), [ONES], Ledger())


def test_a_failure_is_told_as_ever() -> None:
    plan = plan_of("def f(x, y):\n    return x @ y\n")
    with pytest.raises(gs.RuntimeFailure, match="matmul"):
        run_watched(plan, [ONES, np.ones(3)], Ledger())


def test_owner_follows_views_to_the_end() -> None:
    base = np.zeros((4, 6))
    for view in (base[1:], base.T, base[:, :2].reshape(-1, 1)[:1], np.broadcast_to(base[0], (9, 6))):
        key, nbytes = memory_owner(view)
        if np.shares_memory(view, base):
            assert (key, nbytes) == (id(base), base.nbytes)
    windows = np.lib.stride_tricks.sliding_window_view(base, 3, axis=1)
    assert memory_owner(windows) == (id(base), base.nbytes)


def test_arrays_in_nested_values() -> None:
    a, b, c = (np.zeros(i) for i in range(3))
    assert [id(v) for v in arrays_in([a, [b, (c, 1, None)], "x", 2.0])] == [id(a), id(b), id(c)]


@pytest.mark.usefixtures("op_by_op")  # the arena of kernels asks the allocator for more at once
@pytest.mark.parametrize("policy", [None, "min_cut", "recompute_all"])
def test_the_peak_is_what_the_allocator_saw(policy: str | None) -> None:
    """Against Python's own trace of allocations, on ops that allocate nothing but their results."""
    source = "def f(x, w, n: int):\n    for i in range(n):\n        x = torch.tanh(x * w)\n    return (x * x).sum()\n"
    function = gs.CompilationUnit(source).f
    values = [np.full(100_000, 0.5), np.full(100_000, 0.9), 4]
    derivatives = derivatives_of(function)
    if policy is None:
        differentiated = derivatives.differentiate(values)
    else:
        differentiated, _ = derivatives.rematerialize(values, gs_policy(policy))
    measured = measure(differentiated, values)

    def run() -> None:
        outputs, residuals = differentiated.run(values)
        differentiated.pull_back_once(values, [np.ones_like(outputs[0])], residuals)

    run()
    tracemalloc.start()
    try:
        run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    counted = measured.peak_bytes - measured.input_bytes
    assert counted <= peak + 1000
    assert peak - counted < 50_000, "less than a tenth of an array, for the interpreter's own objects"


def gs_policy(name: str) -> Any:
    from gradscript.compiler.recompute import policy

    return policy(name)


def test_registers_are_used_up() -> None:
    plan = plan_of("def f(x):\n    return torch.sin(x)\n")
    registers = [np.ones(3), *plan.template]
    execute(plan, registers)
    assert not any(value is not None and np.array_equal(value, np.ones(3)) for value in registers)

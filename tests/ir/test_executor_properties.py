"""The executor's passes and stages on graphs of what they look for: the results stay, and every pass gets to work."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
from amounts import some_of
from evaluator import evaluate
from executor_graphs import arguments, executor_graph
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.pipeline import EXECUTOR, GraphPass, pass_name, run_stage, stages
from gradscript.runtime.execution.argument_spec import Signature
from gradscript.runtime.execution.compilation import compile_graph
from gradscript.runtime.execution.groups import plan_with_groups
from gradscript.runtime.plans.interpreter import run_plan

SEEDS = range(40)
PASSES: dict[str, GraphPass] = {
    pass_name(p): p for passes in EXECUTOR.values() for p in passes if not isinstance(p, partial)
}
ROUNDED = ("batch_matmuls", "batch_rounds", "decompose_ops")
"""Products joined, or rounded in between: the same but for the last places."""
AT_WORK = {
    *("batch_matmuls", "canonicalize", "decompose_ops", "eliminate_common_subexpressions", "eliminate_dead_code"),
    *("fold_constants", "peephole", "pool_constants", "propagate_requires_grad", "propagate_types", "remove_expands"),
    *("simplify_broadcasts", "unroll_loops"),
}
"""Passes for which these graphs have work; those of `random_graphs` have some for others."""
NEED_TYPES = {"decompose_ops", "propagate_requires_grad", "propagate_types"}


def _check(graph: Graph, values: list[Any], expected: list[Any], exactly: bool, before: str) -> None:
    verify(graph)
    for left, right in zip(evaluate(graph, values), expected, strict=True):
        assert left.shape == right.shape and left.dtype == right.dtype, f"{before}\n{graph.text()}"
        if exactly:
            same = np.array_equal(left, right)
        else:
            same = np.allclose(left, right, rtol=1e-9, atol=1e-11)
        assert same, f"{before}\n{graph.text()}"


@pytest.mark.parametrize("typed", [True, False], ids=["typed", "untyped"])
@pytest.mark.parametrize("name", some_of(PASSES))
def test_a_pass_keeps_the_results(name: str, typed: bool) -> None:
    worked = 0
    for seed in SEEDS:
        graph, values = executor_graph(seed, typed=typed), arguments(seed)
        before = graph.text()
        expected = evaluate(graph, values)
        changed = PASSES[name](graph)
        assert changed or graph.text() == before
        worked += changed
        _check(graph, values, expected, name not in ROUNDED, before)
    assert worked or name not in AT_WORK or (name in NEED_TYPES and not typed)


@pytest.mark.parametrize("differentiable", [False, True])
def test_stages_keep_the_results(differentiable: bool) -> None:
    """One after the other, each looked at; what slices is looked at where the plan runs."""
    for seed in SEEDS:
        graph, values = executor_graph(seed, size=20), arguments(seed)
        before = graph.text()
        expected = evaluate(graph, values)
        for name in stages(differentiable=differentiable):
            run_stage(graph, name)
            _check(graph, values, expected, False, before)


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("everything", [False, True])
def test_plans_give_the_results(requires_grad: bool, everything: bool) -> None:
    groups: Counter[str] = Counter()
    for seed in SEEDS:
        graph, values = executor_graph(seed, size=20, typed=False), arguments(seed)
        before = graph.text()
        expected = evaluate(graph, values)
        signature = Signature(graph)
        flags = [requires_grad and i % 2 == seed % 2 for i in range(len(values))]
        compiled = compile_graph(graph, signature.spec(values, flags), slice_everything=everything)
        verify(compiled)
        assert graph.text() == before
        groups.update(node.kind for node in compiled.all_nodes())
        for left, right in zip(run_plan(plan_with_groups(compiled), values), expected, strict=True):
            assert left.shape == right.shape and left.dtype == right.dtype, f"{before}\n{compiled}"
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-11, err_msg=f"{before}\n{compiled}")
    assert (groups["prim::DifferentiableGraph"] > 0) is requires_grad
    assert (groups["prim::mm_tree"] > 0) is not requires_grad

"""The interpreter against the evaluator of these tests, on random graphs, optimised or not."""

from __future__ import annotations

from typing import Any

import numpy as np
from amounts import some
from evaluator import UNDEFINED, evaluate, same
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.pipeline import RECIPES
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import execute, run_plan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pass_running import run_to_fixpoint
from random_graphs import arguments, graphs

slow = settings(
    deadline=None, max_examples=some(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def _plain(value: Any) -> Any:
    """The evaluator's values as the interpreter has them: None for an undefined gradient."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if value is UNDEFINED else value


def _expected(graph: Graph, values: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        return _plain(evaluate(graph, values))


@slow
@given(graphs(20))
def test_gives_what_the_evaluator_gives(graph: Graph) -> None:
    values = arguments(graph)
    plan = build_plan(graph)
    assert same(_plain(run_plan(plan, values)), _expected(graph, values)), f"{graph.text()}\n{plan}"


@slow
@given(graphs(20), st.sampled_from(sorted(RECIPES)))
def test_gives_the_same_after_a_pipeline(graph: Graph, name: str) -> None:
    values = arguments(graph)
    expected = _expected(graph, values)
    run_to_fixpoint(graph, RECIPES[name])
    assert same(_plain(run_plan(build_plan(graph), values)), expected)


@slow
@given(graphs(20))
def test_frees_all_but_the_results(graph: Graph) -> None:
    plan = build_plan(graph)
    registers = [*arguments(graph), *plan.template]
    results = execute.__wrapped__(plan, registers)  # type: ignore[attr-defined]  # without the wrapper for warnings
    kept = {id(array) for array in _arrays(results)}
    left = [slot for slot, value in enumerate(registers) for array in _arrays([value]) if id(array) not in kept]
    assert not left, f"registers {left} are not freed\n{graph.text()}\n{plan}"


def _arrays(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += _arrays(value) if isinstance(value, list | tuple) else [value] if isinstance(value, np.ndarray) else []
    return found

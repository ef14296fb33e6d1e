"""Properties of the textual IR and of every pass, on random graphs."""

from __future__ import annotations

import numpy as np
import pytest
from amounts import some
from evaluator import evaluate, same
from gradscript.compiler import pipeline
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.pipeline import PASSES, RECIPES, GraphPass
from gradscript.compiler.types.types import Type
from gradscript.lang.diagnostics import CompileError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pass_running import run_to_fixpoint
from random_graphs import arguments, graphs

slow = settings(
    max_examples=some(100), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def _types(graph: Graph) -> list[Type]:
    return [value.type for node in graph.all_nodes() for value in node.outputs]


NOISE = st.text(max_size=5) | st.sampled_from(["return", "block():", "%x", "[", "Tensor", "9" * 5000, "\ud800"])


@slow
@given(graphs())
def test_text_reads_back(graph: Graph) -> None:
    text = graph.text()
    again = parse_ir(text)
    assert again.text() == text
    assert [v.type for n in again.all_nodes() for v in n.outputs] == [
        v.type for n in graph.all_nodes() for v in n.outputs
    ]


@slow
@given(graphs())
def test_copy_is_equal_and_apart(graph: Graph) -> None:
    copy = graph.copy()
    verify(copy)
    assert copy.text() == graph.text()
    assert not set(copy.all_nodes()) & set(graph.all_nodes())


@pytest.mark.parametrize("name", sorted(PASSES))
@settings(slow, max_examples=some(60))
@given(graph=graphs())
def test_pass_keeps_meaning(name: str, graph: Graph) -> None:
    _check(graph, lambda copy: PASSES[name](copy), name)


@pytest.mark.parametrize("name", sorted(RECIPES))
@settings(slow, max_examples=some(60))
@given(graph=graphs(30))
def test_pipeline_keeps_meaning(name: str, graph: Graph) -> None:
    _check(graph, lambda copy: run_to_fixpoint(copy, RECIPES[name]), name)


def _check(graph: Graph, run: GraphPass, name: str) -> None:
    before = graph.text()
    values = arguments(graph)
    with np.errstate(all="ignore"):
        expected = evaluate(graph, values)
        copy = graph.copy()
        changed = run(copy)
        verify(copy)
        assert changed or copy.text() == before, f"{name} changed the graph and says that it did not"
        assert [v.type for v in copy.inputs] == [v.type for v in graph.inputs]
        assert same(evaluate(copy, values), expected), f"{before}\n{copy.text()}"
    assert graph.text() == before


@slow
@given(graphs())
def test_simplify_settles(graph: Graph) -> None:
    run_to_fixpoint(graph, pipeline.SIMPLIFY)
    assert not pipeline.run_passes(graph, pipeline.SIMPLIFY)


@settings(slow, max_examples=some(300))
@given(st.data())
def test_any_text_parses_or_is_reported(data: st.DataObject) -> None:
    text = data.draw(graphs(4)).text()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 10)))
    noise = data.draw(NOISE)
    try:
        graph = parse_ir(text[:start] + noise + text[end:])
    except CompileError as error:
        assert error.diagnostics
    else:
        assert parse_ir(graph.text()).text() == graph.text()

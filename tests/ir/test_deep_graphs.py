"""Nothing recurses on nesting, and time is linear in size."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial

import pytest
from deep_graphs import long, nested
from gradscript.compiler.ir import Graph
from gradscript.compiler.ir_parser import parse_ir
from gradscript.compiler.pipeline import PIPELINES, Pass, pass_name
from gradscript.compiler.printer import print_graph
from gradscript.compiler.verify import verify

DEPTH = 5000
PASSES: dict[str, Pass] = {pass_name(p): p for p in sum(PIPELINES.values(), ()) if not isinstance(p, partial)}


def test_deep_text_reads_back() -> None:
    graph = nested(DEPTH)
    verify(graph)
    text = print_graph(graph)
    assert print_graph(parse_ir(text)) == text
    assert print_graph(graph.copy()) == text


@pytest.mark.parametrize("name", sorted(PASSES))
def test_passes_go_deep(name: str) -> None:
    graph = nested(DEPTH)
    PASSES[name](graph)
    verify(graph)


def _seconds(run: Pass, graph: Graph) -> float:
    """Processor time: other programs on the machine do not count."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    run(graph)
    gc.enable()
    return time.process_time() - start


def _read_back(graph: Graph) -> bool:
    return bool(parse_ir(print_graph(graph)))


@pytest.mark.parametrize("name", [*sorted(PASSES), "print and parse"])
@pytest.mark.parametrize("make", [long, nested])
def test_time_is_linear(name: str, make: Callable[[int], Graph]) -> None:
    run = PASSES.get(name, _read_back)
    once = min(_seconds(run, make(500)) for _ in range(3))
    many = min(_seconds(run, make(4000)) for _ in range(2))
    # Eight times the size; quadratic work would show as sixty-four times.
    assert many <= 24 * once + 0.05

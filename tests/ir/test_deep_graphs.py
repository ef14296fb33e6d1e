"""Nothing recurses on nesting, and work is linear in size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from amounts import some
from deep_graphs import long, nested
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.pipeline import PASSES

DEPTH = some(5000)


def test_deep_text_reads_back() -> None:
    graph = nested(DEPTH)
    verify(graph)
    text = graph.text()
    assert parse_ir(text).text() == text
    assert graph.copy().text() == text


@pytest.mark.parametrize("name", sorted(PASSES))
def test_passes_go_deep(name: str) -> None:
    graph = nested(DEPTH)
    PASSES[name](graph)
    verify(graph)


def _read_back(graph: Graph) -> bool:
    return bool(parse_ir(graph.text()))


@pytest.mark.parametrize("name", [*sorted(PASSES), "print and parse"])
@pytest.mark.parametrize("make", [long, nested])
def test_work_is_linear(name: str, make: Callable[[int], Graph], steps: Callable[[Callable[[], object]], int]) -> None:
    run = PASSES.get(name, _read_back)
    run(make(10))
    small, large = make(100), make(400)
    assert steps(lambda: run(large)) < 4.4 * steps(lambda: run(small))

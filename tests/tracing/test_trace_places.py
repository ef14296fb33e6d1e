"""Failures of traced graphs, and of operations while tracing, stand at the Python line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest

X = np.arange(6.0).reshape(2, 3)
W = np.ones((3, 2))
UNIT = gs.CompilationUnit("def inner(x, w):\n    y = x.tanh()\n    return y @ w\n", "inner.grad")
LINES = open(__file__, encoding="utf-8").read().splitlines()  # noqa: SIM115 - read at once


def _line(text: str) -> int:
    """The number of the line that ends in a comment."""
    (number,) = [i for i, line in enumerate(LINES, 1) if line.endswith(f"# {text}")]
    return number


def _fails(function: Callable[..., Any], *args: Any) -> gs.RuntimeFailure:
    with pytest.raises(gs.RuntimeFailure) as caught:
        function(*args)
    return caught.value


def product(x: Any, w: Any) -> Any:
    größe = x.tanh() + 1
    return (größe @ w).sum() + größe.sum(  # the product
        1, keepdim=False
    )


def calls(x: Any, w: Any) -> Any:
    return UNIT.inner(x, w) * 2


def test_a_graph_fails_at_the_expression() -> None:
    traced = gs.trace(product, X, W)
    failure = _fails(traced, X, W[:2])
    assert (failure.op, failure.span.source.filename) == ("aten::matmul", __file__)
    assert failure.span.line == _line("the product") and failure.span.text == "größe @ w"
    assert "größe @ w" in str(failure) and "^^^^^^^^^" in str(failure)
    nodes = {node.kind: node.span for node in traced.graph.nodes}
    assert nodes["aten::tanh"].text == "x.tanh()"
    assert nodes["aten::sum.dim_IntList"].text.startswith("größe.sum(") and nodes[
        "aten::sum.dim_IntList"
    ].text.endswith(")")
    assert nodes["aten::sum.dim_IntList"].end_line == _line("the product") + 2


def test_the_optimised_graph_keeps_the_places() -> None:
    traced = gs.trace(product, X, W)
    traced(X, W)
    graph = gs.compiler_debug.last_executed_graph()
    assert graph is not None
    (node,) = [node for node in graph.nodes if node.kind == "aten::matmul"]
    assert node.span.text == "größe @ w"


def test_a_compiled_function_keeps_its_own_place() -> None:
    failure = _fails(gs.trace(calls, X, W), X, W[:2])
    assert (failure.span.source.filename, failure.span.text) == ("inner.grad", "y @ w")


def test_wrong_arguments_stand_at_the_definition() -> None:
    failure = _fails(gs.trace(calls, X, W), X)
    assert failure.span.text == "def calls(x: Any, w: Any) -> Any:"
    assert failure.span.line == LINES.index("def calls(x: Any, w: Any) -> Any:") + 1


@pytest.mark.parametrize(
    ("function", "code", "text"),
    [
        (lambda x: x @ x, "R101", "x @ x"),
        (lambda x: x.sum(4, 5, 6), "R001", "x.sum(4, 5, 6)"),
        (lambda x: np.matmul(x, x), "R101", "np.matmul(x, x)"),
        (lambda x: gs.ops.softmax(x, 7), "R101", "gs.ops.softmax(x, 7)"),
        (lambda x: x + np.ones(3, np.uint32), "R003", "x + np.ones(3, np.uint32)"),
        (lambda x: x[5], "R101", "x[5]"),
        (lambda x: -(x @ x), "R101", "x @ x"),
    ],
)
def test_operations_fail_at_the_expression(function: Callable[..., Any], code: str, text: str) -> None:
    """While it is traced; and on plain arrays and Variables, where the function takes them."""
    failure = _fails(gs.trace, function, X)
    assert (failure.code, failure.span.text, failure.span.source.filename) == (code, text, __file__)
    assert "snippet" not in str(failure) and "a1" not in str(failure)
    failure = _fails(function, gs.tape.Variable(X))
    assert (failure.code, failure.span.text) == (code, text)


def test_code_without_a_source_gives_its_line() -> None:
    namespace: dict[str, Any] = {}
    exec(compile("def f(x, w):\n    y = x * 2\n    return y @ w\n", "<made up>", "exec"), namespace)
    failure = _fails(gs.trace(namespace["f"], X, W), X, W[:2])
    assert (failure.span.source.filename, failure.span.line) == ("<made up>", 3)
    assert "<made up>:3" in str(failure)


def test_a_loop_reads_its_source_once() -> None:
    def looped(x: Any) -> Any:
        for _ in range(3):
            x = x * 2
        return x

    traced = gs.trace(looped, X)
    spans = [node.span for node in traced.graph.nodes if node.kind == "aten::mul.Scalar"]
    assert len(spans) == 3 and spans[0] is spans[1] is spans[2]

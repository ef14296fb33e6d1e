"""Kernels for shapes that do not fit: the message is about the user's line, and says what the call would say."""

from __future__ import annotations

from itertools import islice
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.codegen.triton.module import supports
from gradscript.compiler.formulas import library
from gradscript.compiler.formulas.library import formula_name
from gradscript.compiler.fusion import decompose
from gradscript.compiler.fusion.decompose import definition, primitive_definition
from gradscript.compiler.fusion.fuse import KERNEL_POLICY, Unfusable, fuse, fuse_pair
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.ops.registry import OPS, Op
from gradscript.compiler.shapes.propagate import ShapeError
from gradscript.compiler.types import dtypes
from gradscript.compiler.types.types import is_tensor, strip_optional
from gradscript.lang.source import Source, Span
from samples.array_calls import CASES as CALLS
from samples.array_calls import OPS_BY_NAME
from samples.arrays import LAYOUTS
from samples.misfits import misfits

TAKEN_APART = sorted(
    name
    for name in set(CALLS) & set(OPS_BY_NAME)
    if primitive_definition(OPS_BY_NAME[name]) is not None or definition(OPS_BY_NAME[name]) is not None
)


def test_no_formula_is_compiled_to_see_that_an_op_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most ops have a formula with a backward, and the first plan of a process would compile those of all it meets."""
    compiled: list[str] = []
    for module in (library, decompose):
        monkeypatch.setattr(module, "compile_formula", compiled.append)
    for name in ("cat", "mm", "scatter_add", "slice_scatter", "split_with_sizes"):
        found = [op for op in OPS.overloads(name) if formula_name(op.schema) is not None]
        assert found and all(definition.__wrapped__(op) is None for op in found)
    assert compiled == []


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


CASES: dict[str, tuple[str, list[Any], str, int, str]] = {
    # source, arguments, the op, its line and the source there
    "an op of the source": (
        "def f(x, w):\n    y = torch.softmax(x, -1)\n    return y * w",
        [zeros(4, 5), zeros(3)],
        "aten::mul.Tensor",
        3,
        "y * w",
    ),
    "an op written in the language": (
        "def f(x, w):\n    y = x + 1\n    return F.margin_ranking_loss(x, y, w)",
        [zeros(4, 5), zeros(3)],
        "gs::margin_ranking_loss",
        3,
        "F.margin_ranking_loss(x, y, w)",
    ),
    "a formula's forward": (
        "def f(x, w):\n    y = x * 2\n    return F.layer_norm(y, [7], w)",
        [zeros(4, 5), zeros(5)],
        "aten::layer_norm",
        3,
        "F.layer_norm(y, [7], w)",
    ),
    "a user's backward": (
        "def f(x):\n    def backward(grad):\n        return grad * torch.ones([3])\n    return x + 1, backward",
        [zeros(4, 5)],
        "aten::mul.Tensor",
        3,
        "grad * torch.ones([3])",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_message_is_about_the_line_of_the_source(name: str) -> None:
    source, arguments, op, line, text = CASES[name]
    with pytest.raises(gs.RuntimeFailure) as caught:
        gs.CompilationUnit(source, "user.grad").f.kernels(*arguments)
    failure = caught.value
    assert (failure.code, failure.op) == ("R101", op)
    assert (failure.span.source.filename, failure.span.line, failure.span.text) == ("user.grad", line, text)


def test_the_library_comes_as_a_note() -> None:
    unit = gs.CompilationUnit("def f(x, w):\n    return torch.linalg.vecdot(x, w)", "user.grad")
    with pytest.raises(gs.RuntimeFailure) as caught:
        unit.f.kernels(zeros(4, 5), zeros(3))
    operands, inner = caught.value.notes
    assert operands == "x: float32[4, 5], y: float32[3], dim: -1"
    assert inner.startswith("by aten::") and ".grad:" in inner and "user.grad" not in inner


def test_calls_that_led_there_are_named() -> None:
    source = "def inner(x, y):\n    return x * y\ndef f(x, y):\n    return inner(x * 2, y)"
    with pytest.raises(gs.RuntimeFailure) as caught:
        gs.CompilationUnit(source, "user.grad").f.kernels(zeros(3), zeros(4))
    assert caught.value.span.line == 2
    assert caught.value.notes == ("self: float32[3], other: float32[4]", "called from f at user.grad:4:12")


def test_what_the_source_raises_is_its_own() -> None:
    source = 'def f(x):\n    if x.size(0) != 4:\n        raise ValueError("four rows")\n    return x * 2'
    with pytest.raises(gs.RuntimeFailure, match="ValueError: four rows") as caught:
        gs.CompilationUnit(source).f.kernels(zeros(3))
    assert caught.value.code == "R102"


@pytest.mark.parametrize("name", TAKEN_APART)
def test_what_an_op_is_made_of_fails_at_the_op(name: str) -> None:
    op = OPS_BY_NAME[name]
    source = Source("an op of the user's")
    span = Span(source, 0, len(source.text))
    arguments = CALLS[name][0].arguments(op, dtypes.FLOAT32, 0, LAYOUTS["contiguous"])
    for given in islice(misfits(arguments), 1, 22, 7):
        graph, layouts = _graph(op, given, span)
        for error in _errors(graph, layouts):
            assert error.node.span.source is source, f"{error.node} in {error.node.span}"


def _graph(op: Op, arguments: list[Any], span: Span) -> tuple[Graph, list[Any]]:
    """One op on tensors that are inputs, at a span; the layouts of those."""
    graph = Graph("f", {}, span)
    builder = Builder(graph, span=span)
    values, layouts = [], []
    for argument, given in zip(op.schema.arguments, arguments, strict=True):
        if isinstance(given, np.ndarray) and is_tensor(strip_optional(argument.type)):
            layouts.append(Layout.contiguous(Meta.of(given)))
            given = graph.body.add_input(strip_optional(argument.type), argument.name)
        values.append(given)
    builder.returns(*builder.op_results(op.schema.full_name, *values))
    return graph, layouts


def _errors(graph: Graph, layouts: list[Any]) -> list[ShapeError]:
    found = []
    for attempt in (
        lambda: fuse(graph, layouts, supports),
        lambda: fuse_pair(graph, layouts, [x.dtype.is_floating for x in layouts], KERNEL_POLICY, supports),
    ):
        try:
            attempt()
        except ShapeError as error:
            found.append(error)
        except (Unfusable, gs.CompileError):
            pass
    return found

"""Shapes of whole graphs: what is inferred of every value is what it has when the graph runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from amounts import some
from deep_graphs import long
from gradscript.compiler.autodiff import differentiate
from gradscript.compiler.autodiff.gradient import residuals_of
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.node import Node, Value
from gradscript.compiler.ops.composite import is_composite
from gradscript.compiler.ops.meta import UNKNOWN, Meta, join
from gradscript.compiler.ops.registry import OPS, Op
from gradscript.compiler.passes.inline_functions import inline_functions
from gradscript.compiler.shapes.propagate import ShapeError, propagate_shapes
from gradscript.compiler.types.dtypes import BOOL, FLOAT32, FLOAT64, INT64
from gradscript.compiler.types.types import BOOL as BOOLEAN
from gradscript.compiler.types.types import TENSOR
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import run_plan
from program_generator import Programs
from samples.composites import CASES
from test_shape_rules import abstract, agrees

VECTOR = Meta((3,), FLOAT64)


def graph_of(source: str) -> Graph:
    return next(iter(gs.CompilationUnit(source).functions.values())).graph


def result_of(source: str, *arguments: Any) -> Any:
    graph = graph_of(source)
    known = propagate_shapes(graph, arguments)
    found = [known[value] for value in graph.outputs]
    return found[0] if len(found) == 1 else tuple(found)


def observed(graph: Graph, values: Sequence[Any]) -> dict[Value, list[Any]]:
    """Every value that every node makes, in each of its runs: the graph returns them all, one node at a time."""
    found: dict[Value, list[Any]] = {}
    recorder = _Recorder(graph)
    recorder.run(values, found)
    return found


class _Recorder:
    """Runs a graph node by node. Programs under test nest a few levels deep."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.void: set[Value] = set()

    def run(self, values: Sequence[Any], found: dict[Value, list[Any]]) -> None:
        env: dict[Value, Any] = dict(zip(self.graph.inputs, values, strict=True))
        self._block(self.graph.body, env, found)

    def _block(self, block: Any, env: dict[Value, Any], found: dict[Value, list[Any]]) -> list[Any]:
        for value in block.inputs:
            found.setdefault(value, []).append(env[value])
        for node in block.nodes:
            for value, result in zip(node.outputs, self._node(node, env, found), strict=True):
                env[value] = result
                if value not in self.void:
                    found.setdefault(value, []).append(result)
        return [env[value] for value in block.outputs]

    def _taken(self, node: Node, block: Any, env: dict[Value, Any], found: dict[Value, list[Any]]) -> list[Any]:
        """A branch. What it leaves uninitialized nobody reads, and nothing is said of it."""
        results = self._block(block, env, found)
        for value, given in zip(node.outputs, block.outputs, strict=True):
            is_void = given.node.kind == "prim::Uninitialized" or given in self.void
            (self.void.add if is_void else self.void.discard)(value)
        return results

    def _node(self, node: Node, env: dict[Value, Any], found: dict[Value, list[Any]]) -> Sequence[Any]:
        inputs = [env[value] for value in node.inputs]
        if node.kind == "prim::If":
            return self._taken(node, node.blocks[0 if inputs[0] else 1], env, found)
        if node.kind == "prim::GradOf":
            if all(value is None for value in inputs):
                return [None] * len(node.outputs)
            return self._block(node.blocks[0], env, found)
        if node.kind == "prim::Loop":
            trips, condition, *carried = inputs
            (body,) = node.blocks
            turn = 0
            while turn < trips and condition:
                env.update(zip(body.inputs, [turn, *carried], strict=True))
                condition, *carried = self._block(body, env, found)
                turn += 1
            return carried
        return run_plan(build_plan(_alone(node, self.graph)), inputs)


def _alone(node: Node, around: Graph) -> Graph:
    """A graph of a single node."""
    graph = Graph("alone", around.functions)
    inputs = [graph.body.add_input(value.type) for value in node.inputs]
    builder = Builder(graph)
    made = builder.node(node.kind, inputs, [v.type for v in node.outputs], attrs=dict(node.attrs))
    made.schema = node.schema
    builder.returns(*made.outputs)
    return graph


def compare(graph: Graph, values: Sequence[Any]) -> int:
    """Hold every value's abstract value against what it is in a run; the number of tensors known to the last size."""
    known = propagate_shapes(graph, [abstract(value) for value in values])
    count = 0
    for value, results in observed(graph, values).items():
        if value not in known:
            raise AssertionError(f"nothing is known of {value} of {value.node.kind}")
        for result in results:
            if isinstance(result, list) and any(item is None for item in result):
                # Kept of rounds of which one left it uninitialized.
                assert known[value] is UNKNOWN or len(known[value]) == len(result)
                continue
            assert agrees(known[value], result), f"{value.node.kind}: {known[value]}, not {abstract(result)}"
        count += isinstance(known[value], Meta)
    return count


REFUSED = (2, 29)
"""Programs that multiply a vector by a number as matrices."""


@pytest.mark.parametrize("seed", range(some(60)))
def test_random_program(seed: int) -> None:
    source = Programs(seed).function()
    function = gs.CompilationUnit(source).f
    rng = np.random.default_rng(seed)
    values = [rng.normal(size=3), rng.normal(size=3), seed % 4]
    graph = function.graph.copy()
    inline_functions(graph)
    if seed in REFUSED:
        with pytest.raises(gs.RuntimeFailure, match="at least one dim"):
            function(*values)
        with pytest.raises(ShapeError, match="at least 1-D"):
            compare(graph, values)
    else:
        assert compare(graph, values)


@pytest.mark.parametrize("seed", [seed for seed in range(some(40)) if seed not in REFUSED])
def test_derivative_of_a_random_program(seed: int) -> None:
    """`f` and `df` of its Gradient: contexts of branches and loops, gradients that are there or not."""
    gradient = differentiate(gs.CompilationUnit(Programs(seed).function()).f.graph)
    rng = np.random.default_rng(seed)
    values = [rng.normal(size=3), rng.normal(size=3), seed % 4]
    f, df = gradient.f.copy(), gradient.df.copy()
    for graph in (f, df):
        inline_functions(graph)
    assert compare(f, values)
    results = run_plan(build_plan(f), values)
    seeds = [np.ones_like(results[i]) if isinstance(results[i], np.ndarray) else None for i in gradient.input_vjps]
    compare(df, [*seeds, *residuals_of(gradient, values, results)])


def _composites() -> list[tuple[str, Op]]:
    named = {op.schema.full_name.partition("::")[2]: op for op in OPS.all() if is_composite(op)}
    return [(name, op) for name, op in named.items() if name in CASES]


@pytest.mark.parametrize(("name", "op"), _composites(), ids=[name for name, _ in _composites()])
def test_op_written_in_the_language(name: str, op: Op) -> None:
    compared = 0
    for i, call in enumerate(CASES[name]):
        for dtype in (FLOAT32, FLOAT64, INT64):
            values = call.arguments(op, dtype, i, lambda array: array)
            graph = Graph("alone")
            inputs = [graph.body.add_input(argument.type) for argument in op.schema.arguments]
            builder = Builder(graph)
            made = builder.node(op.schema.full_name, inputs, [r.type for r in op.schema.returns])
            made.schema = op.schema
            builder.returns(*made.outputs)
            try:
                results = run_plan(build_plan(graph), values)
            except gs.RuntimeFailure:
                continue
            known = propagate_shapes(graph, [abstract(value) for value in values])
            for value, result in zip(graph.outputs, results, strict=True):
                assert agrees(known[value], result), f"{known[value]}, not {abstract(result)}"
                compared += 1
    assert compared


HUGE = 1 << 20
LARGE = Meta((HUGE, HUGE), FLOAT32)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.tanh(x) * 2 + x.t()", (HUGE, HUGE)),
        ("x.reshape(-1)[None].expand(3, -1)", (3, HUGE * HUGE)),
        ("x.view(2, -1, 4).permute(2, 0, 1)[1:]", (3, 2, HUGE * HUGE // 8)),
        ("torch.softmax(x, 1).sum(0, True)", (1, HUGE)),
        ("F.layer_norm(x, [x.size(1)]).var(1)", (HUGE,)),
        ("(x @ x).logsumexp([0])", (HUGE,)),
        ("F.linear(x, x[:5])", (HUGE, 5)),
        ("F.cross_entropy(x, x.argmax(1))", ()),
        ("F.scaled_dot_product_attention(x[None], x[None], x[None])", (1, HUGE, HUGE)),
        ("F.conv2d(x[None, None], x[:3, :3][None, None].expand(7, -1, -1, -1), padding=1)", (1, 7, HUGE, HUGE)),
        ("F.max_pool2d(x[None], 2)", (1, HUGE // 2, HUGE // 2)),
        ("F.embedding(x.long(), x[:10])", (HUGE, HUGE, HUGE)),
        ("torch.cat([x, x, x[:1]]).flip([0])", (2 * HUGE + 1, HUGE)),
        ("torch.stack(x.split(HALF))", (2, HUGE // 2, HUGE)),
        ("F.pad(x, [1, 2, 3, 4])", (HUGE + 7, HUGE + 3)),
        ("x.cumsum(0).sort(1)[1]", (HUGE, HUGE)),
        ("F.dropout(x, 0.5).masked_fill(x > 0, 0.0)", (HUGE, HUGE)),
        ("torch.randn_like(x).clone().contiguous().double()", (HUGE, HUGE)),
        ("F.interpolate(x[None, None], scale_factor=2.0)", (1, 1, 2 * HUGE, 2 * HUGE)),
        ("x[torch.arange(5), :][:, torch.arange(7)].repeat(2, 3)", (10, 21)),
        ("torch.linalg.inv(x).diagonal().outer(x[0])", (HUGE, HUGE)),
        ("torch.einsum('ij,kj->ik', x, x[:3])", (HUGE, 3)),
        ("torch.zeros(x.size()).scatter_add(0, x.long(), x)", (HUGE, HUGE)),
    ],
)
def test_no_element_is_made(expression: str, expected: tuple[int, ...]) -> None:
    """Of 2^40 elements and more there is no room for one tensor."""
    found = result_of(f"def f(x):\n    return {expression}".replace("HALF", str(HUGE // 2)), LARGE)
    assert isinstance(found, Meta) and found.shape == expected


@pytest.mark.parametrize(
    ("expression", "given"),
    [
        ("torch.linalg.cholesky(x)", (3, 3)),
        ("torch.linalg.solve(x, x)", (3, 3)),
        ("F.nll_loss(x, x.argmax(1))", (3, 1)),
        ("F.embedding(torch.zeros(2, dtype=torch.long), x)", (0, 4)),
        ("x.gather(0, torch.zeros(2, 4, dtype=torch.long))", (1, 4)),
        ("x.index_select(0, torch.zeros(2, dtype=torch.long))", (0, 4)),
        ("x.scatter(0, torch.ones(1, 4, dtype=torch.long), 2.0)", (1, 4)),
        ("x.take(torch.ones(3, dtype=torch.long))", (1,)),
        ("x[torch.ones(3, dtype=torch.long)]", (1, 2)),
        ("F.one_hot(x.long(), 1)", (3,)),
        ("x.narrow(0, torch.ones([], dtype=torch.long), 1)", (2, 2)),
    ],
)
def test_elements_that_an_op_would_refuse_have_no_say(expression: str, given: tuple[int, ...]) -> None:
    assert isinstance(result_of(f"def f(x):\n    return {expression}", Meta(given, FLOAT32)), Meta)


def test_deep_and_long_graphs() -> None:
    deep = Graph("deep")
    x, condition = deep.body.add_input(TENSOR), deep.body.add_input(BOOLEAN)
    block = deep.body
    for _ in range(5_000):
        node = Builder(block).node("prim::If", [condition], [TENSOR], blocks=2)
        block.ret.add_input(node.output)
        node.blocks[1].ret.add_input(x)
        block = node.blocks[0]
    block.ret.add_input(x)
    for decided in (True, UNKNOWN):
        assert propagate_shapes(deep, [VECTOR, decided])[deep.outputs[0]] == VECTOR
    chain = long(5_000)
    assert propagate_shapes(chain, [VECTOR])[chain.outputs[0]] == VECTOR


@pytest.mark.parametrize(
    "expression",
    [
        "x.nonzero()",
        "x[x > 0]",
        "x.masked_select(x > 0)",
        "x[0].item()",
        "float(x.sum())",
        "torch.equal(x, x)",
        "torch.allclose(x, x)",
        "bool(x.sum())",
        "F.one_hot(x.long())",
        "torch.repeat_interleave(x, x.long())",
        "torch.zeros([int(x.sum())])",
        "gs.seed()",
        "[x.sum()] == [x.prod()]",
        "[x.sum()] != [x.prod()]",
        "x.sum() in [x.prod()]",
        "[x.prod()].count(x.sum())",
        "[x.prod(), x[0]].index(x.sum())",
        "sorted([x.prod()])",
    ],
)
def test_what_depends_on_elements_is_unknown(expression: str) -> None:
    assert result_of(f"def f(x):\n    return {expression}", VECTOR) is UNKNOWN


def test_numbers_and_sizes_are_followed() -> None:
    source = """
def f(x, n: int):
    sizes = x.size()
    total = 0
    for s in sizes:
        total = total + s
    if x.dim() == 2 and total > n:
        x = x.t()
    return x, total, [s * 2 for s in sizes], x.dtype == torch.float32, len(sizes)
"""
    found = result_of(source, Meta((2, 5), FLOAT32), 6)
    assert found == (Meta((5, 2), FLOAT32), 7, [4, 10], True, 2)
    assert result_of(source, Meta((2, 5), FLOAT32), 7)[0] == Meta((2, 5), FLOAT32)
    assert result_of(source, Meta((2, 5), FLOAT32), UNKNOWN)[:2] == (UNKNOWN, 7)
    assert result_of(source, Meta((5, 5), FLOAT32), UNKNOWN)[:2] == (Meta((5, 5), FLOAT32), 10)


def test_unknown_numbers_leave_pointwise_shapes_known() -> None:
    source = "def f(x):\n    return x * float(x.sum()) + int(x.sum())"
    assert result_of(source, VECTOR) == VECTOR
    assert result_of(source, Meta((3,), INT64)) == Meta((3,), FLOAT32)


def test_a_branch_that_fails_is_left_out() -> None:
    source = """
def f(x, n: int):
    if float(x.sum()) > 0:
        raise ValueError("no")
    elif float(x.sum()) > -1:
        y = x.view(17)
    else:
        y = x + 1
    return y
"""
    assert result_of(source, VECTOR, 1) == VECTOR


def test_what_is_sure_to_fail_is_an_error_with_its_node() -> None:
    graph = graph_of("def f(x, y):\n    z = x * 2\n    return (z @ y).relu()")
    with pytest.raises(ShapeError, match="aten::matmul") as caught:
        propagate_shapes(graph, [Meta((2, 3), FLOAT32), Meta((4, 5), FLOAT32)])
    assert caught.value.node.kind == "aten::matmul"
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(ShapeError, match="broadcast"):
        result_of("def f(x, y):\n    return x + y", VECTOR, Meta((4,), FLOAT64))
    with pytest.raises(ShapeError, match="only 3"):
        result_of('def f(x):\n    if x.size(0) == 3:\n        raise ValueError("only 3")\n    return x', VECTOR)


def test_loops_that_nobody_has_counted() -> None:
    source = """
def f(x, n: int):
    y, z, k = x, x, 0
    items: List[Tensor] = []
    while float(y.sum()) < n:
        y = y * 2
        z = torch.cat([z, z])
        k = k + 1
        items.append(y)
    return y, z, k, x.size(), items
"""
    assert result_of(source, VECTOR, UNKNOWN) == (VECTOR, UNKNOWN, UNKNOWN, [3], UNKNOWN)


def test_values_inside_a_loop_stand_for_all_rounds() -> None:
    graph = graph_of(
        """
def f(x):
    for i in range(3):
        y = x[i:]
        z = x * i
        if i > 1:
            x = x + y.sum() + z
    return x
"""
    )
    known = propagate_shapes(graph, [VECTOR])
    sliced = [v for n in graph.all_nodes() for v in n.outputs if n.kind == "aten::slice.Tensor"]
    scaled = [v for n in graph.all_nodes() for v in n.outputs if n.kind == "aten::mul.Scalar"]
    assert [known[v] for v in sliced] == [UNKNOWN]
    assert [known[v] for v in scaled] == [VECTOR]
    assert known[graph.outputs[0]] == VECTOR


def test_long_loops_are_not_walked(steps: Any) -> None:
    source = """
def f(x, n: int):
    kept: List[Tensor] = []
    for i in range(n):
        x = torch.tanh(x) * i
        kept.append(x)
    return x, kept
"""
    graph = graph_of(source)
    few, many = (steps(lambda n=n: propagate_shapes(graph, [VECTOR, n])) for n in (10, 1000))
    assert many < 2 * few
    found = result_of(source, VECTOR, 1000)
    assert found[0] == VECTOR and found[1] == [VECTOR] * 1000


def test_depth_costs_no_stack() -> None:
    depth = 90
    lines = ["def f(x, n: int):"]
    for level in range(depth):
        lines.append(f"{' ' * (level + 1)}if n > {level}:")
    lines += [f"{' ' * (depth + 1)}x = x.t()", " return x"]
    assert result_of("\n".join(lines), Meta((2, 3), FLOAT32), 200) == Meta((3, 2), FLOAT32)
    calls = "\n".join(f"def g{i}(x):\n    return g{i + 1}(x) + 1" for i in range(300))
    assert result_of(f"{calls}\ndef g300(x):\n    return x.t()", Meta((2, 3), FLOAT32)) == Meta((3, 2), FLOAT32)


def test_join() -> None:
    assert join(Meta((1,), BOOL), Meta((1,), BOOL)) == Meta((1,), BOOL)
    assert join([1, 2], [1, 3]) == [1, UNKNOWN]
    for left, right in ((1, True), (0.0, -0.0), ([1], [1, 2]), ([1], (1,)), (None, 1), (Meta((), BOOL), None)):
        assert join(left, right) is UNKNOWN
    nan = float("nan")
    assert repr(join(nan, float("nan"))) == "nan"

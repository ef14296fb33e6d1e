"""The gradients of loops are optimised as those of straight code are: counted in their graphs, and torch's in value."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.node import walk
from gradscript.compiler.ops.families.linalg.batches import MAX_PAIRS

torch = pytest.importorskip("torch")

SOURCE = """
def rnn(xs, h, w, u, b):
    for i in range(xs.size(0)):
        h = torch.tanh(h @ w + xs[i] @ u + b)
    return (h * h).sum()

def listed(xs: List[Tensor], h, w, u, b):
    for x in xs:
        h = torch.tanh(h @ w + x @ u + b)
    return (h * h).sum()

def constant(xs, h, w, u, b):
    for i in range(xs.size(0)):
        h = torch.tanh(h @ w + h @ (u * 2) + b)
    return (h * h).sum()

def until(xs, h, w, u, b):
    i = 0
    while i < xs.size(0):
        h = torch.tanh(h @ w + xs[i] @ u + b)
        i = i + 1
    return (h * h).sum()

def broken(xs, h, w, u, b):
    for i in range(xs.size(0)):
        h = torch.tanh(h @ w + xs[i] @ u)
        if i == 4:
            break
        h = h + b
    return (h * h).sum()

def nested(xs, h, w, u, b):
    for i in range(xs.size(0)):
        for j in range(i):
            h = torch.tanh(h @ w + b * j)
        h = h + xs[i] @ u
    return (h * h).sum()
"""
NAMES = ("rnn", "listed", "constant", "until", "broken", "nested")
ROUNDS = (0, 1, 2, 7, 8, 9, MAX_PAIRS + 9)


def arguments(rounds: int, width: int = 3) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(rounds)
    shapes = (rounds, 2, width), (2, width), (width, width), (width, width), (width,)
    return [rng.standard_normal(shape) / 2 for shape in shapes]


def expected(name: str, arrays: list[Any]) -> tuple[Any, list[Any]]:
    """The value, and the gradients of torch; None for an argument that has none."""
    namespace: dict[str, Any] = {"torch": torch, "List": list, "Tensor": torch.Tensor}
    exec(SOURCE, namespace)
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    first = list(tensors[0]) if name == "listed" else tensors[0]
    value = namespace[name](first, *tensors[1:])
    return value.item(), torch.autograd.grad(value, tensors, allow_unused=True)


def given(name: str, arrays: list[Any]) -> list[Any]:
    return [list(arrays[0]) if name == "listed" else arrays[0], *arrays[1:]]


def assert_close(found: Any, wanted: Any) -> None:
    found = np.stack(found) if isinstance(found, list) and found else found
    if wanted is None or found is None or isinstance(found, list):
        assert wanted is None or not np.any(wanted.numpy())
        assert found is None or not np.any(found)
    else:
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("name", NAMES)
def test_values_are_torchs(name: str, rounds: int) -> None:
    arrays = arguments(rounds)
    value, gradients = expected(name, arrays)
    function = gs.CompilationUnit(SOURCE)[name]
    out, pullback = gs.vjp(function, *given(name, arrays))
    np.testing.assert_allclose(out, value, rtol=1e-12)
    for found, wanted in zip(pullback(1.0), gradients, strict=True):
        assert_close(found, wanted)
    # One graph for both, and the tape.
    assert_close(gs.grad(function, 2, allow_unused=True)(*given(name, arrays)), gradients[2])
    if name != "listed":
        variables = [gs.tape.Variable(array) for array in arrays]
        function(*variables).backward()
        for variable, wanted in zip(variables, gradients, strict=True):
            assert_close(None if variable.grad is None else variable.grad.data, wanted)


def test_products_too_large_to_gather() -> None:
    arrays = arguments(3, 160)
    _, gradients = expected("rnn", arrays)
    _, pullback = gs.vjp(gs.CompilationUnit(SOURCE).rnn, *arrays)
    for found, wanted in zip(pullback(1.0), gradients, strict=True):
        assert_close(found, wanted)


def _pullback_graph(name: str, rounds: int = 6) -> tuple[Graph, Graph]:
    """The graphs that ran: forward and backward."""
    arrays = arguments(rounds)
    _, pullback = gs.vjp(gs.CompilationUnit(SOURCE)[name], *given(name, arrays))
    forward = gs.compiler_debug.last_executed_graph()
    pullback(1.0)
    backward = gs.compiler_debug.last_executed_graph()
    assert forward is not None
    assert backward is not None
    return forward, backward


def _in_loops(graph: Graph) -> Counter[str]:
    loops = [node for node in graph.all_nodes() if node.kind == "prim::Loop"]
    assert loops
    return Counter(node.kind for loop in loops for block in loop.blocks for node in walk(block.nodes))


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("name", ["rnn", "constant", "until"])
def test_nothing_in_a_round_asks_whether_a_gradient_is_there(name: str) -> None:
    _, backward = _pullback_graph(name)
    kinds = _in_loops(backward)
    assert not {"prim::GradOf", "prim::AutogradAdd", "prim::grad_defined", "prim::If", "aten::dim"} & {*kinds}


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("name", ["rnn", "constant", "until"])
def test_the_same_in_each_round_is_computed_once(name: str) -> None:
    forward, backward = _pullback_graph(name)
    # What is left of sizes in a forward are those of products and sums, which differ from round to round.
    asked = [node for node in forward.all_nodes() if node.kind == "aten::size" and node.owner is not forward.body]
    assert all(node.inputs[0].node.kind in ("aten::matmul", "aten::add.Tensor") for node in asked)
    assert "aten::size" not in _in_loops(backward)
    if name == "constant":
        # u * 2 is one product, and so is its gradient.
        assert sum(node.kind == "aten::mul.Scalar" for node in forward.all_nodes()) == 1
        assert "aten::mul.Scalar" not in _in_loops(forward) + _in_loops(backward)
    transposed = [n for n in backward.all_nodes() if n.kind == "aten::t" and n.owner is not None]
    weights = {"w", "u"}
    inside = [n for n in transposed if n.inputs[0].name_hint in weights]
    assert all(n.owner is not None and n.owner.node is not None and n.owner.node.kind == "prim::If" for n in inside)


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("name", ["rnn", "constant", "until"])
def test_products_of_rounds_are_multiplied_at_once(name: str) -> None:
    _, backward = _pullback_graph(name)
    kinds = _in_loops(backward)
    # One product leads a gradient back through each factor; those of weights are gathered.
    remaining = [n for loop in backward.all_nodes() if loop.kind == "prim::Loop" for n in walk(loop.blocks[0].nodes)]
    assert kinds["prim::mm_gather"] > 0
    assert not any(n.kind == "aten::add.Tensor" and n.inputs[1].node.kind == "aten::mm" for n in remaining) or (
        name == "constant"
    )


@pytest.mark.usefixtures("op_by_op")
def test_what_is_kept_of_rounds_has_types() -> None:
    forward, backward = _pullback_graph("rnn")
    lists = [str(v.type) for v in backward.inputs if str(v.type).startswith("List[Tensor")]
    assert lists
    assert {*lists} == {"List[Tensor[float64, rank=2]]"}
    carried = [v for n in forward.all_nodes() if n.kind == "prim::Loop" for v in n.outputs]
    assert all("rank=2" in str(v.type) for v in carried if "Tensor" in str(v.type))


def test_what_may_fail_does_not_where_no_round_runs() -> None:
    source = "def f(x, w, n: int):\n    for i in range(n):\n        x = x @ (w @ w)\n    return x.sum()\n"
    function = gs.CompilationUnit(source).f
    x, w = np.ones((2, 2)), np.ones((3, 4))
    assert function(x, w, 0) == 4
    gradients = gs.vjp(function, x, w, 0)[1](1.0)
    np.testing.assert_array_equal(gradients[0], x)
    with pytest.raises(gs.RuntimeFailure, match="do not fit"):
        function(x, w, 1)
    with pytest.raises(gs.RuntimeFailure, match="do not fit"):
        gs.vjp(function, x, w, 1)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_shapes_of_what_no_round_computes_are_not_asked(rounds: int) -> None:
    source = """
def f(x, n: int):
    found = [torch.tanh(x.sum_to_size(x.size(-1))).sum() for i in range(n)] + [x.sum()]
    return found[0] * found[-1]
"""
    namespace: dict[str, Any] = {"torch": torch}
    exec(source, namespace)
    array = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
    tensor = torch.tensor(array, requires_grad=True)
    (wanted,) = torch.autograd.grad(namespace["f"](tensor, rounds), tensor)
    function = gs.CompilationUnit(source).f
    gs.vjp(function, array, 1)
    np.testing.assert_allclose(gs.vjp(function, array, rounds)[1](1.0)[0], wanted.numpy(), rtol=1e-12)
    np.testing.assert_allclose(gs.grad(function)(array, rounds), wanted.numpy(), rtol=1e-12)


def nested(depth: int) -> str:
    """A loop in a loop and so on, and a row of what is from outside in the innermost."""
    counts = [f"n{level}" for level in range(depth)]
    lines = [f"def f(x, z, {', '.join(f'{n}: int' for n in counts)}):", "    y = x.clone()"]
    lines += [f"{'    ' * (level + 1)}for i{level} in range({n}):" for level, n in enumerate(counts)]
    lines += [f"{'    ' * (depth + 1)}y = torch.tanh(y) * z[1] + z[0] * 0.1", "    return y"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("depth", [2, 3])
def test_shapes_of_what_only_an_inner_loop_computes_are_asked_where_it_does(depth: int) -> None:
    namespace: dict[str, Any] = {"torch": torch}
    exec(nested(depth), namespace)
    function = gs.CompilationUnit(nested(depth)).f
    for counts in product((0, 2), repeat=depth):
        found = []
        for one in (namespace["f"], function):
            x = torch.linspace(-1, 1, 3, dtype=torch.float64, requires_grad=True)
            z = torch.linspace(-2, 2, 9, dtype=torch.float64).reshape(3, 3).requires_grad_()
            y = one(x, z, *counts)
            first = torch.autograd.grad((y * y).sum(), (x, z), create_graph=True, materialize_grads=True)
            found.append((y, *first))
            if 0 not in counts:
                found[-1] += torch.autograd.grad(sum((g * g).sum() for g in first), (x, z))
        for wanted, got in zip(*found, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


WRITTEN = """
def f(x, w, n: int):
    out = torch.tanh(x) * 1
    buf = x * 0.5
    s = x[0] * w
    v = w
    acc = x.sum()
    for i in range(n):
        buf[i % 4] -= torch.sin(v)
        buf[0, 0] = buf[i % 4].clone()[0]
        out[i % 4] = torch.sin(v - (s.clone() + s.clone() * v))
        acc = acc + (out.clone() * w).sum()
        s += torch.sin((x[0] * out[0].clone()) * v)
    return acc, buf[1:]
"""


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_backward_does_not_ask_shapes_of_what_a_loop_was_to_compute(rounds: int) -> None:
    namespace: dict[str, Any] = {"torch": torch}
    exec(WRITTEN, namespace)
    found = []
    for one in (namespace["f"], gs.CompilationUnit(WRITTEN).f):
        x = torch.linspace(-1, 2, 12, dtype=torch.float64).reshape(4, 3).requires_grad_()
        w = torch.linspace(0.5, 1, 3, dtype=torch.float64, requires_grad=True)
        total, buf = one(x, w, rounds)
        found.append(torch.autograd.grad(total + (buf * buf).sum(), (x, w), materialize_grads=True))
    for wanted, got in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_new_sizes_and_counts_compile_nothing() -> None:
    function = gs.CompilationUnit(SOURCE).rnn
    gs.vjp(function, *arguments(3))[1](1.0)
    before = gs.compiler_debug.counters()
    gs.vjp(function, *arguments(5, 4))[1](1.0)
    after = gs.compiler_debug.counters()
    for name in ("plan_cache_misses", "graph_executors_constructed"):
        assert after[name] == before[name]

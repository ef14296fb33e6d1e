"""Gradients of what the rounds of a loop read of an array: random loops beside torch, and no array made in a round."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from amounts import some
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.fusion.fuse import fuse_groups, pair_gradient
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.node import Node
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.runtime.kernels.device_plan import device_plan, run_graph
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import run_plan

torch = pytest.importorskip("torch")
CPU = torch.device("cpu")
WIDTH = 3
READS = (
    "xs[t]",
    "xs[-1 - t]",
    "xs.select(0, t)",
    "xs.narrow(0, t, 1).sum(0)",
    "xs[t : t + 1].sum(0)",
    "xs[t:].sum(0)",
    "xs[: t + 1 : 2].sum(0)",
    "ys[:, t]",
    "ys.narrow(1, t, 1).squeeze(1)",
    "(xs[t] @ w)",
    "xs[t // 2]",
    "rows[t]",
)
SIDES = ("t % 2 == 0", "t > 1", "flag", "float(h.sum()) > 0.1")


def random_loop(seed: int) -> str:
    """A function of `xs`, some of whose rounds read parts of it, in branches and inner loops too."""
    draw = random.Random(seed)
    lines = ["def f(xs, w, h, flag: bool):"]
    lines += [f"    ys = {draw.choice(['xs.t()', 'torch.sin(xs).t()', '(xs * 2).t()'])}"]
    lines += ["    rows = torch.unbind(xs * 2, 0)"]
    kept = draw.random() < 0.5
    lines += ["    outs = [h]"] * kept
    lines += [f"    for t in range({draw.choice(['xs.size(0)', 'xs.size(0) - 1'])}):"]
    lines += _body(draw, 2, 2)
    lines += ["        outs.append(h)"] * kept
    lines += ["    return torch.stack(outs, 0).sum(0) * h" if kept else "    return h"]
    return "\n".join(lines) + "\n"


def _body(draw: random.Random, depth: int, nests: int) -> list[str]:
    pad, lines = "    " * depth, list[str]()
    for _ in range(draw.randint(1, 2)):
        form = draw.random() if nests else 1.0
        if form < 0.3:
            lines += [f"{pad}if {draw.choice(SIDES)}:", *_body(draw, depth + 1, nests - 1)]
            lines += [f"{pad}else:", *_body(draw, depth + 1, nests - 1)] * (draw.random() < 0.6)
        elif form < 0.4:
            lines += [f"{pad}for j in range({draw.choice(['2', 't + 1'])}):", *_body(draw, depth + 1, 0)]
        else:
            reads = f" {draw.choice('+*')} ".join(draw.choices(READS, k=draw.randint(1, 2)))
            lines.append(f"{pad}h = torch.tanh({reads} + h * w[0])")
    return lines


def eager(text: str, xs: Any, w: Any, h: Any, flag: bool, seed: Any) -> list[Any]:
    """The value and the gradients of torch in float64; zeros where nothing was read."""
    names: dict[str, Any] = {"torch": torch, "List": list, "Tensor": torch.Tensor}
    exec(text, names)
    leaves = [torch.tensor(given, requires_grad=True) for given in (xs, w, h)]
    y = names["f"](*leaves, flag)
    found = torch.autograd.grad(y, leaves, torch.tensor(seed), materialize_grads=True)
    return [y.detach().numpy(), *(gradient.numpy() for gradient in found)]


def arguments(count: int) -> tuple[Any, Any, Any, Any]:
    generator = np.random.default_rng(count)
    shapes = ((count, WIDTH), (WIDTH, WIDTH), (WIDTH,), (WIDTH,))
    xs, w, h, seed = (generator.normal(size=shape) for shape in shapes)
    return xs, w, h, seed


def _numpy(text: str, xs: Any, w: Any, h: Any, flag: bool, seed: Any) -> list[Any]:
    y, pull_back = gs.vjp(gs.CompilationUnit(text).f, xs, w, h, flag)
    return [y, *pull_back(seed)[:3]]


def _c(text: str, *given: Any) -> list[Any]:
    with gs.settings.backend("c"):
        return _numpy(text, *given)


def halves(text: str, xs: Any, w: Any, h: Any, flag: bool) -> tuple[Any, list[Any], Graph]:
    """Both halves as devices have them: the forward's outputs, the backward's inputs but the first, and its graph."""
    given = [*(torch.tensor(each) for each in (xs, w, h)), flag]
    known = [*(Layout.contiguous(Meta(each.shape, FLOAT64)) for each in (xs, w, h)), flag]
    graph = differentiable_graph(gs.CompilationUnit(text).f.callee)
    gradient = pair_gradient(graph, known, [True] * 3 + [False])
    outputs = run_graph(gradient.f, given, CPU)
    values = [*(given[i] for i in gradient.captured_inputs), *(outputs[i] for i in gradient.captured_outputs)]
    return outputs[0], values, gradient.df


def _device(text: str, xs: Any, w: Any, h: Any, flag: bool, seed: Any) -> list[Any]:
    output, values, backward = halves(text, xs, w, h, flag)
    values = [torch.tensor(seed), *values]
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in values]
    parts = fuse_groups(backward, [_known(value) for value in values])
    cpu = CPU
    found = run_plan(
        device_plan(parts.graph if parts else backward, cpu, lambda g: lambda v: run_graph(g, v, cpu)), values
    )
    for value, was in zip(values, before, strict=True):
        assert not isinstance(value, torch.Tensor) or torch.equal(value, was)
    return [output, *found]


def _known(value: Any) -> Any:
    if isinstance(value, list):
        return [_known(item) for item in value]
    return Layout.contiguous(Meta(tuple(value.shape), FLOAT64)) if isinstance(value, torch.Tensor) else value


ROADS = {"numpy": _numpy, "c": _c, "device": _device}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("seed", range(some(24)))
def test_random_loops_are_torchs(seed: int, road: str) -> None:
    text = random_loop(seed)
    for count, flag in ((5, True), (2, False), (1, True))[: 1 if road == "c" else 3]:
        xs, w, h, cotangent = arguments(count)
        given = xs.copy(), w.copy(), h.copy(), cotangent.copy()
        wanted = eager(text, xs, w, h, flag, cotangent)
        found = ROADS[road](text, *given[:3], flag, given[3])
        for ours, theirs in zip(found, wanted, strict=True):
            ours = np.zeros_like(theirs) if ours is None else np.asarray(ours)
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12, err_msg=text)
        for array, was in zip(given, (xs, w, h, cotangent), strict=True):
            np.testing.assert_array_equal(array, was)


FORMS = {
    "a list of what was computed": "outs.append(torch.tanh(xs[t] * w[0] + h))",
    "in a branch": "h = torch.tanh(xs[t] + h) if t % 2 == 0 else h * xs[t]",
    "in one of two branches": "h = torch.tanh(xs[t] + h) if t % 2 == 0 else h * 2",
    "a slice": "h = torch.tanh(xs[t : t + 1].sum(0) + h)",
    "narrow": "h = torch.tanh(xs.narrow(0, t, 1).sum(0) + h)",
    "two of them": "h = torch.tanh(xs[t] + h) * xs[t // 2]",
    "columns": "h = torch.tanh(xs[:, t % 3].sum() + h)",
}


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("form", FORMS)
def test_no_round_makes_an_array_op_by_op(form: str) -> None:
    xs, w, h, seed = arguments(5)
    function = gs.CompilationUnit(in_a_loop(FORMS[form])).f
    gs.vjp(function, xs, w, h, True)[1](seed)
    graph = gs.compiler_debug.last_executed_graph()
    assert graph is not None
    assert_sums_in_place(graph, build_plan(graph))


@pytest.mark.parametrize("form", FORMS)
def test_no_round_makes_an_array_between_kernels(form: str) -> None:
    xs, w, h, seed = arguments(600)
    _, values, backward = halves(in_a_loop(FORMS[form]), xs, w, h, True)
    parts = fuse_groups(backward, [_known(value) for value in (torch.tensor(seed), *values)])
    assert parts is not None
    assert_sums_in_place(parts.graph, device_plan(parts.graph, CPU, lambda g: lambda v: []))


def in_a_loop(line: str) -> str:
    head = "def f(xs, w, h, flag: bool):\n    outs: List[Tensor] = [h]\n    for t in range(xs.size(0)):\n"
    return f"{head}        {line}\n    return torch.stack(outs, 0).sum(0) * h\n"


def assert_sums_in_place(graph: Graph, plan: Any) -> None:
    inside = [node for node in graph.all_nodes() if _is_inside_a_loop(node)]
    kinds = [node.kind for node in inside]
    assert not {"aten::select_scatter", "aten::slice_scatter", "aten::new_zeros"}.intersection(kinds), graph
    steps = dict(zip(plan.nodes, plan.code, strict=True))
    sums = [node for node in inside if node.kind.startswith("prim::grad_add_")]
    assert sums and all("in_place" in steps[node][1].__name__ for node in sums), graph


def _is_inside_a_loop(node: Node | None) -> bool:
    return any(holder.kind == "prim::Loop" for holder in _holders(node))


def _holders(node: Node | None) -> Iterator[Node]:
    while node is not None and node.owner is not None and node.owner.node is not None:
        node = node.owner.node
        yield node

"""What can be differentiated, sliced out: which groups, whether they are right, and how they run."""

from __future__ import annotations

import itertools
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from amounts import some
from gradscript.compiler.autodiff import differentiate
from gradscript.compiler.autodiff.subgraphs import (
    KIND,
    create_autodiff_subgraphs,
    inline_autodiff_subgraphs,
    size,
)
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.verify import InvalidIR, verify
from gradscript.compiler.ops.registry import OPS, Trait
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.passes.gradients.propagate_requires_grad import propagate_requires_grad
from gradscript.compiler.types.types import TensorType
from gradscript.runtime.execution.differentiated import Differentiated
from gradscript.runtime.execution.groups import plan_with_groups
from gradscript.runtime.plans.interpreter import run_plan

pytestmark = pytest.mark.usefixtures("op_by_op")
"""What is sliced out of a graph for the interpreter, on whichever backend the suite runs."""

CHAIN = """\
graph f(%a : Tensor, %b : Tensor):
  %1 : Tensor = aten::mul.Tensor(%a, %b)
  %2 : Tensor = aten::tanh(%1)
  %3 : Tensor = aten::mul.Tensor(%2, %b)
  return (%3)
"""
LEAP = """\
graph f(%a : Tensor, %b : Tensor):
  %1 : Tensor = aten::mul.Tensor(%a, %b)
  %n : Tensor = aten::gt.Tensor(%a, %b)
  %2 : Tensor = aten::tanh(%1)
  return (%2, %n)
"""
CYCLE = """\
graph f(%a : Tensor, %b : Tensor):
  %1 : Tensor = aten::mul.Tensor(%a, %b)
  %2 : Tensor = aten::tanh(%1)
  %n : Tensor = aten::gt.Tensor(%1, %b)
  %3 : Tensor = aten::mul.Tensor(%2, %n)
  %4 : Tensor = aten::exp(%3)
  return (%4)
"""
BRANCH = """\
graph f(%a : Tensor, %b : Tensor, %c : bool):
  %1 : Tensor = aten::mul.Tensor(%a, %b)
  %2 : Tensor = aten::mul.Tensor(%1, %b)
  %5 : Tensor = prim::If(%c)
    block():
      %3 : Tensor = aten::mul.Tensor(%1, %2)
      %4 : Tensor = aten::mul.Tensor(%3, %2)
      return (%4)
    block():
      return (%1)
  %6 : Tensor = aten::mul.Tensor(%5, %2)
  %7 : Tensor = aten::mul.Tensor(%6, %b)
  return (%7)
"""
TOLD = BRANCH.replace(
    "      return (%1)",
    '      %t : str = prim::Constant[value="no"]()\n      %e : str = prim::Constant[value=""]()\n'
    "      prim::Print(%t, %e)\n      return (%1)",
)
"""A branch that prints has groups inside it, and is in none."""
UNRELATED = """\
graph f(%a : Tensor, %b : Tensor):
  %1 : Tensor = aten::mul.Tensor(%a, %a)
  %2 : Tensor = aten::mul.Tensor(%b, %b)
  %3 : Tensor = aten::tanh(%1)
  %4 : Tensor = aten::tanh(%2)
  return (%3, %4)
"""
EFFECT = """\
graph f(%a : Tensor, %m : str):
  %n : None = prim::Constant[value=None]()
  %1 : Tensor = aten::tanh(%a)
  %2 : Tensor = aten::tanh(%1)
  prim::RaiseException(%m, %n)
  %3 : Tensor = aten::tanh(%2)
  %4 : Tensor = aten::tanh(%3)
  return (%4)
"""


def _groups(text: str, threshold: int = 2) -> tuple[Graph, list[int]]:
    graph = parse_ir(text)
    propagate_requires_grad(graph)
    made = create_autodiff_subgraphs(graph, threshold)
    verify(graph)
    assert str(parse_ir(str(graph))) == str(graph)
    return graph, [size(node) for node in made]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [(CHAIN, [3]), (LEAP, [2]), (CYCLE, [3]), (BRANCH, [7]), (TOLD, [2, 2, 2]), (UNRELATED, [2, 2]), (EFFECT, [2, 2])],
    ids=["chain", "leap", "cycle", "branch", "branch with an effect", "unrelated", "effect"],
)
def test_groups(text: str, sizes: list[int]) -> None:
    graph, found = _groups(text)
    assert found == sizes
    before = parse_ir(text)
    inline_autodiff_subgraphs(graph, 99)
    verify(graph)
    assert sorted(n.kind for n in graph.all_nodes()) == sorted(n.kind for n in before.all_nodes())


def test_thresholds() -> None:
    assert _groups(CHAIN, 4)[1] == []
    assert _groups(LEAP, 1)[1] == [2]
    graph, _ = _groups(CHAIN)
    assert not inline_autodiff_subgraphs(graph, 3)
    assert inline_autodiff_subgraphs(graph, 4)


def test_what_needs_no_gradient_is_left_out() -> None:
    text = CHAIN.replace("%a : Tensor, %b : Tensor)", "%a : Tensor[requires_grad=False], %b : Tensor[int64])")
    assert _groups(text)[1] == []


def test_a_group_takes_what_it_uses() -> None:
    graph, _ = _groups(CHAIN)
    (group,) = graph.nodes
    assert [v.name_hint for v in group.inputs] == ["a", "b"]
    inner = group.blocks[0]
    next(iter(inner.nodes)).set_input(0, graph.inputs[0])
    with pytest.raises(InvalidIR, match="takes what it uses as inputs"):
        verify(graph)


def test_results_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    for text in (CHAIN, LEAP, CYCLE, BRANCH, UNRELATED):
        values: list[Any] = [rng.standard_normal(4) for _ in range(2)]
        for condition in (True, False):
            given = [*values, condition] if text is BRANCH else values
            graph, _ = _groups(text)
            expected = run_plan(plan_with_groups(parse_ir(text)), given)
            for left, right in zip(run_plan(plan_with_groups(graph), given), expected, strict=True):
                np.testing.assert_array_equal(left, right)


def _random_graph(rng: np.random.Generator, count: int, *, draws: bool) -> str:
    """Ops that can be differentiated and ones that cannot, on values at random, and draws, which keep their order."""
    lines, values = ["  %s : float = prim::Constant[value=1.0]()"], ["a", "b"]
    for i in range(count):
        x, y = rng.choice(values, 2)
        plain = [f"aten::mul.Tensor(%{x}, %{y})", f"aten::tanh(%{x})", f"aten::detach(%{x})"]
        op = rng.choice([*plain, f"aten::normal.Tensor_float(%{x}, %s)"] if draws else plain)
        lines.append(f"  %v{i} : Tensor = {op}")
        values.append(f"v{i}")
    results = ", ".join(f"%{v}" for v in rng.choice(values, 3))
    return "\n".join(["graph f(%a : Tensor, %b : Tensor):", *lines, f"  return ({results})", ""])


@pytest.mark.parametrize("draws", [False, True], ids=["plain", "draws"])
@pytest.mark.parametrize("seed", range(some(40)))
def test_random_graphs_stay_acyclic_and_right(seed: int, draws: bool) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal(3) for _ in range(2)]
    for _ in range(10):
        text = _random_graph(rng, 60, draws=draws)
        graph, _ = _groups(text)
        results = []
        for one in (graph, parse_ir(text)):
            gs.random.manual_seed(seed)
            results.append(run_plan(plan_with_groups(one), values))
        for left, right in zip(*results, strict=True):
            np.testing.assert_array_equal(left, right)


RECURRENT = """
def listed(xs: List[Tensor], h, w):
    for i in range(len(xs)):
        h = torch.tanh(h @ w + xs[i])
    return (h * h).sum()

def stacked(xs, h, w):
    for i in range(xs.size(0)):
        h = torch.tanh(h @ w + xs[i])
    return (h * h).sum()

def chosen(xs, h, w):
    for i in range(xs.size(0)):
        if i % 2 == 0:
            h = torch.tanh(h @ w + xs[i])
        else:
            h = h * xs[i]
    return (h * h).sum()

def nested(xs, h, w):
    for i in range(xs.size(0)):
        for j in range(i):
            h = torch.tanh(h @ w)
        h = h * xs[i]
    return (h * h).sum()
"""


@pytest.mark.parametrize("rounds", [0, 1, 3, 9])
@pytest.mark.parametrize("name", ["listed", "stacked", "chosen", "nested"])
def test_a_recurrent_net_is_one_group(name: str, rounds: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(rounds)
    first, *others = [rng.standard_normal(shape) / 2 for shape in ((rounds, 2, 3), (2, 3), (3, 3))]
    leaves = [*first, *others] if name == "listed" else [first, *others]
    namespace: dict[str, Any] = {"torch": torch, "List": list, "Tensor": torch.Tensor}
    exec(RECURRENT, namespace)
    tensors = [torch.tensor(array, requires_grad=True) for array in leaves]
    namespace[name](*_arguments(name, tensors)).backward()
    function = gs.CompilationUnit(RECURRENT)[name]
    variables = [gs.tape.Variable(array) for array in leaves]
    function(*_arguments(name, variables)).backward()
    (plan,) = function.debug_state().plans.values()
    assert len(plan.groups) == 1
    for variable, tensor in zip(variables, tensors, strict=True):
        wanted = np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.numpy()
        found = np.zeros(tensor.shape) if variable.grad is None else variable.grad.data
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def _arguments(name: str, leaves: list[Any]) -> list[Any]:
    return [leaves[:-2], *leaves[-2:]] if name == "listed" else leaves


def test_a_long_chain_is_one_group() -> None:
    lines = [f"  %v{i + 1} : Tensor = aten::mul.Tensor(%v{i}, %w)" for i in range(4000)]
    text = "\n".join(["graph f(%v0 : Tensor, %w : Tensor):", *lines, "  return (%v4000)", ""])
    assert _groups(text)[1] == [4000]


# --- gradients of groups ---


def _matmuls(graph: Graph) -> int:
    ops = [OPS.of(node.schema) for node in graph.all_nodes()]
    return sum(op is not None and op.has(Trait.MATMUL) for op in ops)


def test_linear_has_one_product_for_each_input_that_needs_a_gradient() -> None:
    text = (
        "graph f(%x : Tensor[requires_grad=False], %w : Tensor):\n"
        "  %1 : Tensor = aten::t(%w)\n  %2 : Tensor = aten::mm(%x, %1)\n  %3 : Tensor = aten::tanh(%2)\n"
        "  return (%3)\n"
    )
    for types, products in ((("[requires_grad=False]", ""), 1), (("", "[requires_grad=False]"), 1), (("", ""), 2)):
        written = text.replace("%x : Tensor[requires_grad=False]", f"%x : Tensor{types[0]}")
        graph, _ = _groups(written.replace("%w : Tensor)", f"%w : Tensor{types[1]})"))
        (group,) = plan_with_groups(graph).groups
        assert _matmuls(group.differentiate(group.requires_grad).gradient.df) == products
    source = "def f(x, w, b):\n    return torch.nn.functional.linear(x, w, b)\n"
    whole = gs.CompilationUnit(source).f.graph
    for mask, products in (((False, True, True), 1), ((True, False, True), 1), ((True, True, True), 2)):
        assert _matmuls(differentiate(whole, mask).df) == products


def test_captures_of_what_repeats_keep_the_first_index() -> None:
    graph = parse_ir(CHAIN.replace("return (%3)", "return (%2, %3, %2, %3)"))
    gradient = differentiate(graph)
    assert gradient.num_real_outputs == 4
    assert gradient.input_vjps[:2] == (0, 1)
    assert 0 in gradient.captured_outputs and not {2, 3} & set(gradient.captured_outputs)


def test_groups_run_and_go_back() -> None:
    graph, _ = _groups(CHAIN)
    (group,) = plan_with_groups(graph).groups
    a, b = np.array([0.5, 2.0]), np.array([1.5, -1.0])
    differentiated = group.differentiate(group.requires_grad)
    (out,), residuals = differentiated.run([a, b])
    grads = differentiated.pull_back([a, b], [np.ones(2)], residuals)
    th = np.tanh(a * b)
    np.testing.assert_allclose(out, th * b)
    np.testing.assert_allclose(grads[0], (1 - th**2) * b * b)
    np.testing.assert_allclose(grads[1], th + (1 - th**2) * a * b)


def test_an_executor_slices_where_a_gradient_is_asked_for() -> None:
    source = "def f(x, w):\n    y = x * w\n    z = torch.tanh(y) * w\n    return z * z + y\n"
    function = gs.CompilationUnit(source).f
    values = [np.ones(3), np.full(3, 2.0)]
    executor = function.executor
    spec = executor.signature.spec(values, [True, False])
    assert spec.grad_mode and [part.requires_grad for part in spec.arguments] == [True, False]  # type: ignore[union-attr]
    plan = executor.plan_for(spec)
    (group,) = plan.groups
    assert group.requires_grad == (True, False)
    (result,) = run_plan(plan, values)
    np.testing.assert_array_equal(result, function(*values))
    assert executor.signature.spec(values, [True, False], grad_mode=False) == executor.signature.spec(values)
    assert len(function.debug_state().plans) == 2


def test_small_groups_are_put_back_unless_debugging() -> None:
    source = "def f(x, w):\n    return torch.tanh(x * w)\n"
    values = [np.ones(3), np.ones(3)]
    for debugging in (False, True):
        executor = gs.CompilationUnit(source).f.executor
        with gs.settings.autodiff_debugging(debugging):
            plan = executor.plan_for(executor.signature.spec(values, [True, True]))
        assert len(plan.groups) == debugging
        kinds = [node.kind for node in plan.graph.nodes]
        assert (KIND in kinds) is debugging


# --- views ---

VIEWS = {
    "t": "x.t() * w",
    "permute": "x.permute([1, 0]) * w",
    "transpose": "x.transpose(0, 1) * w",
    "view": "x.view(3, 2) * w",
    "expand": "x.sum().expand(3, 2) * w",
    "select": "x[0].unsqueeze(0) * w.t()",
}


@pytest.mark.parametrize(("name", "order"), list(itertools.product(VIEWS, (0, 1))))
def test_views_have_right_second_derivatives(name: str, order: int) -> None:
    torch = pytest.importorskip("torch")
    text = f"def f(x, w):\n    y = {VIEWS[name]}\n    return (torch.tanh(y) * y).sum()\n"
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((2, 3)), rng.standard_normal((3, 2))
    unit = gs.CompilationUnit(text)
    first = gs.grad(unit.f, argnums=order)
    combined = gs.CompilationUnit("def s(g):\n    return (g * g).sum()\n").s
    namespace: dict[str, Any] = {"torch": torch}
    exec(text, namespace)
    tx, tw = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    (expected,) = torch.autograd.grad(namespace["f"](tx, tw), (tx, tw)[order], create_graph=True)
    np.testing.assert_allclose(first(x, w), expected.detach().numpy(), rtol=1e-9)
    vx, vw = gs.tape.Variable(x, requires_grad=True), gs.tape.Variable(w, requires_grad=True)
    squares = combined(first(vx, vw))
    squares.backward()
    theirs = torch.autograd.grad((expected * expected).sum(), (tx, tw))
    for mine, other in zip((vx, vw), theirs, strict=True):
        np.testing.assert_allclose(np.asarray(mine.grad), other.numpy(), rtol=1e-8)


CHAINS = {
    **VIEWS,
    "t of a product": "(x.t() * w).t()",
    "permute of t": "x.t().permute([1, 0]) * w.permute([1, 0])",
    "t that is used twice": "x.t() * w + (x.t() @ w.t()) @ w",
    "a view of a view": "x.view(6).view(3, 2) * w",
    "flatten": "x.flatten(0, 1) * w.reshape(6)",
    "slices": "x[:, 1:] * w.t()[:, :2]",
}


@pytest.mark.parametrize("name", CHAINS)
def test_second_derivatives_through_a_groups_own_backward(name: str) -> None:
    """df is differentiated; what comes out for captured temporaries goes back through df again."""
    torch = pytest.importorskip("torch")
    text = f"def f(x, w):\n    y = {CHAINS[name]}\n    return torch.tanh(y) * y\n"
    rng = np.random.default_rng(4)
    arrays = {"x": rng.standard_normal((2, 3)), "w": rng.standard_normal((3, 2))}
    executor = gs.CompilationUnit(text).f.executor
    with gs.settings.autodiff_debugging(True):
        plan = executor.plan_for(executor.signature.spec([*arrays.values()], [True, True]))
    (group,) = plan.groups
    (node,) = [node for node in plan.graph.nodes if node.kind == KIND]
    names = [value.name_hint for value in node.inputs]
    values = [
        arrays[v.name_hint] if v.name_hint else [c.node.attr("value") for c in v.node.inputs] for v in node.inputs
    ]
    first = group.differentiate(group.requires_grad)
    gradient = first.gradient
    (out,), residuals = first.run(values)
    seed = rng.standard_normal(out.shape)
    temporaries = residuals[len(gradient.captured_inputs) :]
    tensors = [t for t in temporaries if isinstance(t, np.ndarray)]
    seeds = [seed, *(np.zeros_like(t) for t in tensors)][: len(gradient.input_vjps)]
    given = [*seeds, *residuals]

    second = Differentiated(differentiate(gradient.df))
    grads, kept = second.run(given)
    cotangents = [rng.standard_normal(g.shape) for g in grads]
    back = second.pull_back(given, cotangents, kept)[len(seeds) :]
    total = {name: np.zeros_like(array) for name, array in arrays.items()}
    for index, found in zip(gradient.captured_inputs, back, strict=False):
        if found is not None:
            total[names[index]] = total[names[index]] + found
    through: list[Any] = [None] * len(gradient.f.outputs)
    for index, found in zip(gradient.captured_outputs, back[len(gradient.captured_inputs) :], strict=True):
        through[index] = found
    for name, found in zip(names, first.pull_back(values, through, residuals), strict=True):
        if found is not None:
            total[name] = total[name] + found

    namespace: dict[str, Any] = {"torch": torch}
    exec(text, namespace)
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
    wanted = [leaves[names[i]] for i in gradient.output_vjps]
    result = namespace["f"](**leaves)
    theirs = torch.autograd.grad(result, wanted, torch.tensor(seed), create_graph=True)
    for mine, other in zip(grads, theirs, strict=True):
        np.testing.assert_allclose(mine, other.detach().numpy(), rtol=1e-9)
    summed = sum((g * torch.tensor(c)).sum() for g, c in zip(theirs, cotangents, strict=True))
    expected = torch.autograd.grad(summed, [*leaves.values()], allow_unused=True)
    for (name, mine), other in zip(total.items(), expected, strict=True):
        np.testing.assert_allclose(mine, 0.0 if other is None else other.numpy(), rtol=1e-8, atol=1e-12, err_msg=name)


# --- what needs a gradient ---

FLAGS = {
    "x * w": "x * w",
    "a comparison": "(x > w) * x.sum()",
    "detach": "x.detach() * w",
    "only compared": "(x > w).to(torch.float64)",
    "a branch": "x * 2 if flag else w.exp()",
    "a branch of constants": "x.detach() if flag else w.detach()",
    "indices": "x.argmax(1)",
    "ones": "torch.ones_like(x)",
    "into an int": "x.to(torch.int64) * w.to(torch.int64)",
    "where": "torch.where(x > 0, w, torch.zeros_like(w))",
}
LOOP = """
def f(x, w, flag: bool, n: int):
    a = w.detach()
    b = w.detach()
    c = w.detach()
    for i in range(n):
        a = b
        b = c
        c = c * x
    return a
"""


@pytest.mark.parametrize("flags", list(itertools.product([True, False], repeat=2)))
@pytest.mark.parametrize("name", [*FLAGS, "a loop"])
def test_what_needs_a_gradient_is_what_torch_says(name: str, flags: tuple[bool, bool]) -> None:
    """Of a branch or a loop, where it does on any way."""
    torch = pytest.importorskip("torch")
    text = LOOP if name == "a loop" else f"def f(x, w, flag: bool, n: int):\n    return {FLAGS[name]}\n"
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((3, 3)) for _ in range(2)]
    executor = gs.CompilationUnit(text).f.executor
    executor_plan = executor.plan_for(executor.signature.spec([*arrays, True, 3], [*flags, False, False]))
    type = executor_plan.graph.outputs[0].type
    assert isinstance(type, TensorType)
    namespace: dict[str, Any] = {"torch": torch}
    exec(text, namespace)
    tensors = [torch.tensor(a, requires_grad=flag) for a, flag in zip(arrays, flags, strict=True)]
    ways = [namespace["f"](*tensors, flag, n) for flag in (True, False) for n in (0, 1, 2, 3)]
    assert type.requires_grad is any(way.requires_grad for way in ways)

"""How gradients that meet are put together: by a function of the caller's, with zeros and copies, on every road."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.autodiff import differentiate
from gradscript.compiler.autodiff.aggregation import Aggregation
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.node import Value

SOURCE = """
def f(x, w):
    y = torch.sin(x) + torch.cos(x) * w + x * x + torch.exp(x * 0.1)
    return (y * y * x).sum()

def in_rounds(x, w):
    y = x
    for i in range(4):
        if i > 1:
            y = torch.sin(y) * x + y * w + y
        else:
            y = y * y + x
    return y.sum()

def twice(x, w):
    return (x + w).sum()

def many(x, w):
    return (x * w + torch.sin(x) + torch.cos(x) + x.exp() + x * x + x.tanh() + x / 2 + x.sigmoid() + x * w).sum()

def dead_end(x, w):
    return (x * w).sum() + 0 * torch.floor(x).sum()
"""
X, W = np.linspace(0.1, 1.2, 6).reshape(2, 3), np.linspace(-1.0, 0.7, 6).reshape(2, 3)


@pytest.fixture
def met() -> Iterator[list[int]]:
    """How many gradients a sum of the caller's was given, each time."""
    counts: list[int] = []

    def total(builder: Builder, gradients: Sequence[Value]) -> Value:
        counts.append(len(gradients))
        result = gradients[-1]
        for gradient in reversed(gradients[:-1]):
            result = builder.node("prim::AutogradAdd", [gradient, result], [gradient.type]).output
        return result

    restore = gs.compiler_debug.choose_aggregation(total)
    try:
        yield counts
    finally:
        restore()


def vjp(function: Any, **options: Any) -> Any:
    return gs.vjp(function, X, W, **options)[1](np.ones(()))


def tape(function: Any) -> Any:
    x, w = gs.tape.Variable(X), gs.tape.Variable(W)
    function(x, w).backward()
    return x.grad.data, w.grad.data  # type: ignore[union-attr]


def on_torch(function: Any) -> Any:
    torch = pytest.importorskip("torch")
    x, w = (torch.tensor(array, requires_grad=True) for array in (X, W))
    function(x, w).backward()
    return x.grad.numpy(), w.grad.numpy()


ROADS: dict[str, Callable[[Any], Any]] = {
    "vjp": vjp,
    "grad": lambda f: gs.grad(f, (0, 1))(X, W),
    **{name: lambda f, name=name: vjp(f, policy=name) for name in ("min_cut", "mirror", "recompute_all")},
    "tape": tape,
    "torch": on_torch,
}


def expected(name: str) -> Any:
    torch = pytest.importorskip("torch")
    x, w = (torch.tensor(array, requires_grad=True) for array in (X, W))
    if name == "f":
        y = torch.sin(x) + torch.cos(x) * w + x * x + torch.exp(x * 0.1)
        value = (y * y * x).sum()
    else:
        y = x
        for i in range(4):
            y = torch.sin(y) * x + y * w + y if i > 1 else y * y + x
        value = y.sum()
    return [gradient.numpy() for gradient in torch.autograd.grad(value, (x, w))]


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", ["f", "in_rounds"])
def test_a_sum_of_the_callers_is_used_on_every_road(met: list[int], road: str, name: str) -> None:
    found = ROADS[road](gs.CompilationUnit(SOURCE)[name])
    assert met and min(met) >= 2
    for ours, theirs in zip(found, expected(name), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_it_is_given_all_that_meet_in_a_value_at_once() -> None:
    seen: list[int] = []

    def total(builder: Builder, gradients: Sequence[Value]) -> Value:
        seen.append(len(gradients))
        return builder.op("gs::add_n", builder.list(gradients))

    graph = gs.CompilationUnit(SOURCE).f.graph
    gradient = differentiate(graph, temporaries=False, aggregation=Aggregation(sum=total))
    # x: in the last product, and in sin, cos, x * x (twice) and exp. y: in its square, twice.
    assert sorted(seen) == [2, 6]
    assert kinds(gradient.df).count("gs::add_n") == 2 and "prim::AutogradAdd" not in kinds(gradient.df)
    assert "gs::add_n" not in kinds(differentiate(graph).df)


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.all_nodes()]


def test_what_was_chosen_is_dropped_again() -> None:
    calls: list[int] = []

    def total(builder: Builder, gradients: Sequence[Value]) -> Value:
        calls.append(1)
        return builder.node("prim::AutogradAdd", gradients[:2], [gradients[0].type]).output

    function = gs.CompilationUnit(SOURCE).twice
    first = vjp(function)
    restore = gs.compiler_debug.choose_aggregation(total)
    restore()
    np.testing.assert_array_equal(vjp(function), first)
    assert not calls


UNDIFFERENTIABLE = """
def pair(x):
    def backward(grad):
        return torch.zeros_like(x)

    return x * 1, backward

def f(x, w):
    return (pair(torch.mode(x, 0).values) * 2).sum() + (pair(x) * w).sum() + (x * w).sum()
"""


def test_zeros_are_left_out_and_handed_on() -> None:
    """An op without a gradient is an error, unless all that reaches it are zeros by a zero op."""
    source = UNDIFFERENTIABLE.replace("torch.mode(x, 0).values", undifferentiable())
    graph = gs.CompilationUnit(source).f.graph
    with pytest.raises(gs.CompileError, match=r"zeta.* has no gradient"):
        differentiate(graph, temporaries=False)
    gradient = differentiate(graph, temporaries=False, aggregation=Aggregation(zeros=("aten::zeros_like",)))
    assert kinds(gradient.df).count("prim::AutogradAdd") <= 1
    restore = gs.compiler_debug.choose_aggregation(zeros=("aten::zeros_like",))
    try:
        found = vjp(gs.CompilationUnit(source).f)
    finally:
        restore()
    np.testing.assert_allclose(found[0], W)


def undifferentiable() -> str:
    """A call of an op without a gradient, of x."""
    return "torch.special.zeta(x + 2, 3.0)"


def test_a_gradient_of_two_arguments_is_copied() -> None:
    graph = gs.CompilationUnit(SOURCE).twice.graph
    plain, copied = differentiate(graph), differentiate(graph, aggregation=Aggregation(copy="aten::clone"))
    assert "aten::clone" not in kinds(plain.df) and kinds(copied.df).count("aten::clone") <= 1
    restore = gs.compiler_debug.choose_aggregation(copy="aten::clone")
    try:
        for road in ROADS.values():
            for gradient in road(gs.CompilationUnit(SOURCE).twice):
                np.testing.assert_array_equal(gradient, np.ones_like(X))
    finally:
        restore()


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("cap", [2, 3, 8, 9, 20])
def test_sums_of_fewer_terms_than_the_cap_are_added_at_once(cap: int) -> None:
    restore = gs.compiler_debug.choose_aggregation(cap=cap)
    try:
        found = vjp(gs.CompilationUnit(SOURCE).many)
        graph = gs.compiler_debug.last_executed_graph()
    finally:
        restore()
    assert graph is not None
    terms = [len(node.inputs[0].node.inputs) for node in graph.all_nodes() if node.kind == "gs::add_n"]
    assert all(count < cap for count in terms) and bool(terms) == (cap > 9)
    x, w = X, W
    slope = 2 * w + np.cos(x) - np.sin(x) + np.exp(x) + 2 * x + 1 - np.tanh(x) ** 2 + 0.5
    sigmoid = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(found[0], slope + sigmoid * (1 - sigmoid), rtol=1e-12)


@pytest.mark.parametrize("options", [{"zeros": ("aten::mul.Tensor",)}, {"copy": "aten::nothing"}, {"cap": 1}])
def test_what_is_none_is_refused(options: Any) -> None:
    with pytest.raises(ValueError):
        gs.compiler_debug.choose_aggregation(**options)

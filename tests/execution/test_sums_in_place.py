"""What plans write into: sums and lists that grow in loops, and nothing that anybody else sees."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.ops.families.language import control
from gradscript.compiler.ops.registry import OPS
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import run_plan
from gradscript.runtime.plans.operations import WRITES

SOURCE = """
def slices(xs, w):
    h = w * 1
    for i in range(xs.size(0)):
        h = torch.tanh(h * w + xs[i])
    return (h * h).sum()

def backwards(xs, w):
    h = w * 1
    for i in range(xs.size(0)):
        h = torch.tanh(h * w + xs[-1 - i] * xs[0])
    return (h * h).sum()

def columns(xs, w):
    h = w.sum() * xs[:, 0]
    for i in range(xs.size(1)):
        h = h * 0.5 + torch.sin(xs[:, i] * xs.select(1, i))
    return (h * h).sum()

def nested(xs, w):
    h = w * 1
    for i in range(xs.size(0)):
        for j in range(xs.size(0)):
            if j != i:
                h = torch.tanh(h * w + xs[i] * xs[j])
    return (h * h).sum()

def elements(xs: List[Tensor], w):
    h = w * 1
    for i in range(len(xs)):
        h = torch.tanh(h * w + xs[i] * xs[0])
    return (h * h).sum()
"""
XS, W = np.linspace(-1.0, 1.4, 15).reshape(5, 3), np.array([0.5, -0.3, 0.8])


def eager(name: str, xs: Any, w: Any) -> Any:
    import torch

    h = w * 1
    if name == "columns":
        h = w.sum() * xs[:, 0]
        for i in range(xs.size(1)):
            h = h * 0.5 + torch.sin(xs[:, i] * xs[:, i])
    for i in range(len(xs)) if name != "columns" else ():
        if name == "slices":
            h = torch.tanh(h * w + xs[i])
        elif name == "backwards":
            h = torch.tanh(h * w + xs[-1 - i] * xs[0])
        elif name == "elements":
            h = torch.tanh(h * w + xs[i] * xs[0])
        else:
            for j in range(len(xs)):
                h = torch.tanh(h * w + xs[i] * xs[j]) if j != i else h
    return (h * h).sum()


ROADS = {
    "vjp": lambda f, xs, w: gs.vjp(f, xs, w)[1](np.ones(())),
    "grad": lambda f, xs, w: gs.grad(f, (0, 1))(xs, w),
    "min_cut": lambda f, xs, w: gs.vjp(f, xs, w, policy="min_cut")[1](np.ones(())),
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", ["slices", "backwards", "columns", "nested", "elements"])
def test_gradients_of_parts_in_loops(name: str, road: str) -> None:
    torch = pytest.importorskip("torch")
    function = gs.CompilationUnit(SOURCE)[name]
    for count in (5, 1, 2):
        xs: Any = [*XS[:count]] if name == "elements" else XS[:count]
        tensors = [torch.tensor(x, requires_grad=True) for x in (xs if name == "elements" else [xs])]
        w = torch.tensor(W, requires_grad=True)
        value = eager(name, tensors if name == "elements" else tensors[0], w)
        expected = torch.autograd.grad(value, (*tensors, w), materialize_grads=True)
        for _ in range(2):
            found = ROADS[road](function, xs, W)
            flat = [*found[0], found[1]] if name == "elements" else found
            for ours, theirs in zip(flat, expected, strict=True):
                ours = np.zeros_like(theirs) if ours is None else ours
                np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-11, atol=1e-13)


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("road", ["vjp", "grad"])
@pytest.mark.parametrize("name", ["slices", "elements"])
def test_the_work_of_a_round_does_not_grow(name: str, road: str) -> None:
    """Nothing as large as all rounds together is made in each round: no list is copied, no array of zeros filled."""
    xs: Any = [*XS] if name == "elements" else XS
    ROADS[road](gs.CompilationUnit(SOURCE)[name], xs, W)
    graph = gs.compiler_debug.last_executed_graph()
    assert graph is not None
    plan = build_plan(graph)
    steps = zip(plan.code, plan.nodes, strict=True)
    rounds = [(node.kind, step[1]) for step, node in steps if inside_loop(node)]
    assert not {"aten::select_scatter", "prim::no_grads"}.intersection(kind for kind, _ in rounds)
    written = [function is WRITES[kind] for kind, function in rounds if kind in WRITES]
    assert written and all(written)


@pytest.mark.parametrize("body", ["x.sum()", "(x * xs[0]).sum()"])
def test_a_long_list_is_summed_element_by_element_in_c(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of a loop whose body is planned by itself adds to one element, and not to as many as there are."""
    torch = pytest.importorskip("torch")
    source = (
        f"def f(xs: List[Tensor]):\n    s = torch.zeros([])\n    for x in xs:\n        s = s + {body}\n    return s\n"
    )
    function = gs.CompilationUnit(source).f
    counted = [0]
    added = control.added_gradients

    def counting(*given: Any) -> Any:
        counted[0] += 1
        return added(*given)

    xs = [torch.ones(2, requires_grad=True) for _ in range(1100)]
    with gs.settings.backend("c"):
        value = function(xs)
        monkeypatch.setattr(control, "added_gradients", counting)
        value.backward()
    assert counted[0] <= 4 * len(xs)
    torch.testing.assert_close(xs[5].grad, torch.ones(2))


def inside_loop(node: Any) -> bool:
    while node is not None and node.owner is not None:
        node = node.owner.node
        if node is not None and node.kind == "prim::Loop":
            return True
    return False


IR = """
graph f(%n : int, %list : List[int]):
  %always : bool = prim::Constant[value=True]()
  %grown : List[int] = prim::Loop(%n, %always, %list)
    block(%i : int, %before : List[int]):
      %after : List[int] = aten::append.t(%before, %i)
      return (%always, %after)
  return (%grown, %list)
"""
SEEN = """
graph f(%n : int, %list : List[int]):
  %always : bool = prim::Constant[value=True]()
  %none : List[List[int]] = prim::ListConstruct()
  %grown : List[int], %all : List[List[int]] = prim::Loop(%n, %always, %list, %none)
    block(%i : int, %before : List[int], %kept : List[List[int]]):
      %after : List[int] = aten::append.t(%before, %i)
      %more : List[List[int]] = aten::append.t(%kept, %before)
      return (%always, %after, %more)
  return (%grown, %all)
"""
NESTED = """
graph f(%n : int, %list : List[int]):
  %always : bool = prim::Constant[value=True]()
  %grown : List[int] = prim::Loop(%n, %always, %list)
    block(%i : int, %outer : List[int]):
      %rounds : List[int] = prim::Loop(%n, %always, %outer)
        block(%j : int, %before : List[int]):
          %after : List[int] = aten::append.t(%before, %j)
          return (%always, %after)
      %last : List[int] = aten::append.t(%rounds, %i)
      return (%always, %last)
  return (%grown, %list)
"""


def written(text: str) -> int:
    """How many instructions of a plan write into their first operand."""
    return sum(step[1] in WRITES.values() for step in build_plan(gs.parse_ir(text)).code)


def test_a_list_that_an_argument_is_stays_as_it_was() -> None:
    for text, grown in ((IR, [7, 0, 1, 2]), (NESTED, [7, 0, 1, 2, 0, 0, 1, 2, 1, 0, 1, 2, 2])):
        given = [7]
        assert run_plan(build_plan(gs.parse_ir(text)), [3, given]) == [grown, [7]] and given == [7]
    assert written(IR) == 1 and written(NESTED) == 2


def test_a_list_that_something_else_holds_is_not_written_into() -> None:
    assert run_plan(build_plan(gs.parse_ir(SEEN)), [3, [7]]) == [[7, 0, 1, 2], [[7], [7, 0], [7, 0, 1]]]
    assert written(SEEN) == 1


def test_sums_of_slices_are_those_of_whole_arrays() -> None:
    add = OPS.named("prim::grad_add_select").evaluate
    scatter = OPS.named("aten::select_scatter").evaluate
    whole, part = np.arange(12.0).reshape(3, 4), np.array([0.5, -1.0, 2.0])
    for dim, index, size in ((1, 2, (3, 4)), (1, -1, (3, 4)), (-1, 0, (3, 4))):
        before = whole.copy()
        np.testing.assert_array_equal(
            add(whole, part, [*size], dim, index), whole + scatter(np.zeros(size), part, dim, index)
        )
        np.testing.assert_array_equal(whole, before)
    # Another shape, another dtype, no gradient so far, none to add.
    row = np.arange(4.0)
    np.testing.assert_array_equal(add(row, part, [3, 4], 1, 1), row + scatter(np.zeros((3, 4)), part, 1, 1))
    single = whole.astype(np.float32)
    assert add(single, part, [3, 4], 1, 1).dtype == np.float64
    np.testing.assert_array_equal(add(None, part, [3, 4], 1, 1), scatter(np.zeros((3, 4)), part, 1, 1))
    assert add(whole, None, [3, 4], 1, 1) is not None and add(None, None, [3, 4], 1, 1) is None
    with pytest.raises(IndexError):
        add(whole, part, [3, 4], 1, 4)


@pytest.mark.parametrize("name", ["prim::grad_add_slice", "prim::grad_add_product"])
def test_sums_of_parts_are_those_of_whole_arrays(name: str) -> None:
    add, write = OPS.named(name).evaluate, WRITES[name]
    for gradients, rest, part in parts(name):
        before = None if gradients is None else gradients.copy()
        wanted = part if gradients is None else gradients + part
        for function in (add, write):
            found = function(gradients, *rest)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-13)
            if function is add and gradients is not None:
                np.testing.assert_array_equal(gradients, before)


def parts(name: str) -> list[tuple[Any, list[Any], Any]]:
    """A sum so far, what is added to it, and that as a whole array: of its shape and dtype, and of others."""
    generator = np.random.default_rng(0)
    if name == "prim::grad_add_product":
        left, right = generator.normal(size=(200, 3)), generator.normal(size=(3, 300))
        sums = [None, np.ones((200, 300)), np.ones((2, 200, 300)), np.ones((1, 300)), np.ones((200, 300), np.float32)]
        cases = [(gradients, [left, right], left @ right) for gradients in sums]
        return [*cases, (np.ones((200, 300)), [left.T.copy().T, right[:, ::-1]], left @ right[:, ::-1])]
    part, ends = generator.normal(size=(3, 2)), (1, 1, None, 2)
    whole = np.zeros((3, 4))
    whole[:, 1::2] = part
    sums = [None, np.ones((3, 4)), np.ones((2, 3, 4)), np.ones(4), np.ones((3, 4), np.float32)]
    found = [(gradients, [part, [3, 4], *ends], whole) for gradients in sums]
    return [*found, (np.ones((3, 4)), [part[:, :1], [3, 4], -1, -1, 9, 1], np.pad(part[:, :1], ((0, 0), (3, 0))))]


CHUNKS = """
def head(x, w, chunks: int):
    rows = x.size(0) // chunks
    total = torch.zeros([], dtype=x.dtype)
    for i in range(chunks):
        total = total + torch.logsumexp(x[i * rows : (i + 1) * rows] @ w.t(), -1).sum()
    return total

def tied(x, w, chunks: int):
    rows = x.size(0) // chunks
    total = torch.zeros([], dtype=x.dtype)
    for i in range(chunks):
        piece = x[i * rows : (i + 1) * rows]
        total = total + torch.tanh(torch.tanh(piece @ w.t()) @ w).sum() + (piece[:, :2] @ w[:, :2].t()).sum()
    return total

def carried(x, w, chunks: int):
    total = x[:1] * 0
    for i in range(chunks):
        total = total + x @ w.t() @ w
    return total
"""


@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("name", ["head", "tied", "carried"])
def test_gradients_of_chunks(name: str, backend: str) -> None:
    torch = pytest.importorskip("torch")
    function = gs.CompilationUnit(CHUNKS)[name]
    names: dict[str, Any] = {"torch": torch}
    exec(CHUNKS, names)
    generator = np.random.default_rng(3)
    for rows, hidden, wide, chunks in ((6, 4, 5, 3), (4, 3, 2, 1), (66, 5, 140, 2)):
        x, w = generator.normal(size=(rows, hidden)), generator.normal(size=(wide, hidden))
        tensors = [torch.tensor(given, requires_grad=True) for given in (x, w)]
        value = names[name](*tensors, chunks)
        seed = np.asarray(generator.normal(size=tuple(value.shape)))
        expected = torch.autograd.grad(value, tensors, torch.tensor(seed))
        with gs.settings.backend(backend):
            for _ in range(2):
                given = x.copy(), w.copy()
                result, pullback = gs.vjp(function, *given, chunks)
                found = pullback(seed)[:2]
                np.testing.assert_allclose(result, value.detach().numpy(), rtol=1e-11, atol=1e-12)
                for ours, theirs in zip(found, expected, strict=True):
                    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-10, atol=1e-12)
                for array, before in zip(given, (x, w), strict=True):
                    np.testing.assert_array_equal(array, before)

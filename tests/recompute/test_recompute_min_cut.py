"""The minimum cut against every choice there is."""

from __future__ import annotations

from itertools import chain, combinations
from random import Random

import gradscript as gs
import pytest
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.fusion.fuse import pair_gradient
from gradscript.compiler.ir.node import Value
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.recompute.min_cut import Network, minimum_cut, within_budget
from gradscript.compiler.recompute.policy import is_light
from gradscript.compiler.recompute.prices import SCALE, is_fused, price, writing
from gradscript.compiler.recompute.problem import Problem
from gradscript.compiler.types.dtypes import FLOAT64
from hypothesis import given, settings
from hypothesis import strategies as st
from recompute_support import array, problem_of, shapes_of

STEPS = (
    "torch.sin({})",
    "torch.exp({} * 0.1)",
    "({} * {})",
    "({} + {})",
    "{}.sum(0)",
    "({} @ w)",
    "torch.softmax({}, 0)",
)


def program(seed: int) -> str:
    random = Random(seed)
    names, lines = ["x"], []
    for i in range(random.randint(2, 4)):
        step = random.choice(STEPS)
        operands = [random.choice(names) for _ in range(step.count("{}"))]
        if "@" in step or "sum(0)" in step:
            operands = ["x" if n.startswith("r") else n for n in operands]
        name = f"r{i}" if "sum(0)" in step else f"v{i}"
        lines.append(f"    {name} = {step.format(*operands)}")
        names.append(name)
    return "def f(x, w):\n" + "\n".join(lines) + f"\n    return ({' * '.join(names[-3:])}).sum()\n"


def cost(problem: Problem, kept: frozenset[Value]) -> int | None:
    """What it costs to keep these; None if not all that the backward uses follows from them."""
    total = sum((problem.nbytes(value) or 0) * (SCALE + writing(problem, value)) for value in kept)
    again, stack = set(), [v for v in problem.wanted if v not in kept]
    inputs = {problem.plain.f.inputs[i] for i in problem.plain.captured_inputs}
    while stack:
        value = stack.pop()
        if problem.is_input(value):
            inputs.add(value)
            continue
        if value in kept or value.node in again:
            continue
        if not problem.recomputable(value.node):
            return None
        again.add(value.node)
        total += price(problem, value.node)
        stack += problem.sources(value.node)
    return total + sum((problem.nbytes(v) or 0) * SCALE for v in inputs if v in problem.costly)


def subsets(values: list[Value]) -> chain[tuple[Value, ...]]:
    return chain.from_iterable(combinations(values, n) for n in range(len(values) + 1))


@given(st.integers(0, 100_000), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_against_every_subset(seed: int, is_round: bool, in_registers: bool) -> None:
    """In a round, the second input is state: it costs its bytes. In registers, what is kept is written too."""
    problem = problem_of(program(seed), [array(3, 3), array(3, 3, seed=1)])
    if is_round or in_registers:
        shapes, carried = shapes_of([array(3, 3), array(3, 3)]), 1 if is_round else None
        problem = Problem(problem.plain, shapes, is_light, carried, in_registers=in_registers)
    values = [v for node in problem.region for v in node.outputs if problem.nbytes(v)]
    free = [v for node in problem.region for v in node.outputs if not problem.nbytes(v)]
    if len(values) > 11:
        values = values[:11]
    costs = [cost(problem, frozenset((*s, *free))) for s in subsets(values)]
    best = min((c for c in costs if c is not None), default=None)
    chosen = cost(problem, frozenset(minimum_cut(problem)))
    assert chosen is not None
    assert best is None or chosen <= best
    if len(values) == sum(1 for n in problem.region for v in n.outputs if problem.nbytes(v)):
        assert chosen == best


def networks() -> st.SearchStrategy[tuple[int, dict[tuple[int, int], int | None]]]:
    def edges(count: int) -> st.SearchStrategy[tuple[int, dict[tuple[int, int], int | None]]]:
        vertex = st.integers(0, count - 1)
        pair = st.tuples(vertex, vertex).filter(lambda e: e[0] != e[1])
        return st.tuples(st.just(count), st.dictionaries(pair, st.none() | st.integers(0, 2**40), max_size=14))

    return st.integers(3, 7).flatmap(edges)


@given(networks())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_network_against_every_cut(case: tuple[int, dict[tuple[int, int], int | None]]) -> None:
    """The least of them, and of those the one with the fewest vertices."""
    count, edges = case
    network = Network(count=count)
    for (tail, head), capacity in edges.items():
        network.connect(tail, head, capacity)

    def cut(side: set[int]) -> int | None:
        crossing = [c for (tail, head), c in edges.items() if tail not in side and head in side]
        return None if None in crossing else sum(c for c in crossing if c is not None)

    sides = [{1, *s} for s in chain.from_iterable(combinations(range(2, count), n) for n in range(count - 1))]
    finite = [c for c in map(cut, sides) if c is not None]
    if not finite:
        with pytest.raises(ValueError):
            network.sink_side()
        return
    side = network.sink_side()
    assert cut(side) == min(finite)
    assert all(side <= other for other in sides if cut(other) == min(finite))


def test_fused_ops_move_nothing() -> None:
    """A pointwise op in front of pointwise ops costs its arithmetic; in front of a product it is written out."""
    source = "def f(x, w):\n    y = torch.sin(x)\n    z = torch.exp(y)\n    return (torch.cos(x) @ w).sum() + z.sum()\n"
    problem = problem_of(source, [array(16, 16), array(16, 16, seed=1)])
    by_kind = {node.kind: node for node in problem.nodes}
    sin, cos = by_kind["aten::sin"], by_kind["aten::cos"]
    assert is_fused(problem, sin) and not is_fused(problem, cos)
    assert price(problem, sin) < price(problem, cos)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        # A product is in memory, its sum with a bias in registers.
        ("F.gelu(x @ w + b)", ["aten::matmul"]),
        ("F.gelu((x @ w).reshape([8, 2, 4]) + b.reshape([2, 4]))", ["aten::reshape"]),
        # So is what a product takes.
        ("F.gelu(x @ w + b) * ((x @ w + b) @ w)", ["aten::add.Tensor", "aten::matmul"]),
    ],
)
def test_kernels_keep_what_is_in_memory_anyway(line: str, kept: list[str]) -> None:
    unit = gs.CompilationUnit(f"def f(x, w, b):\n    return {line}\n")
    known = [Layout.contiguous(Meta(shape, FLOAT64)) for shape in ((8, 8), (8, 8), (8,))]
    gradient = pair_gradient(differentiable_graph(unit.f.callee), known, [True] * 3)
    captured = [gradient.f.outputs[i].node.kind for i in gradient.captured_outputs]
    assert sorted(captured) == kept


def test_budget_is_kept() -> None:
    source = "def f(x):\n" + "".join(f"    x = torch.sin(x @ x) * {i}.5\n" for i in range(5)) + "    return x.sum()\n"
    from gradscript.compiler.recompute.policy import Policy

    problem = problem_of(source, [array(8, 8)], Policy("budget", 600))
    for budget in (0, 256, 600, 1500):
        saved = within_budget(problem, budget)
        assert saved is not None
        size = problem.storages.nbytes(saved)
        assert size is not None and size <= budget

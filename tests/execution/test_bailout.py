"""Special plans that are left in the middle of a graph: what runs then, and how often."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.node import Node
from gradscript.compiler.specialize.assume import BAIL_OUT
from gradscript.runtime.execution.profiling import PATIENCE, RUNS
from gradscript.runtime.plans.build import PlanBuilder
from gradscript.runtime.plans.operations import NodeFunction

pytestmark = pytest.mark.usefixtures("op_by_op")
"""What plans the interpreter makes, on whichever backend the suite runs."""

SOURCE = """
def straight(x, m):
    before = torch.exp(x)
    y = torch.masked_select(x, m)
    for i in range(y.size(0)):
        y = y + torch.sin(y[i])
    return torch.cos(y).sum() * before

def sided(x, m):
    before = torch.exp(x)
    if bool(m.any()):
        y = torch.sin(before) * 2
    else:
        y = torch.cos(before) - 1
    return y * x

def in_rounds(x, limit):
    y = torch.exp(x)
    count = 0
    for i in range(12):
        y = torch.sin(y) + x
        if bool((y[i] > limit).all()):
            count += 1
            y = torch.cos(y)
        y = y * 0.9
    return y, count

def in_a_branch(x, m, deep: bool):
    y = torch.exp(x)
    if deep:
        for i in range(2):
            y = y + torch.masked_select(y, m).sum()
            chosen = torch.masked_select(y, m)
            if chosen.size(0) > 1:
                y = torch.sin(y)
            y = y * chosen.size(0)
    return torch.cos(y)

def told(x, m):
    print("before")
    n = int(m.sum())
    print("chosen", n)
    y = x * 1
    for i in range(n):
        y = y * 2
        print("round", i)
    return y

def drawn(x, m):
    y = x + torch.rand(3)
    n = int(m.sum())
    for i in range(n):
        y = y + torch.rand(3)
    return y

def refused(x, m):
    y = torch.masked_select(x, m)
    assert y.size(0) < 3, "too many"
    return y.reshape(1, 2)
"""
X = np.array([0.5, -0.25, 1.5])
TWO, ONE = np.array([True, True, False]), np.array([False, True, False])
ALL, NONE = np.array([True] * 3), np.array([False] * 3)


@pytest.fixture
def ran() -> Iterator[Counter[str]]:
    with counted_nodes() as counts:
        yield counts


@contextmanager
def counted_nodes() -> Iterator[Counter[str]]:
    """How often each kind of node runs, in plans that are built meanwhile."""
    counts: Counter[str] = Counter()
    plain = PlanBuilder._evaluation

    def counted(planner: PlanBuilder, node: Node) -> tuple[NodeFunction, Sequence[int]]:
        evaluate, taken = plain(planner, node)

        def evaluated(*operands: Any) -> Any:
            counts[node.kind] += 1
            return evaluate(*operands)

        return evaluated, taken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlanBuilder, "_evaluation", counted)
        yield counts


@pytest.fixture
def unit(ran: Counter[str]) -> gs.CompilationUnit:
    return gs.CompilationUnit(SOURCE)


@pytest.fixture(autouse=True)
def _profiling() -> Iterator[None]:
    with gs.settings.profiling(True):
        yield


def learned(function: Callable[..., Any], *args: Any) -> None:
    """Runs until a special plan has run."""
    for _ in range(RUNS + 1):
        function(*args)
    assert BAIL_OUT in kinds()


def kinds() -> list[str]:
    return [node.kind for node in last().all_nodes()]


def last() -> Graph:
    graph = gs.compiler_debug.last_executed_graph()
    assert graph is not None
    return graph


def generally(name: str, *args: Any) -> tuple[Any, Counter[str]]:
    """What the general plan gives, and the nodes that it runs."""
    with gs.settings.profiling(False), counted_nodes() as counts:
        function = gs.CompilationUnit(SOURCE)[name]
        function(*args)
        counts.clear()
        return function(*args), Counter(counts)


LEAVING = [
    ("straight", (X, TWO), [(X, ONE), (X, ALL), (X, NONE), (2 * X, TWO)]),
    ("sided", (X, TWO), [(X, NONE), (X, ONE)]),
    ("in_rounds", (np.ones(12), np.array(2.0)), [(np.ones(12), np.array(limit)) for limit in (-2.0, 1.4, 1.3, 0.9)]),
    ("in_a_branch", (X, TWO, True), [(X, ONE, True), (X, ALL, True), (X, NONE, True)]),
]


@pytest.mark.parametrize(("name", "first", "others"), LEAVING, ids=[case[0] for case in LEAVING])
def test_it_goes_on_from_the_values_at_hand(
    unit: gs.CompilationUnit, ran: Counter[str], name: str, first: Any, others: list[Any]
) -> None:
    """Nothing is computed twice: a run that leaves runs no node more often than the general plan does."""
    learned(unit[name], *first)
    left = []
    for args in [each for other in others for each in (other, first)]:
        ran.clear()
        found = unit[name](*args)
        counts = Counter(ran)
        left.append(BAIL_OUT not in kinds())
        expected, most = generally(name, *args)
        assert_same(found, expected)
        assert not counts - most, (counts, most)
    assert any(left[::2]) and not any(left[1::2])


def test_what_runs_before_and_behind_is_each_run_once(unit: gs.CompilationUnit, ran: Counter[str]) -> None:
    learned(unit.straight, X, TWO)
    assert "prim::Loop" not in kinds()
    ran.clear()
    unit.straight(X, ONE)
    assert "prim::Loop" in kinds()
    assert (ran["aten::exp"], ran["aten::masked_select"], ran["aten::sin"], ran["aten::cos"]) == (1, 1, 1, 1)


def test_a_special_plan_has_neither_branches_nor_loops(unit: gs.CompilationUnit) -> None:
    learned(unit.sided, X, TWO)
    assert not {"prim::If", "prim::Loop"}.intersection(kinds())
    assert "aten::cos" not in kinds()


def test_effects_are_not_repeated(unit: gs.CompilationUnit, capsys: pytest.CaptureFixture[str]) -> None:
    learned(unit.told, X, TWO)
    capsys.readouterr()
    for mask, rounds in ((ALL, 3), (NONE, 0), (TWO, 2)):
        np.testing.assert_array_equal(unit.told(X, mask), X * 2**rounds)
        expected = ["before", f"chosen {rounds}", *(f"round {i}" for i in range(rounds))]
        assert capsys.readouterr().out.splitlines() == expected


def test_the_same_numbers_are_drawn() -> None:
    masks = [TWO] * (RUNS + 1) + [ALL, NONE, TWO, ONE]

    def runs() -> list[Any]:
        function = gs.CompilationUnit(SOURCE).drawn
        with gs.random.local_seed(3):
            return [function(X, mask) for mask in masks]

    with gs.settings.profiling(False):
        expected = runs()
    np.testing.assert_array_equal(runs(), expected)


def test_what_fails_behind_is_told_as_ever(unit: gs.CompilationUnit) -> None:
    learned(unit.refused, X, TWO)
    for mask in (ALL, ONE):
        with pytest.raises(gs.RuntimeFailure) as caught:
            unit.refused(X, mask)
        with gs.settings.profiling(False), pytest.raises(gs.RuntimeFailure) as plain:
            gs.CompilationUnit(SOURCE).refused(X, mask)
        assert str(caught.value) == str(plain.value)


def test_after_some_runs_in_a_row_it_learns_again(unit: gs.CompilationUnit) -> None:
    """What varies is then asked for no more, and what does not is taken for granted still."""
    learned(unit.straight, X, TWO)
    for _ in range(PATIENCE - 1):
        unit.straight(X, ONE)
    unit.straight(X, TWO)
    assert BAIL_OUT in kinds()
    for _ in range(PATIENCE):
        unit.straight(X, ONE)
    assert BAIL_OUT not in kinds()
    for mask in (TWO, ONE, ALL, NONE) * 4:
        assert_same(unit.straight(X, mask), generally("straight", X, mask)[0])
        assert BAIL_OUT not in kinds()


@pytest.mark.parametrize("road", ["vjp", "grad", "tape", "torch"])
@pytest.mark.parametrize("name", ["straight", "sided", "in_a_branch"])
def test_gradients_leave_too(road: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    function = gs.CompilationUnit(SOURCE)[name]
    summed = gs.CompilationUnit(SOURCE + SUMS)[f"sum_{name}"]
    more = (True,) if name == "in_a_branch" else ()

    def gradient(mask: Any) -> Any:
        if road == "vjp":
            return gs.vjp(function, X, mask, *more)[1](np.ones(3))[0]
        if road == "grad":
            return gs.grad(summed)(X, mask, *more)
        if road == "tape":
            variable = gs.tape.Variable(X)
            function(variable, mask, *more).sum().backward()
            return variable.grad.data  # type: ignore[union-attr]
        tensor = torch.tensor(X, requires_grad=True)
        function(tensor, torch.tensor(mask), *more).sum().backward()
        return tensor.grad.numpy()

    for mask in (TWO, TWO, TWO, TWO, ONE, ALL, NONE, TWO, ONE, ONE, ONE, ONE, ONE, ONE, TWO):
        tensor = torch.tensor(X, requires_grad=True)
        expected = torch.autograd.grad(EAGER[name](torch, tensor, torch.tensor(mask)).sum(), tensor)[0].numpy()
        np.testing.assert_allclose(gradient(mask), expected, rtol=1e-10, atol=1e-12)


SUMS = """
def sum_straight(x, m):
    return straight(x, m).sum()

def sum_sided(x, m):
    return sided(x, m).sum()

def sum_in_a_branch(x, m, deep: bool):
    return in_a_branch(x, m, deep).sum()
"""


def _straight(torch: Any, x: Any, m: Any) -> Any:
    before, y = torch.exp(x), torch.masked_select(x, m)
    for i in range(y.size(0)):
        y = y + torch.sin(y[i])
    return torch.cos(y).sum() * before


def _sided(torch: Any, x: Any, m: Any) -> Any:
    before = torch.exp(x)
    return (torch.sin(before) * 2 if bool(m.any()) else torch.cos(before) - 1) * x


def _in_a_branch(torch: Any, x: Any, m: Any) -> Any:
    y = torch.exp(x)
    for _ in range(2):
        y = y + torch.masked_select(y, m).sum()
        chosen = torch.masked_select(y, m)
        if chosen.size(0) > 1:
            y = torch.sin(y)
        y = y * chosen.size(0)
    return torch.cos(y)


EAGER = {"straight": _straight, "sided": _sided, "in_a_branch": _in_a_branch}


# --- random programs ---


class _Writer:
    """A program of two tensors in which a run decides on the way: chosen elements, counts, answers, in blocks."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["def f(x, m):", "    y = torch.exp(x)", "    n = 1"]

    def text(self) -> str:
        self.block(1, 3)
        return "\n".join([*self.lines, "    return y, n"]) + "\n"

    def block(self, depth: int, size: int) -> None:
        for _ in range(self.random.randint(1, size)):
            self.random.choice([self.op, self.pick, self.count, self.branch, self.loop])(depth)

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def op(self, depth: int) -> None:
        self.line(depth, self.random.choice(["y = torch.sin(y) + x", "y = y * 0.5 - m * 1.0", "y = torch.cos(y * n)"]))

    def pick(self, depth: int) -> None:
        condition = self.random.choice(["m", "y > 0.3", "x * y < 0.2"])
        self.line(depth, f"c = torch.masked_select(y, {condition})")
        self.line(depth, self.random.choice(["y = y + c.sum()", "n = n + c.size(0)", "y = y * (c * c.numel()).sum()"]))

    def count(self, depth: int) -> None:
        self.line(depth, self.random.choice(["n = n + int(m.sum())", "n = n + int((y > 0.1).sum()) % 2"]))

    def branch(self, depth: int) -> None:
        if depth > 2:
            return self.op(depth)
        asked = self.random.choice(["bool((y > 0.2).any())", "bool(m.all())", "n > 2", "bool(x.sum() > 0)"])
        self.line(depth, f"if {asked}:")
        self.block(depth + 1, 2)
        if self.random.random() < 0.5:
            self.line(depth, "else:")
            self.block(depth + 1, 2)
        return None

    def loop(self, depth: int) -> None:
        if depth > 2:
            return self.op(depth)
        rounds = self.random.choice(["2", "3", "n % 4", "9", "int(m.sum())"])
        self.line(depth, f"for i{depth} in range({rounds}):")
        self.block(depth + 1, 2)
        return None


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs_leave_anywhere(first: int, ran: Counter[str]) -> None:
    arguments = [(x, m) for x in (X, -X, X[::-1].copy()) for m in (TWO, ONE, ALL, NONE)]
    for seed in range(first, first + 10):
        text = _Writer(seed).text()
        function, plain = gs.CompilationUnit(text).f, gs.CompilationUnit(text).f
        order = random.Random(seed).choices(arguments, k=6)
        for args in [arguments[0]] * (RUNS + 2) + order + [order[0]] * (PATIENCE + RUNS + 1) + order:
            ran.clear()
            found = function(*args)
            counts = Counter(ran)
            with gs.settings.profiling(False):
                ran.clear()
                expected = plain(*args)
            assert_same(found, expected, text)
            assert not counts - ran, (text, counts - ran)


def assert_same(found: Any, expected: Any, text: str = "") -> None:
    """To the bit, numbers beside arrays too."""
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert_same(ours, theirs, text)
        return
    assert type(found) is type(expected), text
    np.testing.assert_array_equal(found, expected, err_msg=text)

"""Mirroring beside MXNet's pass, told again: region after region, one group at a time, in any order."""

from __future__ import annotations

import random
from collections.abc import Iterator

import gradscript as gs
import pytest
from gradscript.compiler.ir.node import Node, Value
from gradscript.compiler.ops.registry import OPS, Trait
from gradscript.compiler.recompute import Policy
from gradscript.compiler.recompute.driver import save_all
from gradscript.compiler.recompute.mirror import mirror
from gradscript.compiler.recompute.problem import Problem
from recompute_support import array, gradient_of, kept, problem_of, under

N = 8
SQUARE, ROW = array(N, N), array(N)


class Told:
    """The pass on one problem. `off` are the nodes that have left the mirror path, or never were on it."""

    def __init__(self, problem: Problem, order: random.Random) -> None:
        self.problem = problem
        self.order = order
        self.nodes = [n for n in problem.nodes if n.kind != "prim::Constant" and tensors(n.outputs)]
        self.references: dict[Value, set[object]] = {}
        for node in self.nodes:
            for value in [] if shape_only(node) else tensors(node.inputs):
                self.references.setdefault(value, set()).add(node)
        plain = problem.plain
        for value in [plain.f.inputs[i] for i in plain.captured_inputs] + problem.wanted:
            self.references.setdefault(value, set()).add("backward")
        self.off = {n for n in self.nodes if not problem.recomputable(n) or shape_only(n)}
        done: set[Node] = set()
        for node in reversed(self.nodes):
            if node not in done and node not in self.off:
                region = self.region(node)
                done |= region
                while self.push(region):
                    pass

    def region(self, start: Node) -> set[Node]:
        """All that a node shares values with, through what may be mirrored."""
        found, left = set[Node](), [start]
        while left:
            node = left.pop()
            if node not in found and node not in self.off:
                found.add(node)
                left += [v.node for v in tensors(node.inputs) if v.node in self.nodes]
                near = [*tensors(node.inputs), *node.outputs]
                left += [n for v in near for n in self.references.get(v, ()) if isinstance(n, Node)]
        return found

    def push(self, region: set[Node]) -> bool:
        """Take one group off the mirror path; False where none pays."""
        frontier = [n for n in region - self.off if all(self.is_kept(v) for v in tensors(n.inputs))]
        self.order.shuffle(frontier)
        for first in frontier:
            group = {first}
            while more := set(self.sharing(group, frontier)) - group:
                group |= more
            operands = {v for n in group for v in tensors(n.inputs)}
            released = {v for v in operands if self.references[v] <= set(frontier)}
            results = {v for n in group for v in n.outputs if self.references.get(v)}
            if self.size(released) >= self.size(results | operands - released):
                self.off |= group
                return True
        return False

    def is_kept(self, value: Value) -> bool:
        return value.node not in self.nodes or value.node in self.off

    def sharing(self, group: set[Node], frontier: list[Node]) -> Iterator[Node]:
        for node in frontier:
            if any(set(tensors(node.inputs)) & set(tensors(other.inputs)) for other in group):
                yield node

    def size(self, values: set[Value]) -> int:
        assert self.problem.known is not None
        return sum(self.problem.known[v].nbytes for v in values)

    def saved(self) -> set[Value]:
        mirrored = set(self.nodes) - self.off
        return self.problem.closure({v for n in self.problem.nodes if n not in mirrored for v in n.outputs})


def shape_only(node: Node) -> bool:
    op = OPS.of(node.schema)
    return op is not None and op.has(Trait.SHAPE_ONLY)


def tensors(values: list[Value]) -> list[Value]:
    return [v for v in dict.fromkeys(values) if str(v.type).startswith("Tensor") and v.node.kind != "prim::Constant"]


def program(seed: int) -> str:
    """Heavy and light ops on matrices and on rows, whose results are used again and again."""
    choose = random.Random(seed)
    matrices, rows, lines = ["x", "w"], ["b"], []
    for i in range(choose.randint(3, 14)):
        a, c, r = choose.choice(matrices), choose.choice(matrices), choose.choice(rows)
        text, made = choose.choice(
            [
                (f"{a} @ {c}", matrices),
                (f"torch.tanh({a})", matrices),
                (f"{a} * {c}", matrices),
                (f"{a} + {r}", matrices),
                (f"torch.exp({a}) * {r}", matrices),
                (f"{a}.sum(0)", rows),
                (f"torch.sin({r})", rows),
                (f"{a}.t()", matrices),
            ]
        )
        lines.append(f"    v{i} = {text}")
        made.append(f"v{i}")
    total = " + ".join(f"{name}.sum()" for name in [*matrices[-3:], *rows[-2:]])
    return "\n".join(["def f(x, w, b):", *lines, f"    return {total}"]) + "\n"


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_it_keeps_what_the_pass_keeps(first: int) -> None:
    for seed in range(first, first + 20):
        problem = problem_of(program(seed), [SQUARE, SQUARE, ROW], Policy("mirror"))
        found = set(tensors([*mirror(problem)]))
        for order in (0, 1):
            told = Told(problem, random.Random(order))
            assert found == set(tensors([*told.saved()])), program(seed)


def saved_names(source: str) -> tuple[set[str], set[str]]:
    problem = problem_of(source, [SQUARE, SQUARE, ROW], Policy("mirror"))
    everything, mirrored = save_all(problem), mirror(problem)
    return tuple({v.name_hint for v in values if v.name_hint} for values in (everything, mirrored))  # type: ignore[return-value]


def test_an_operand_that_nobody_else_uses_is_released() -> None:
    """The product is used by tanh alone: keeping tanh costs what it saves, and so it is kept."""
    source = "def f(x, w, b):\n    z = x @ w\n    h = torch.tanh(z)\n    return (h @ w).sum()\n"
    assert saved_names(source) == ({"h"}, {"h"})


def test_an_operand_that_others_use_counts_as_allocated() -> None:
    """The product is an operand of the result too: it is kept anyway, and tanh is computed again."""
    source = "def f(x, w, b):\n    z = x @ w\n    h = torch.tanh(z)\n    return (h @ w).sum() + (z * z).sum()\n"
    assert saved_names(source) == ({"z", "h"}, {"z"})


def test_a_row_that_is_added_is_an_operand_like_any_other() -> None:
    """Arguments count: adding the row releases the product and the row, for one matrix."""
    source = "def f(x, w, b):\n    z = x @ w\n    y = z + b\n    return (torch.exp(y) * torch.sin(y)).sum()\n"
    _, mirrored = saved_names(source)
    assert "y" in mirrored and "z" not in mirrored


def test_no_tensor_is_kept_for_its_shape() -> None:
    """The backward of `chunk` asks for the shapes of parts that lack a gradient: those are kept, and not the parts."""
    source = (
        "def f(x, w, b):\n    p, q = torch.chunk(x @ w, 2, 1)\n    return (torch.sigmoid(p) * torch.tanh(q)).sum()\n"
    )
    report = gs.CompilationUnit(source).f.memory(SQUARE, SQUARE, ROW, policy="mirror")
    half = SQUARE.nbytes // 2
    assert [value.bytes for value in report.saved if value.bytes > 64] == [half, half]
    assert report.saved_bytes < 2 * half + 64


def test_memory_reports_the_same() -> None:
    for seed in range(5):
        unit = gs.CompilationUnit(program(seed))
        arguments = [SQUARE, SQUARE, ROW]
        found = under(gradient_of(program(seed), arguments), arguments, "mirror")
        report = unit.f.memory(*arguments, policy="mirror")
        assert {value.name for value in report.saved if value.bytes} == {name for name in kept(found) if name}
        assert report.saved_bytes == found.saved_bytes

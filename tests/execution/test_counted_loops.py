"""Loops that count up and down, keep what they make in lists and read it again, beside torch on ways to gradients."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of
from gradscript.compiler.parse_ir import parse_ir
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import run_plan

PROGRAMS = 12


class Writer:
    """Writes one program. Lists are as long as the trip counts that they are named after say."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.lines: list[str] = []
        self.full: list[str] = []
        """Lists of n elements."""
        self.count = 0

    def write(self) -> str:
        for _ in range(self.draw.randint(2, 4)):
            self.statement("    ", None)
        total = " + ".join(
            ["a.sum()", "b.sum()", *[f"(torch.stack({name}).sum() if n > 0 else c.sum())" for name in self.full]]
        )
        head = ["def f(x, w, n: int):", "    a = x * 1.5", "    b = w * 0.5", "    c = x + w"]
        return "\n".join([*head, *self.lines, f"    return {total}"]) + "\n"

    def value(self, indent: str, index: str | None) -> str:
        leaves = ["a", "b", "c", "x", "w"]
        if index is not None and self.full:
            back = self.draw.choice(
                [f"n - 1 - {index}", f"n - {index} - 1", f"n - (1 + {index})", index, f"-1 - {index}"]
            )
            leaves += [f"{self.draw.choice(self.full)}[{back}]"] * 4
        first, second = (self.draw.choice(leaves) for _ in range(2))
        unary = self.draw.choice(["torch.sin({})", "torch.tanh({})", "({})", "({} * 0.5)"])
        return unary.format(f"{first} {self.draw.choice('*+-')} {second}")

    def statement(self, indent: str, index: str | None) -> None:
        kind = self.draw.choice(["set", "set", "branch", "loop", "loop", "list"])
        if kind == "set" or len(indent) > 12:
            self.lines.append(f"{indent}{self.draw.choice('abc')} = {self.value(indent, index)}")
        elif kind == "branch":
            test = self.draw.choice(["n > 2", "n % 2 == 0"] + ([f"{index} % 2 == 1", f"{index} < 3"] if index else []))
            self.lines.append(f"{indent}if {test}:")
            self.block(indent + "    ", index)
            if self.draw.random() < 0.6:
                self.lines.append(f"{indent}else:")
                self.block(indent + "    ", index)
        else:
            self.loop(indent, keeps=kind == "list" and len(indent) == 4)

    def block(self, indent: str, index: str | None) -> None:
        for _ in range(self.draw.randint(1, 2)):
            self.statement(indent, index)

    def loop(self, indent: str, *, keeps: bool) -> None:
        self.count += 1
        index, kept = (
            f"i{self.count}",
            [f"list{self.count}{k}" for k in "pq"[: self.draw.randint(1, 2)]] if keeps else [],
        )
        self.lines += [f"{indent}{name}: List[Tensor] = []" for name in kept]
        trips = self.draw.choice(["n", "n", "2", "n - 1", "max(n - 3, 0)"]) if not keeps else "n"
        self.lines.append(f"{indent}for {index} in range({trips}):")
        self.block(indent + "    ", None if trips == "2" else index)
        self.lines += [f"{indent}    {name}.append({self.draw.choice('abc')})" for name in kept]
        if not keeps and self.draw.random() < 0.2:
            self.lines.append(f"{indent}    if {index} > 4:\n{indent}        break")
        self.full += kept


def by_torch(source: str, x: Any, w: Any, n: int) -> tuple[Any, list[Any]]:
    namespace: dict[str, Any] = {"torch": torch, "List": list, "Tensor": torch.Tensor}
    exec(source, namespace)
    tensors = [torch.from_numpy(a.copy()).requires_grad_() for a in (x, w)]
    value = namespace["f"](*tensors, n)
    grads = torch.autograd.grad(value, tensors, allow_unused=True)
    return value.detach().numpy(), [np.zeros_like(x) if g is None else g.numpy() for g in grads]


def compare(seed: int, counts: Sequence[int] = (0, 1, 2, 5, 8, 9, 19)) -> None:
    source = Writer(seed).write()
    function = gs.CompilationUnit(source).f
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((2, 3)) * 0.7
    gradient = gs.value_and_grad(function, (0, 1), allow_unused=True)
    for n in counts:
        expected, grads = by_torch(source, x, w, n)
        if not all(np.isfinite(g).all() and np.abs(g).max() < 1e12 for g in grads):
            continue
        close: Any = {"rtol": 1e-9, "atol": 1e-11, "err_msg": f"{source}\nn = {n}"}
        np.testing.assert_allclose(function(x, w, n), expected, **close)
        value, ours = gradient(x, w, n)
        np.testing.assert_allclose(value, expected, **close)
        pulled = gs.vjp(function, x, w, n)[1](np.float64(1))
        leaves = [gs.tape.Variable(a) for a in (x, w)]
        function(*leaves, n).backward()
        for one, two, leaf, theirs in zip(ours, pulled, leaves, grads, strict=False):
            np.testing.assert_allclose(one, theirs, **close)
            np.testing.assert_allclose(np.zeros_like(x) if two is None else two, theirs, **close)
            np.testing.assert_allclose(np.zeros_like(x) if leaf.grad is None else leaf.grad.data, theirs, **close)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_as_torch_has_it(seed: int) -> None:
    compare(seed)


@pytest.mark.parametrize("seed", some_of([6, 9]))
def test_as_torch_has_it_in_c_where_a_list_of_open_length_has_no_gradient(seed: int) -> None:
    """On a tape the backward gives one nothing for each element of it. Each number of rounds has kernels of its own."""
    with gs.settings.backend("c"):
        compare(seed, (0, 5))


def test_rounds_that_count_back_need_no_step_for_it() -> None:
    text = """graph f(%xs : List[Tensor], %x : Tensor, %n : int):
  %always : bool = prim::Constant[value=True]()
  %one : int = prim::Constant[value=1]()
  %last : int = aten::sub.int(%n, %one)
  %y : Tensor = prim::Loop(%n, %always, %x)
    block(%i : int, %h : Tensor):
      %at : int = aten::sub.int(%last, %i)
      %1 : Tensor = aten::__getitem__.t(%xs, %at)
      %2 : Tensor = aten::sub.Tensor(%h, %1, %one)
      %3 : Tensor = aten::mul.Tensor(%2, %2)
      return (%always, %3)
  return (%y)
"""
    plan = build_plan(parse_ir(text))
    kinds = [line.split()[1] for line in str(plan).splitlines()]
    assert kinds.count("DESCEND") == kinds.count("DOWN") == kinds.count("ITEM") == 1
    # Beside the round's own ops there is nothing but its end.
    assert kinds.index("DOWN") - kinds.index("DESCEND") == 4
    x, xs = np.array([0.3]), [np.array([v]) for v in (0.1, 0.7, 0.2)]
    for n in (-1, 0, 1, 2, 3):
        y = x
        for i in range(n):
            y = (y - xs[n - 1 - i]) ** 2
        np.testing.assert_allclose(run_plan(plan, [xs, x, n])[0], y, rtol=1e-15)
    with pytest.raises(gs.RuntimeFailure, match="index 4 is out of range for a list of 3 elements"):
        run_plan(plan, [xs, x, 5])


@pytest.mark.usefixtures("op_by_op")
def test_a_failure_names_the_round_that_counts_back() -> None:
    source = """
def f(x, xs: List[Tensor], n: int):
    for i in range(n):
        x = x + xs[n - 1 - i]
    return x
"""
    function = gs.CompilationUnit(source).f
    xs = [np.ones(3), np.ones(2), np.ones(3), np.ones(3)]
    function(np.ones(3), [np.ones(3)] * 4, 4)
    graph = gs.compiler_debug.last_executed_graph()
    assert graph is not None and "DESCEND" in str(build_plan(graph))
    with pytest.raises(gs.RuntimeFailure, match="in round 3 of the loop"):
        function(np.ones(3), xs, 4)
    with pytest.raises(gs.RuntimeFailure, match="in round 11 of the loop"):
        function(np.ones(3), [np.ones(2), *[np.ones(3)] * 10], 11)

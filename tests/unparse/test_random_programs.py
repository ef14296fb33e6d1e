"""Random programs: the print means the same, and is a fixed point."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from amounts import some
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.unparse import unparse_unit
from gradscript.lang.diagnostics import CompileError
from gradscript.runtime.failures.failure import RuntimeFailure
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import run_plan
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from roundtrip import check_unit, compiled

TENSORS, INTS, OPTIONALS = ("x", "y", "z"), ("n", "m", "k"), ("p", "q")
ARGUMENTS: list[list[Any]] = [
    [np.array([0.5, -1.5]), np.array([2.0, 0.25]), n, m, p] for n in (0, 3) for m in (1, 2) for p in (None, np.ones(2))
]


class Generator:
    """Writes statements over variables that all have a value from the start."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.loops = 0

    def tensor(self, depth: int = 2) -> str:
        if not depth or self.random.random() < 0.3:
            return self.random.choice(TENSORS)
        left, right = self.tensor(depth - 1), self.tensor(depth - 1)
        forms = (
            f"({left} + {right})",
            f"({left} * {self.integer(1)})",
            f"torch.sub({left}, {right}, alpha={self.integer(0)})",
            f"torch.tanh({left})",
            f"({left} if {self.condition(1)} else {right})",
            f"({self.integer(1)} - {left})",
            f"[{left}, {right}][{self.random.choice((0, 1))}]",
        )
        return self.random.choice(forms)

    def integer(self, depth: int = 2) -> str:
        if not depth or self.random.random() < 0.3:
            return self.random.choice((*INTS, "1", "2", "-1"))
        left, right = self.integer(depth - 1), self.integer(depth - 1)
        operator = self.random.choice(("+", "-", "*"))
        forms = (f"({left} {operator} {right})", f"-{left}", f"min({left}, {right})", f"len([{left}, {right}])")
        return self.random.choice(forms)

    def condition(self, depth: int = 2) -> str:
        if not depth or self.random.random() < 0.4:
            return f"{self.integer(1)} {self.random.choice(('<', '==', '>='))} {self.integer(1)}"
        left, right = self.condition(depth - 1), self.condition(depth - 1)
        forms = (
            f"({left} and {right})",
            f"({left} or {right})",
            f"not ({left})",
            f"({self.random.choice(OPTIONALS)} is None or {right})",
            f"({self.random.choice(OPTIONALS)} is not None and {right})",
        )
        return self.random.choice(forms)

    def statements(self, depth: int, indent: str, in_loop: bool) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.statement(depth, indent, in_loop)

    def statement(self, depth: int, indent: str, in_loop: bool) -> None:
        simple = (self.assign, self.swap, self.optional, self.store)
        nested = (self.branch, self.refined, self.loop, self.repeat, self.leave)
        choice = self.random.choice((*simple, *nested) if depth else simple)
        choice(depth - 1, indent, in_loop)

    def add(self, indent: str, line: str) -> None:
        self.lines.append(indent + line)

    def assign(self, depth: int, indent: str, in_loop: bool) -> None:
        if self.random.random() < 0.5:
            self.add(indent, f"{self.random.choice(TENSORS)} = {self.tensor()}")
        else:
            self.add(indent, f"{self.random.choice(INTS)} = {self.integer()}")

    def swap(self, depth: int, indent: str, in_loop: bool) -> None:
        kind = self.random.choice((TENSORS, INTS))
        left, right = self.random.sample(kind, 2)
        self.add(indent, f"{left}, {right} = {right}, {left}")

    def optional(self, depth: int, indent: str, in_loop: bool) -> None:
        name = self.random.choice(OPTIONALS)
        value = self.random.choice((*OPTIONALS, self.tensor(1)))
        typed = "" if value in OPTIONALS else ": Optional[Tensor]"
        self.add(indent, f"{name}{typed} = {value}")

    def store(self, depth: int, indent: str, in_loop: bool) -> None:
        self.add(indent, f"items = [{self.integer(1)}, {self.integer(1)}]")
        self.add(indent, f"items.append({self.integer(1)})")
        self.add(indent, f"items[0] = {self.integer(1)}")
        self.add(indent, f"{self.random.choice(INTS)} = items[{self.random.choice((0, 1, -1))}]")

    def branch(self, depth: int, indent: str, in_loop: bool) -> None:
        self.add(indent, f"if {self.condition()}:")
        self.statements(depth, indent + "    ", in_loop)
        if self.random.random() < 0.6:
            self.add(indent, "else:")
            self.statements(depth, indent + "    ", in_loop)

    def refined(self, depth: int, indent: str, in_loop: bool) -> None:
        name = self.random.choice(OPTIONALS)
        self.add(indent, f"if {name} is not None:")
        self.add(indent, f"    {self.random.choice(TENSORS)} = {name} * {self.tensor(1)}")
        self.statements(depth, indent + "    ", in_loop)
        if self.random.random() < 0.4:
            self.add(indent, "else:")
            self.add(indent, f"    {name} = {self.random.choice(TENSORS)}")

    def loop(self, depth: int, indent: str, in_loop: bool) -> None:
        self.loops += 1
        # What is computed before may be any number.
        over = self.random.choice(("range(3)", "range(min(n, 5))", "range(1, min(m, 7), 2)", "[n, m]"))
        self.add(indent, f"for i{self.loops} in {over}:")
        self.add(indent, f"    k = k + i{self.loops}")
        self.statements(depth, indent + "    ", True)

    def repeat(self, depth: int, indent: str, in_loop: bool) -> None:
        self.loops += 1
        name = f"w{self.loops}"
        self.add(indent, f"{name} = 0")
        self.add(indent, f"while {name} < 2 and {self.condition(1)}:")
        self.add(indent, f"    {name} = {name} + 1")
        self.statements(depth, indent + "    ", True)

    def leave(self, depth: int, indent: str, in_loop: bool) -> None:
        ways = ["return x, y, n, p", "raise ValueError('stop')"] + ["break", "continue"] * (2 if in_loop else 0)
        self.add(indent, f"if {self.condition(1)}:")
        self.add(indent, f"    {self.random.choice(ways)}")


def program(random: Random) -> str:
    generator = Generator(random)
    generator.statements(3, "    ", False)
    header = ["def f(x, y, n: int, m: int, p: Optional[Tensor]):", "    z = x", "    k = 0", "    q = p"]
    return "\n".join([*header, *generator.lines, "    return x + z, y, n + k, p", ""])


@settings(max_examples=some(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
@example(83372882)
@example(17002717)
def test_random_program(seed: int) -> None:
    source = program(Random(seed))
    try:
        callees = compiled(source)
    except CompileError:
        assume(False)
    text = check_unit(source)
    again = compiled(text)
    for arguments in ARGUMENTS:
        np.testing.assert_equal(outcome(again["f"].graph, arguments), outcome(callees["f"].graph, arguments))


def outcome(graph: Graph, arguments: list[Any]) -> Any:
    try:
        return run_plan(build_plan(graph), arguments)
    except RuntimeFailure as failure:
        return str(failure).splitlines()[0]


def test_most_random_programs_compile() -> None:
    compiling = 0
    for seed in range(100):
        try:
            compiled(program(Random(seed)))
            compiling += 1
        except CompileError:
            continue
    assert compiling > 50


def test_a_print_is_printed_as_itself() -> None:
    for seed in range(20):
        try:
            callees = compiled(program(Random(seed)))
        except CompileError:
            continue
        text = unparse_unit(callees)
        assert unparse_unit(compiled(text)) == text

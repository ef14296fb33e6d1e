"""Random units of functions with closures: pairs that call other pairs and helpers, from forwards and backwards, with
branches, loops, lists, optionals, several outputs, second-order closures, names that collide when lifted, and constants
at the edges of floats.

`python tests/closures/random_pairs.py FIRST LAST` compiles the units of these seeds and prints whose text fails.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

import gradscript as gs

NUMBERS = ("1e400", "-1e400", "math.inf", "-math.inf", "math.nan", "-0.0", "0.0", "1.5", "2", "-3", "1e-320", "1e16")
SUM_LIST = """def sum_list(ts: List[Tensor]):
    total = ts[0]
    for t in ts:
        total = total + t
    return total"""
VARIABLES = ("u", "v", "w")


class Generator:
    """Writes a unit. `known` are the names that have a value where the next statement stands."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.unary = ["torch.tanh", "torch.exp"]
        self.binary = ["torch.mul"]
        self.count = 0

    def number(self) -> str:
        return self.random.choice(NUMBERS)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def tensor(self, known: list[str], depth: int = 2) -> str:
        if not depth or self.random.random() < 0.25:
            return self.random.choice(known)
        a, b = self.tensor(known, depth - 1), self.tensor(known, depth - 1)
        forms = (
            f"({a} + {b})",
            f"({a} * {self.number()})",
            f"({self.number()} - {a})",
            f"torch.where({a} > {self.number()}, {a}, {b})",
            f"({a} if {b}.sum() > {self.number()} else {b})",
            f"sum_list([{a}, {b}])",
            f"[{a}, {b}][{self.random.choice(('0', '1', '-1'))}]",
            f"F.normalize({a}, dim=0)",
            f"torch.full_like({a}, {self.number()})",
            f"({a} ** {self.random.choice(('2', '3', '-1'))})",
            f"({a} + torch.tensor({self.number()}))",
            f"{self.random.choice(self.unary)}({a})",
            f"{self.random.choice(self.unary)}({b})",
            f"{self.random.choice(self.binary)}({a}, {b})",
        )
        return self.random.choice(forms)

    def statements(self, known: list[str], indent: str, count: int) -> list[str]:
        """Statements that may define variables, which are added to `known`."""
        lines: list[str] = []
        for _ in range(count):
            own = [name for name in known if name in VARIABLES]
            write = self.random.choice((self.branch, self.loop, self.items, self.optional, None, None)) if own else None
            if write is None:
                name = self.random.choice(VARIABLES)
                lines.append(f"{name} = {self.tensor(known)}")
                if name not in known:
                    known.append(name)
            else:
                lines += write(known, self.random.choice(own))
        return [indent + line for line in lines]

    def branch(self, known: list[str], name: str) -> list[str]:
        lines = [f"if {self.tensor(known, 1)}.sum() > {self.number()}:", f"    {name} = {self.tensor(known)}"]
        return lines + (["else:", f"    {name} = {self.tensor(known, 1)}"] if self.random.random() < 0.5 else [])

    def loop(self, known: list[str], name: str) -> list[str]:
        index = self.fresh("i")
        lines = [f"for {index} in range({self.random.choice(('2', 'n'))}):", f"    {name} = {self.tensor(known)} * 0.5"]
        stop = [f"    if {name}.sum() > {self.number()}:", "        break"]
        return lines + (stop if self.random.random() < 0.3 else [])

    def items(self, known: list[str], name: str) -> list[str]:
        items = self.fresh("items")
        made = f"{items} = [{self.tensor(known, 1)} for q in range(n)]"
        return [made, f"{items}.append({name})", f"{name} = sum_list({items})"]

    def optional(self, known: list[str], name: str) -> list[str]:
        maybe = self.fresh("maybe")
        return [
            f"{maybe}: Optional[Tensor] = None",
            f"if n > {self.random.choice(('1', '2'))}:",
            f"    {maybe} = {name}",
            f"if {maybe} is not None:",
            f"    {name} = {name} + {maybe}",
        ]

    def function(self, name: str, parameters: tuple[str, ...], is_pair: bool) -> list[str]:
        known = list(parameters)
        lines = [f"def {name}({', '.join(parameters)}, n: int = 2):"]
        lines += self.statements(known, "    ", self.random.randint(1, 4))
        result = self.tensor(known)
        if not is_pair:
            return [*lines, f"    return {result}"]
        outputs = [result, *([self.tensor(known, 1)] if self.random.random() < 0.25 else [])]
        closure = self.random.choice(("backward", "backward_1", "context", "pull", f"{name}_backward"))
        lines += self.closure(closure, known, parameters, len(outputs))
        return [*lines, f"    return {', '.join(outputs)}, {closure}"]

    def closure(self, name: str, known: list[str], parameters: tuple[str, ...], outputs: int) -> list[str]:
        taken = [self.random.choice(("grad", "g", "context")), "k"][:outputs]
        # Its own variables are not those around it: a name that it assigns is local to it.
        inside = [*taken, *(n for n in known if n not in VARIABLES)]
        lines = [f"    def {name}({', '.join(taken)}):"]
        lines += self.statements(inside, "        ", self.random.randint(0, 3))
        seen = inside if any(n in VARIABLES for n in inside) else [*inside, *(n for n in known if n in VARIABLES)]
        results = [f"{taken[0]} * {self.tensor(seen)}" for _ in parameters] + ["None"]
        if self.random.random() < 0.25:
            second = ["h", "h2"][: len(parameters)]
            lines.append(f"        def inner({', '.join(second)}):")
            lines.append(f"            return {', '.join(f'h * {self.tensor(seen, 1)}' for _ in taken)}")
            results.append("inner")
        return [*lines, f"        return {', '.join(results)}"]

    def unit(self) -> str:
        parts = [SUM_LIST]
        for i in range(self.random.randint(1, 4)):
            name = self.random.choice((f"f{i}", f"p{i}", f"context_{i}", f"f{i}_backward"))
            parameters = self.random.choice((("x",), ("x",), ("x", "y")))
            lines = self.function(name, parameters, self.random.random() < 0.6)
            parts.append("\n".join(lines))
            if len(lines[-1].split(" return ")[-1].rsplit(", ", 1)) < 2 or ", k)" not in parts[-1]:
                (self.unary if len(parameters) == 1 else self.binary).append(name)
        parts.append("\n".join(self.function("main", ("x",), True)))
        return "\n\n\n".join(parts) + "\n"


def wrong(seed: int) -> Iterator[str]:
    """What texts of a unit do not hold, in words: each compiles again to itself, and the closure stage compiles."""
    unit = gs.CompilationUnit(Generator(seed).unit())
    if gs.CompilationUnit(unit.code).code != unit.code:
        yield f"seed {seed}: the unit prints otherwise"
    for name, f in unit.functions.items():
        if f.pair is None:
            continue
        lifted, closures = f.show("lifted"), f.show("closure")
        if gs.CompilationUnit(lifted).code != lifted:
            yield f"seed {seed}: the lifted text of {name} prints otherwise"
        if gs.CompilationUnit(closures)[name].schema.arguments != f.schema.arguments:
            yield f"seed {seed}: the closure stage of {name} has another signature"


def main(first: int, last: int) -> None:
    for seed in range(first, last):
        try:
            for words in wrong(seed):
                print(words, flush=True)
        except gs.CompileError as error:
            print(f"seed {seed}: {error}", flush=True)
    print(f"{last - first} units")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

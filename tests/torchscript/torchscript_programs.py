# ruff: noqa: E501 (one form a line)
"""Random programs in what TorchScript and this language share: typed lists and tuples, slices, order, loops, branches.

    text, calls = generate(seed)      the source of `f`, and arguments for it

Divisors are never zero: torch.jit.script's process dies of them.
"""

from __future__ import annotations

import random
from typing import Any

import torch

Ints, Pair, Triple = "List[int]", "Tuple[int, int]", "Tuple[int, int, int]"
SCALARS = "scalars"
"""A list of tensors of one element, which have an order."""

LEAVES: dict[str, tuple[str, ...]] = {
    "int": ("0", "1", "2", "-1", "5"),
    "float": ("0.5", "1.0", "-2.5"),
    "bool": ("True", "False"),
    "str": ("'a'", "'bc'"),
    "Tensor": ("torch.ones([3])", "torch.tensor([1.0, 2.0, 3.0])"),
    Ints: ("[1, 2, 3]", "[4, 0]", "[7]"),
    "List[float]": ("[1.5, 0.5]",),
    "List[str]": ("['b', 'a', 'c']",),
    "List[Tensor]": ("[torch.ones([3]), torch.zeros([3])]",),
    SCALARS: ("[torch.tensor(3.0), torch.tensor(1.0), torch.tensor(2.0)]",),
    "List[Tuple[int, int]]": ("[(2, 1), (1, 5), (2, 0)]",),
    "Tuple[int, float]": ("(1, 2.5)",),
    Pair: ("(3, 4)",),
    Triple: ("(3, 4, 9)",),
}
FORMS: dict[str, tuple[str, ...]] = {
    "int": (
        "({int} + {int})", "({int} * {int})", "({int} // 3)", "({int} % -3)", "len({List[int]})", "len({Tuple[int, int, int]})",
        "{List[int]}[0]", "{Tuple[int, int, int]}[-1]", "divmod({int}, -4)[0]", "({int} if {bool} else {int})", "max({int}, {int})",
        "{List[int]}.index({int})", "{List[int]}.count({int})", "{List[str]}.index({str})", "{scalars}.index(torch.tensor(1.0))",
        "{scalars}.count(torch.tensor(2.0))", "torch.jit.annotate(int, {int})", "sum({List[int]})",
    ),
    "float": ("({float} + {float})", "float({int})", "{Tuple[int, float]}[1]", "divmod({float}, 1.5)[1]", "{List[float]}[-1]"),
    "bool": (
        "({int} < {int})", "isinstance({int}, (int, float))", "isinstance({List[int]}, list)", "isinstance({Tensor}, int)",
        "({int} in {List[int]})", "(not {bool})", "({bool} and {bool})", "({List[int]} == {List[int]})", "({str} in {List[str]})",
        "({Tuple[int, int]} == {Tuple[int, int]})", "torch.jit.is_scripting()",
    ),
    "str": ("({str} + {str})", "{List[str]}[0]"),
    "Tensor": ("({Tensor} * {Tensor})", "({Tensor} + {int})", "{List[Tensor]}[-1]", "{Tensor}[slice(None, None, 1)]"),
    Ints: (
        "[{int}, {int}]", "({List[int]} + {List[int]})", "{List[int]}[1:]", "{List[int]}[slice(1, 3)]", "sorted({List[int]})",
        "[i * {int} for i in {List[int]}]", "list(range(1, 7, 2))", "torch.jit.annotate(List[int], [])", "{List[int]}.copy()",
        "[a + b for a, b in zip({List[int]}, {List[int]})]", "[i * j for i, j in enumerate({List[int]}, start=2)]",
    ),
    "List[float]": ("[{float}, {float}]", "sorted({List[float]})"),
    "List[str]": ("sorted({List[str]})", "[{str}, {str}]"),
    "List[Tensor]": ("[{Tensor}, {Tensor}]", "[t * 2 for t in {List[Tensor]}]", "{List[Tensor]}[::2]"),
    SCALARS: ("sorted({scalars})",),
    "List[Tuple[int, int]]": ("sorted({List[Tuple[int, int]]})", "list(zip({List[int]}, {List[int]}))", "list(enumerate({List[int]}))"),
    "Tuple[int, float]": ("({int}, {float})", "(({int},) + ({float},))"),
    Pair: ("({int}, {int})", "{Tuple[int, int, int]}[1:]", "{Tuple[int, int, int]}[::2]", "divmod({int}, 3)"),
    Triple: ("({Tuple[int, int]} + ({int},))",),
}  # fmt: skip
"""Ways to make a value of a type, the types of the parts in braces."""
LOOPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("for {0} in range(5, 0, -2):", ("int",)),
    ("for {0}, {1} in enumerate({List[int]}, 2):", ("int", "int")),
    ("for {0}, {1} in zip({List[int]}, {List[float]}):", ("int", "float")),
    ("for {0}, ({1}, {2}) in enumerate(zip({List[int]}, {List[int]}), start=1):", ("int", "int", "int")),
    ("for {0} in {Tuple[int, int, int]}:", ("int",)),
    ("for {0} in {List[Tensor]}:", ("Tensor",)),
)
CHANGES = ("append({int})", "sort()", "sort(reverse=True)", "reverse()", "insert(1, {int})", "extend({List[int]})")
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "int": (0, 2, -3),
    "float": (0.5, -2.0),
    "bool": (True, False),
    "Tensor": (torch.tensor([1.0, -2.0, 0.5]),),
    Ints: ([1, 2], [], [3, 1, 2, 5]),
    "List[Tensor]": ([torch.ones(3)], [torch.ones(3), torch.tensor([1.0, 2.0, 3.0])]),
    Pair: ((1, 2), (1, -4)),
}
DEEPEST = 3


class _Generator:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.variables: list[tuple[str, str]] = []
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def filled(self, form: str, depth: int) -> str:
        """The form with an expression for each type in braces."""
        head, *parts = form.split("{")
        for part in parts:
            type, _, rest = part.partition("}")
            head += self.expression(type, depth) + rest
        return head

    def expression(self, type: str, depth: int = 0) -> str:
        known = [name for name, kind in self.variables if kind == type]
        if known and (depth >= DEEPEST or self.random.random() < 0.45):
            return self.random.choice(known)
        if depth >= DEEPEST or self.random.random() < 0.2:
            return self.random.choice(LEAVES[type])
        return self.filled(self.random.choice(FORMS[type]), depth + 1)

    def statement(self, depth: int) -> list[str]:
        margin, kind = "    " * depth, self.random.random()
        if kind < 0.5 or depth > DEEPEST:
            name, type = self.fresh(), self.random.choice(list(LEAVES))
            line = f"{margin}{name} = {self.expression(type)}"
            self.variables.append((name, type))
            return [line]
        if kind < 0.65:
            name = self.fresh()
            change = self.filled(self.random.choice(CHANGES), 1)
            lines = [f"{margin}{name} = list({self.expression(Ints)})", f"{margin}{name}.{change}"]
            self.variables.append((name, Ints))
            return lines
        outside = list(self.variables)
        if kind < 0.8:
            lines = [f"{margin}if {self.expression('bool')}:", *self.block(depth + 1)]
            self.variables = list(outside)
            lines += [f"{margin}else:", *self.block(depth + 1)]
        else:
            form, types = self.random.choice(LOOPS)
            names = [self.fresh() for _ in types]
            for i, name in enumerate(names):
                form = form.replace(f"{{{i}}}", name)
            lines = [margin + self.filled(form, 1)]
            self.variables += zip(names, types, strict=True)
            lines += self.block(depth + 1)
        self.variables = outside
        return lines

    def block(self, depth: int) -> list[str]:
        changed = [name for name, type in self.variables if type == "int" and name[0] == "v"]
        lines = [f"{'    ' * depth}{self.random.choice(changed)} += {self.expression('int', 2)}"] if changed else []
        for _ in range(self.random.randint(1, 2)):
            lines += self.statement(depth)
        return lines


def generate(seed: int) -> tuple[str, list[tuple[Any, ...]]]:
    """A program of its own for each seed."""
    g = _Generator(seed)
    types = g.random.sample(list(ARGUMENTS), g.random.randint(1, 3))
    names = [f"p{i}" for i in range(len(types))]
    g.variables = list(zip(names, types, strict=True))
    lines = [f"def f({', '.join(names)}):", f"    # type: ({', '.join(types)}) -> RESULT"]
    if g.random.random() < 0.5:
        lines = [f"def f({', '.join(f'{n}: {t}' for n, t in zip(names, types, strict=True))}):"]
    for _ in range(g.random.randint(2, 5)):
        lines += g.statement(1)
    results = g.random.sample(g.variables, min(len(g.variables), 3))
    if len(lines) > 1 and "RESULT" in lines[1]:
        annotations = [type.replace(SCALARS, "List[Tensor]") for _, type in results]
        result = annotations[0] if len(results) == 1 else f"Tuple[{', '.join(annotations)}]"
        lines[1] = lines[1].replace("RESULT", result)
    lines.append(f"    return {', '.join(name for name, _ in results)}")
    calls = [tuple(g.random.choice(ARGUMENTS[type]) for type in types) for _ in range(3)]
    return "\n".join(lines) + "\n", calls

"""Writes random whole programs: the text of a function `f`, its helpers, and two calls of it of different kinds.

What it writes is valid by construction: names have one type and one shape from their first assignment on, lists are
indexed where they have something, loops end, and only tensors that nobody else holds are written into.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from expression_table import ANY_SHAPE, BROADCAST
from expression_writer import fill
from fuzzed_program import FuzzedProgram
from pair_table import PLAIN_HELPER, PairWriter
from signature_writer import SignatureWriter

WRITES = (
    "NAME += {T}",
    "NAME.mul_({T})",
    "NAME -= {float}",
    "NAME.clamp_(-1.0, 1.0)",
    "NAME[NAME > 0.3] = 0.5",
    "NAME[...] = {T}",
    "NAME.zero_()",
    "NAME.tanh_()",
)
"""Statements that write into a tensor, whatever its shape."""


@dataclass
class Helper:
    name: str
    kind: str
    """What it takes and gives: `S` and `T` are tensors, `L` a list, `O` is a tensor or None, `D` dimensions or None."""


class ProgramWriter(SignatureWriter):
    """One program: `ProgramWriter(seed).program()`; `sizes` are the numbers of statements that it may begin."""

    def __init__(self, seed: int, sizes: Sequence[int] = (1, 2, 3, 3, 4, 5)) -> None:
        super().__init__(Random(seed))
        self._lines: list[str] = []
        self._indent = 1
        self._count = 0
        self._helpers: list[Helper] = []
        self._texts: list[str] = []
        self._in_loop = False
        self._budget = self.random.choice(sizes)
        self._results: list[str] = []
        self._pairs = PairWriter(self.random)

    def program(self) -> FuzzedProgram:
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            self._helper()
        head, calls = self.signature()
        self._results = self._result_kinds()
        self._block(2)
        self._return()
        if self._pairs.uses_helper:
            self._texts.insert(0, PLAIN_HELPER.strip("\n"))
        body = [head, *self._lines]
        text = "\n\n\n".join([*self._texts, "\n".join(body)])
        return FuzzedProgram("\n".join([*calls, text, ""]))

    # --- functions ---

    def _helper(self) -> None:
        name = f"h{len(self._helpers)}"
        if self.random.random() < 0.7:
            text, kind = self._pairs.write(name)
        else:
            text, kind = self._plain(name)
        self._texts.append(text)
        self._helpers.append(Helper(name, kind))

    def _plain(self, name: str) -> tuple[str, str]:
        """A helper without a backward: a branch, a loop or an expression of what it takes."""
        one, two = (self._polymorphic("x", "w") for _ in range(2))
        bodies = (
            [f"    return {one}"],
            ["    if float(w.sum()) > 0.1:", f"        return {one}", f"    return {two}"],
            ["    y = x", "    for i in range(2):", f"        y = y * 0.5 + {one}", "    return y"],
            ["    y = x * 1", f"    y += {one}", f"    y.mul_({two})", "    return y"],
            [f"    parts = [{one}, {two}]", "    return parts[0] * parts[-1]"],
        )
        return "\n".join([f"def {name}(x, w):", *self.random.choice(bodies)]), "ST->S"

    def _polymorphic(self, x: str, w: str) -> str:
        """An expression of two names, whatever shape they have."""
        while True:
            template = self.random.choice(ANY_SHAPE)
            if not re.search(r"\{(?!S|T)", template):
                return fill(template.replace("type_as({T})", "type_as({S})"), {"S": x, "T": w}.__getitem__)

    def _result_kinds(self) -> list[str]:
        kinds = [self.random.choice(self.shapes) for _ in range(self.random.choice((1, 1, 2, 3)))]
        if self.random.random() < 0.15:
            kinds.append("list")
        if self.random.random() < 0.1:
            kinds.append("int")
        if self.random.random() < 0.1:
            kinds.append("float")
        return kinds

    def _return(self) -> None:
        self._line(f"return {', '.join(self._result(kind) for kind in self._results)}")

    def _result(self, kind: str) -> str:
        if kind == "list":
            shape = "ab" if "ab" in self.shapes else ""
            return f"[{self.tensor(shape, 1)}, {self.tensor(shape, 1)}]"
        if kind in ("int", "float"):
            return self.number(kind, 1)
        return self.tensor(kind, 1, eager=True)

    # --- statements ---

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    def _new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    @contextmanager
    def _inside(self, *, loop: bool = False) -> Iterator[None]:
        """A block of its own: what it names first is unknown after it."""
        names, in_loop = self.names, self._in_loop
        self.names, self._in_loop = names.copy(), in_loop or loop
        self._indent += 1
        yield
        self._indent -= 1
        self.names, self._in_loop = names, in_loop

    def _block(self, depth: int) -> None:
        for _ in range(self.random.choice((1, 1, 2)) if depth < 2 else self._budget):
            self._statement(depth)

    def _statement(self, depth: int) -> None:
        often = (self._assign, self._assign_again, self._call_helper) * 2
        plain = (*often, self._number_assigned, self._in_place, self._list, self._swap, self._nested, self._append)
        loops = (self._for_range, self._for_range, self._for_list, self._for_rows, self._while, self._collect)
        deep = (*loops, self._if, self._if, self._leave)
        chosen = deep if depth and self.random.random() < 0.45 else plain
        self.random.choice(chosen)(depth)

    def _assign(self, depth: int) -> None:
        shape = self.random.choice(self.shapes)
        text = self.tensor(shape, self.depth())
        name = self._new("t")
        self._line(f"{name} = {text}")
        self.names.tensors[name] = shape

    def _assign_again(self, depth: int) -> None:
        names = [name for name in self.names.tensors if name not in self.names.fixed]
        name = self.random.choice(names)
        self._line(f"{name} = {self.tensor(self.names.tensors[name], self.depth())}")

    def _number_assigned(self, depth: int) -> None:
        kind = self.random.choice(("int", "float", "bool"))
        again = [name for name, of in self.names.numbers.items() if of == kind and name not in self.names.fixed]
        if again and self.random.random() < 0.5 and kind != "bool":
            name = self.random.choice(again)
            operand = {"int": "1", "float": "0.25"}[kind]
            self._line(self.random.choice((f"{name} += {operand}", f"{name} = {self.number(kind, 1)}")))
            return
        text = self.number(kind, 2)
        name = self._new("k")
        self._line(f"{name} = {text}")
        self.names.numbers[name] = kind

    def _in_place(self, depth: int) -> None:
        """A tensor of its own, written into before anybody else holds it."""
        shape = self.random.choice(self.shapes)
        name = self._new("t")
        self._line(f"{name} = {self.tensor(shape, 1)} * 1")
        anywhere = tuple(template.replace("NAME", name) for template in WRITES)
        last = (f"{name}[..., 0] = {{float}}", f"{name}[..., :1] *= {{float}}", f"{name}[..., -1] += {{float}}")
        first = (f"{name}[0] = {{b}}", f"{name}[1:] = {{b}}", f"{name}[0] *= {{float}}")
        choices = anywhere + (last if shape in ("ab", "b") else ()) + (first * (shape == "ab" and self.is_matrix))
        for _ in range(self.random.randint(1, 2)):
            template = self.random.choice(choices)
            self._line(self.filled(template, shape, 1))
        self.names.tensors[name] = shape

    def _call_helper(self, depth: int) -> None:
        if not self._helpers:
            return self._assign(depth)
        helper = self.random.choice(self._helpers)
        shape = self.random.choice(self.shapes)
        taken, given = helper.kind.split("->")
        arguments = ", ".join(self._argument(letter, shape) for letter in taken)
        names = [self._new("t") for _ in given]
        self._line(f"{', '.join(names)} = {helper.name}({arguments})")
        for name in names:
            self.names.tensors[name] = shape
        return None

    def _argument(self, letter: str, shape: str) -> str:
        if letter == "L":
            return f"[{self.tensor(shape, 1)}, {self.tensor(shape, 1)}]"
        if letter == "D":
            return self.random.choice(("None", "[-1]", "[0]", self.given.get(("Optional[List[int]]", ""), "[]")))
        if letter == "O":
            known = self.given.get(("Optional[Tensor]", shape))
            if known and self.random.random() < 0.7:
                return known
            if self.random.random() < 0.3:
                return "None"
        return self.tensor(self.random.choice(BROADCAST[shape]) if letter in "TO" else shape, 1)

    def _list(self, depth: int) -> None:
        shape = self.random.choice(self.shapes)
        name, item = self._new("l"), self._new("e")
        known = [of for of, held in self.names.lists.items() if held == shape]
        first, second = self.tensor(shape, 1), self.tensor(shape, 1)
        forms = [f"[{first}, {second}]", f"[{first}]", f"[{first} * {item} for {item} in range(1, 3)]",
                 f"[{first} for {item} in range({self.number('int', 0)})] + [{second}]"]  # fmt: skip
        if known:
            old = self.random.choice(known)
            forms += [
                f"[{item} * 2 for {item} in {old}]",
                f"{old} + [{first}]",
                f"[{item} + {second} for {item} in {old}]",
            ]
        self._line(f"{name} = {self.random.choice(forms)}")
        self.names.lists[name] = shape

    def _append(self, depth: int) -> None:
        names = [name for name in self.names.lists if name not in self.names.fixed]
        if not names:
            return self._list(depth)
        name = self.random.choice(names)
        value = f"{self.tensor(self.names.lists[name], 1)} * 1"
        self._line(
            self.random.choice((f"{name}.append({value})", f"{name}[0] = {value}", f"{name} = [{value}] + {name}"))
        )
        return None

    def _swap(self, depth: int) -> None:
        by_shape: dict[str, list[str]] = {}
        for name, shape in self.names.tensors.items():
            if name not in self.names.fixed:
                by_shape.setdefault(shape, []).append(name)
        several = [names for names in by_shape.values() if len(names) > 1]
        if not several:
            return self._assign(depth)
        left, right = self.random.sample(self.random.choice(several), 2)
        self._line(f"{left}, {right} = {right}, {left} * 0.5")
        return None

    def _nested(self, depth: int) -> None:
        """Tuples in tuples, and lists of lists."""
        one, two = self.random.choice(self.shapes), self.random.choice(self.shapes)
        name, first, second, number = self._new("p"), self._new("t"), self._new("t"), self._new("k")
        if self.random.random() < 0.5:
            self._line(f"{name} = ({self.tensor(one, 1)}, ({self.number('int', 1)}, {self.tensor(two, 1)}))")
            self._line(f"{first}, ({number}, {second}) = {name}")
            self.names.numbers[number] = "int"
        else:
            two = one
            self._line(f"{name} = [[{self.tensor(one, 1)}, {self.tensor(one, 1)}], [{self.tensor(one, 1)}]]")
            self._line(f"{first} = {name}[0][1] * 1.0")
            self._line(f"{second} = {name}[-1][0] - {name}[0][0]")
        self.names.tensors |= {first: one, second: two}

    def _if(self, depth: int) -> None:
        """Both sides may name something new, which is known afterwards."""
        shape = self.random.choice(self.shapes)
        new = self._new("t") if self.random.random() < 0.5 else ""
        tests = ["if"] + ["elif"] * self.random.choice((0, 0, 1)) + ["else"] * bool(new or self.random.random() < 0.5)
        for word in tests:
            self._line(f"{word} {self.number('bool', 2)}:" if word != "else" else "else:")
            with self._inside():
                self._block(depth - 1)
                if new:
                    self._line(f"{new} = {self.tensor(shape, 1)}")
        if new:
            self.names.tensors[new] = shape

    def _for_range(self, depth: int) -> None:
        name = self._new("i")
        count = self.number("int", 0)
        limits = (f"min({count}, 3)", "2", "3", "1, 3", "3, 0, -1", f"min(abs({count}), 2)")
        self._line(f"for {name} in range({self.random.choice(limits)}):")
        with self._inside(loop=True):
            self.names.numbers[name] = "int"
            self.names.fixed.add(name)
            self._block(depth - 1)
            self._maybe_leave(name)

    def _for_list(self, depth: int) -> None:
        shape = self.random.choice(self.shapes)
        known = [name for name, held in self.names.lists.items() if held == shape]
        walked = self.random.choice(known) if known else f"[{self.tensor(shape, 1)}, {self.tensor(shape, 1)}]"
        item, other, index = self._new("e"), self._new("e"), self._new("i")
        forms = (
            (f"for {item} in {walked}:", {}, {}),
            (f"for {index}, {item} in enumerate({walked}):", {index: "int"}, {}),
            (
                f"for {item}, {other} in zip({walked}, [{self.tensor(shape, 1)}, {self.tensor(shape, 1)}]):",
                {},
                {other: shape},
            ),
            (f"for {item}, {index} in zip({walked}, [1, 2]):", {index: "int"}, {}),
        )
        head, numbers, tensors = self.random.choice(forms)
        self._line(head)
        with self._inside(loop=True):
            self.names.tensors |= {item: shape, **tensors}
            self.names.numbers |= numbers
            self.names.fixed |= {item, *numbers, *tensors, walked}
            self._block(depth - 1)

    def _for_rows(self, depth: int) -> None:
        if not self.is_matrix:
            return self._for_list(depth)
        item = self._new("e")
        self._line(f"for {item} in {self.tensor('ab', 1)}:")
        with self._inside(loop=True):
            self.names.tensors[item] = "b"
            self.names.fixed.add(item)
            self._block(depth - 1)
        return None

    def _while(self, depth: int) -> None:
        name = self._new("w")
        self._line(f"{name} = 0")
        more = f" and {self.number('bool', 1)}" if self.random.random() < 0.5 else ""
        self._line(f"while {name} < {self.random.choice((1, 2, 3))}{more}:")
        with self._inside(loop=True):
            self._line(f"{name} += 1")
            self.names.numbers[name] = "int"
            self.names.fixed.add(name)
            self._block(depth - 1)
            self._maybe_leave(name)

    def _maybe_leave(self, counter: str) -> None:
        if self.random.random() < 0.35:
            self._line(f"if {counter} == 1:")
            self._line(f"    {self.random.choice(('break', 'continue'))}")
            self._assign_again(0)

    def _leave(self, depth: int) -> None:
        """An early return, or a way out of the loop around."""
        self._line(f"if {self.number('bool', 1)}:")
        self._indent += 1
        if self._in_loop and self.random.random() < 0.7:
            self._line(self.random.choice(("break", "continue")))
        else:
            self._return()
        self._indent -= 1

    def _collect(self, depth: int) -> None:
        """A list that a loop fills, and what is made of it."""
        shape = self.random.choice(self.shapes)
        name, total = self._new("l"), self._new("t")
        start = self.tensor(shape, 1)
        self._line(f"{name}: List[Tensor] = []")
        self._for_range_with(depth, lambda: self._line(f"{name}.append({self.tensor(shape, 1)} * 1)"))
        self._line(f"{total} = {start}")
        self._line(f"if len({name}) > 0:")
        self._line(f"    {total} = torch.stack({name}).sum(0) * {name}[-1]")
        self.names.tensors[total] = shape

    def _for_range_with(self, depth: int, last: Callable[[], None]) -> None:
        name = self._new("i")
        self._line(f"for {name} in range({self.random.choice(('2', '3', self._bounded()))}):")
        with self._inside(loop=True):
            self.names.numbers[name] = "int"
            self.names.fixed.add(name)
            if self.random.random() < 0.6:
                self._block(depth - 1)
            last()

    def _bounded(self) -> str:
        return f"min({self.number('int', 0)}, 3)"

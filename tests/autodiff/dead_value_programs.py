"""Random programs in which control flow drops values whose derivative is infinite or NaN.

A gradient of zeros that meets such a derivative is NaN; one that is not there meets nothing. The programs are both
Python over torch and Gradscript source, of a vector of three numbers `x`, another one `y`, an int and a bool.
"""

from __future__ import annotations

from random import Random

HARMFUL = (
    "torch.sqrt({} * 0.0)",
    "(({} * 0.0) ** 0.5)",
    "(torch.sqrt({} * 0.0) + {})",
    "torch.log({} * {} * 0.0)",
    "({} / ({} * 0.0))",
    "torch.sqrt(({} * 0.0).abs().sum()) * {}",
    "(torch.sqrt({} * 0.0) * torch.sqrt({} * 0.0))",
)
HARMLESS = ("{} * {} * {}", "torch.sin({}) * {}", "torch.tanh({})", "({} - 0.5) * {}", "torch.exp({} * 0.3)")
CONDITIONS = ("b", "not b", "n > 1", "n == 0", "float(x.sum()) > 0.0", "float((x * y).sum()) > 0.1")


class Programs:
    """Makes functions whose values `u`, `v` and `w` are overwritten on some ways through."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def function(self) -> str:
        lines = [f"    {name} = {self._any('x', 'y')}" for name in ("u", "v", "w")]
        for _ in range(self._random.randint(1, 3)):
            lines += self._statement(1, 2)
        result = self._random.choice(("(u * x).sum() + v.sum()", "v.sum()", "(u * v).sum()", "(v * v * w).sum()"))
        return "\n".join(["def f(x, y, n: int, b: bool):", *lines, f"    return {result}", ""])

    def _any(self, *names: str) -> str:
        return self._of(HARMFUL if self._random.random() < 0.6 else HARMLESS, *names)

    def _of(self, templates: tuple[str, ...], *names: str) -> str:
        template = self._random.choice(templates)
        return template.format(*(self._random.choice(names) for _ in range(template.count("{}"))))

    def _name(self) -> str:
        return self._random.choice(("u", "v", "w"))

    def _statement(self, indent: int, depth: int) -> list[str]:
        makers = [self._assignment, self._conditional, self._collection, self._tuple]
        if depth:
            makers += [self._branch, self._branch, self._loop, self._early_end]
        return self._random.choice(makers)(indent, depth)

    def _assignment(self, indent: int, depth: int) -> list[str]:
        names = ("x", "y", "u", "v") if self._random.random() < 0.4 else ("x", "y")
        return [f"{'    ' * indent}{self._name()} = {self._any(*names)}"]

    def _body(self, indent: int, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self._random.randint(1, 2)):
            lines += self._statement(indent, depth)
        return [*lines, f"{'    ' * indent}{self._name()} = {self._of(HARMLESS, 'x', 'y')}"]

    def _branch(self, indent: int, depth: int) -> list[str]:
        pad = "    " * indent
        lines = [f"{pad}if {self._random.choice(CONDITIONS)}:", *self._body(indent + 1, depth - 1)]
        if self._random.random() < 0.5:
            lines += [f"{pad}else:", *self._body(indent + 1, depth - 1)]
        return lines

    def _loop(self, indent: int, depth: int) -> list[str]:
        pad = "    " * indent
        trips = self._random.choice(("n", "2", "n + 1"))
        return [f"{pad}for i{indent} in range({trips}):", *self._body(indent + 1, depth - 1)]

    def _early_end(self, indent: int, depth: int) -> list[str]:
        pad, leave = "    " * indent, self._random.choice(("break", "continue"))
        return [
            f"{pad}for j{indent} in range(3):",
            *self._body(indent + 1, depth - 1),
            f"{pad}    if j{indent} >= n:",
            f"{pad}        {leave}",
            f"{pad}    {self._name()} = {self._of(HARMLESS, 'x', 'y', 'v')}",
        ]

    def _conditional(self, indent: int, depth: int) -> list[str]:
        test = self._random.choice(CONDITIONS)
        return [
            f"{'    ' * indent}{self._name()} = {self._of(HARMLESS, 'x', 'y')} if {test} else {self._any('x', 'y')}"
        ]

    def _tuple(self, indent: int, depth: int) -> list[str]:
        pair = f"({self._any('x', 'y')}, {self._of(HARMLESS, 'x', 'y')})"
        return [f"{'    ' * indent}p{indent} = {pair}", f"{'    ' * indent}{self._name()} = p{indent}[1]"]

    def _collection(self, indent: int, depth: int) -> list[str]:
        pad, some = "    " * indent, f"l{indent}"
        grow = self._random.choice(
            (
                [f"{pad}{some} = [{self._any('x', 'y')}, {self._of(HARMLESS, 'x', 'y')}]"],
                [
                    f"{pad}{some}: List[Tensor] = [u]",
                    f"{pad}for k{indent} in range(n):",
                    f"{pad}    {some}.append({self._any('x', 'y')})",
                    f"{pad}{some}.append({self._of(HARMLESS, 'x', 'y')})",
                ],
                [
                    f"{pad}{some} = list(torch.stack([{self._any('x', 'y')}, u]).unbind(0))",
                    f"{pad}{some}.append({self._of(HARMLESS, 'x', 'y')})",
                ],
                [f"{pad}{some} = [u, v]", f"{pad}{some}[1] = {self._of(HARMLESS, 'x', 'y')}"],
                [f"{pad}{some} = [{self._of(HARMLESS, 'x', 'y')}, u]", f"{pad}{some} = {some}[::-1]"],
            )
        )
        return [*grow, f"{pad}{self._name()} = {some}[{self._random.choice(('-1', 'len(' + some + ') - 1'))}]"]

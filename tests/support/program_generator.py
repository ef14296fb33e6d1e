"""Random programs that are both Python over torch and Gradscript source."""

from __future__ import annotations

import itertools
from random import Random

UNARY = (
    "torch.sin({})",
    "torch.tanh({})",
    "torch.exp({} * 0.1)",
    "{}.relu()",
    "F.softplus({})",
    "F.gelu({})",
    "torch.softmax({}, 0)",
    "{}.cumsum(0)",
    "{}.flip(0)",
    "({} - {}.mean())",
    "{}.clamp(-0.5, 0.7)",
    "torch.log1p({} * {})",
    "{}.sort()[0]",
    "{}[:, None].expand(3, 3).sum(0)",
    "torch.cat([{}[1:], {}[:1]])",
    "torch.stack([{}, {}]).amax(0)",
    "torch.where({} > 0.1, {}, {} * 2)",
    "F.layer_norm({}, [3])",
    "{}.logsumexp(0) * {}",
    "{}[[2, 0, 1]]",
    "(2 ** {})",
    "(1.5 / (2 + {} * {}))",
    "-{}",
)
BINARY = (
    "({} + {})",
    "({} * {})",
    "({} - 0.5 * {})",
    "torch.maximum({}, {})",
    "torch.atan2({}, {} + 2.0)",
    "({} @ {}) * {}",
    "F.mse_loss({}, {}) * {}",
)
NAMES = ("x", "y")


def moderate(count: int, first: int = 0, longest: int = 620) -> list[int]:
    """The first seeds of which the programs are no longer than so many characters: `make fuzz` writes longer ones."""
    seeds = (seed for seed in itertools.count(first) if len(Programs(seed).function()) <= longest)
    return list(itertools.islice(seeds, count))


class Programs:
    """Makes functions of two vectors of three numbers and an int."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def function(self) -> str:
        body = "\n".join(self._statements(1, 2))
        return f"def f(x, y, n: int):\n{body}\n    return (x * y).sum() + x.sum()\n"

    def _expression(self, depth: int = 0) -> str:
        chance = self._random.random()
        if depth > 2 or chance < 0.3:
            return self._random.choice(NAMES)
        template = self._random.choice(UNARY if chance < 0.65 else BINARY)
        operands = [self._expression(depth + 1)] * 2
        if template in BINARY:
            operands[1] = self._expression(depth + 1)
        count = template.count("{}")
        return template.format(*(operands[i % 2] for i in range(count)))

    def _statements(self, indent: int, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self._random.randint(1, 3)):
            chance = self._random.random() if depth else 0.0
            if chance < 0.55:
                lines.append(f"{'    ' * indent}{self._random.choice(NAMES)} = {self._expression()}")
            elif chance < 0.76:
                lines += self._branch(indent, depth)
            elif chance < 0.9:
                lines += self._loop(indent, depth)
            else:
                lines += self._collection(indent)
        return lines

    def _branch(self, indent: int, depth: int) -> list[str]:
        pad, name = "    " * indent, self._random.choice(NAMES)
        test = self._random.choice((f"n > {self._random.randint(0, 4)}", f"float({name}.sum()) > 0.3"))
        lines = [f"{pad}if {test}:", *self._statements(indent + 1, depth - 1)]
        if self._random.random() < 0.6:
            lines += [f"{pad}else:", *self._statements(indent + 1, depth - 1)]
        return lines

    def _loop(self, indent: int, depth: int) -> list[str]:
        pad = "    " * indent
        trips = self._random.choice(("n", "2", "3"))
        lines = [f"{pad}for i{indent} in range({trips}):", *self._statements(indent + 1, depth - 1)]
        if self._random.random() < 0.3:
            leave = self._random.choice(("break", "continue"))
            lines += [f"{pad}    if i{indent} == 1:", f"{pad}        {leave}", f"{pad}    y = y * 0.9"]
        return lines

    def _collection(self, indent: int) -> list[str]:
        pad, name = "    " * indent, self._random.choice(NAMES)
        return [
            f"{pad}acc: List[Tensor] = []",
            f"{pad}for j{indent} in range(n):",
            f"{pad}    {name} = {self._expression()} * 0.7",
            f"{pad}    acc.append({name})",
            f"{pad}if len(acc) > 1:",
            f"{pad}    {self._random.choice(NAMES)} = torch.stack(acc).sum(0) + acc[0]",
        ]

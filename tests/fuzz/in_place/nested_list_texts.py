"""The parts of random programs over lists of lists: what there is of each kind, by a name or an expression."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

TENSOR, ROW, LIST, NESTED, PAIRS = "tensor", "row", "list", "nested", "pairs"
"""What a variable is: a square matrix, a row, a list of matrices, a list of such lists, a list of pairs of matrices."""
HELD, DUO, DEEP = "held", "duo", "deep"
"""A list of pairs of a list and a matrix, a pair of lists, and a list of lists of lists."""

HELPERS = """
def second(held: List[List[Tensor]]):
    return held[-1]


def wrapped(a, b):
    return [[a, b], [b * 1]]


def heads(lists: List[List[Tensor]]):
    return [held[0] for held in lists]


def ends(lists: List[List[Tensor]]):
    return lists[0], lists[-1]


def grown(held: List[Tensor], e):
    out = list(held)
    out.append(e)
    return out


def either(p: List[Tensor], q: List[Tensor]):
    return p if len(p) > 1 else q


def longest(lists: List[List[Tensor]]):
    best = lists[0]
    for held in lists:
        if len(held) > len(best):
            best = held
    return best


def turned(lists: List[List[Tensor]]):
    out = [lists[0]]
    for held in lists:
        out.insert(0, held)
    return out

"""


Statements = Sequence[tuple[Callable[["Program"], None], int]]
"""What writes a statement, and how often it is chosen."""


@dataclass
class Program:
    """Text in the making, and what its variables are."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    indent: int = 1
    made: int = 0
    budget: int = 24
    walked: set[str] = field(default_factory=set)
    """Variables that a loop runs over: nothing grows or shrinks inside."""
    more: Statements = ()

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def of(self, kind: str) -> str:
        return self.rng.choice([name for name, found in self.kinds.items() if found == kind])

    def bind(self, text: str, kind: str) -> None:
        """A new name, or one of the same kind bound anew."""
        if self.rng.random() < 0.35:
            name = self.of(kind)
        else:
            self.made += 1
            name = f"v{self.made}"
        if name not in self.walked:
            self.line(f"{name} = {text}")
            self.kinds[name] = kind

    def any_of(self, *texts: str) -> str:
        return self.rng.choice(texts)


def number(p: Program) -> str:
    return p.any_of("0.5", "2", "1", "-1", "0.25", "3")


def index(p: Program) -> str:
    return p.any_of("0", "0", "1", "-1")


def nested_text(p: Program) -> str:
    """A list of lists that there is."""
    return p.of(NESTED) if p.rng.random() < 0.8 else f"{p.of(DEEP)}[{index(p)}]"


def list_name(p: Program) -> str:
    """A list that there is, where it can be changed or bound."""
    return p.any_of(p.of(LIST), f"{nested_text(p)}[{index(p)}]")


def list_text(p: Program) -> str:
    """A list that there is."""
    if p.rng.random() < 0.7:
        return p.any_of(p.of(LIST), f"{nested_text(p)}[{index(p)}]", f"second({nested_text(p)})")
    return p.any_of(
        f"{p.of(HELD)}[{index(p)}][0]",
        f"{p.of(DUO)}[{p.any_of('0', '1')}]",
        f"either({list_name(p)}, {list_name(p)})",
        f"longest({nested_text(p)})",
        f"ends({nested_text(p)})[0]",
    )


def tensor_text(p: Program) -> str:
    """A tensor that there is."""
    return p.any_of(
        p.of(TENSOR),
        f"{list_text(p)}[{index(p)}]",
        f"{p.of(PAIRS)}[{index(p)}][{p.any_of('0', '1')}]",
        f"{p.of(HELD)}[{index(p)}][1]",
        f"{p.of(TENSOR)}.t()",
    )


def fresh_text(p: Program) -> str:
    return p.any_of(f"{tensor_text(p)} * 0.5", f"torch.tanh({p.of(TENSOR)})", f"{p.of(TENSOR)} + {tensor_text(p)}")


def item_text(p: Program) -> str:
    return tensor_text(p) if p.rng.random() < 0.6 else fresh_text(p)


def condition(p: Program) -> str:
    """No threshold is a number that sums and products of the others meet."""
    return p.any_of(
        f"{p.of(TENSOR)}.sum() > 0.0137",
        f"{p.of(TENSOR)}.mean() < 1.0137",
        f"{tensor_text(p)}.sum() > 0.0137",
        "x.sum() > 0.0137",
        "w.sum() > 0.0137",
        f"len({nested_text(p)}) > 2",
        f"len({list_text(p)}) > 1",
    )

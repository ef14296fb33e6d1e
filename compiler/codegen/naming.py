"""Identifiers for the values of a kernel: the formula's names where it gave any, else words for what they are."""

from __future__ import annotations

import keyword
import re

from ..fusion.kernel import Cast, Compute, Definition, Kernel, Load, Position, Reduce, Uniform

NOUNS = {
    "add": "total",
    "sub": "difference",
    "mul": "product",
    "div": "ratio",
    "neg": "negated",
    "exp": "exponential",
    "log": "logarithm",
    "sqrt": "root",
    "rsqrt": "inverse_root",
    "where": "chosen",
    "number": "indicator",
    "eq": "is_equal",
    "ne": "differs",
    "lt": "is_less",
    "le": "is_at_most",
    "gt": "is_greater",
    "ge": "is_at_least",
    "and": "both",
    "or": "either",
    "not": "opposite",
    "pow": "power",
    "abs": "magnitude",
}
REDUCTIONS = {
    "any": "found",
    "all": "holds",
    "sum": "total",
    "prod": "product",
    "max": "largest",
    "min": "smallest",
    "argmax": "position",
    "argmin": "position",
}


class Names:
    """Gives each wanted name once; a name that is taken gets a number."""

    def __init__(self, reserved: set[str]) -> None:
        self._taken = set(reserved)

    def take(self, wanted: str) -> str:
        base = re.sub(r"\W", "_", wanted, flags=re.ASCII)
        base = re.sub(r"_(\d+)$", r"\1", base) if is_anonymous(base) else base
        if not base or base[0].isdigit():
            base = f"value{base}"
        name, number = base, 0
        while name in self._taken or keyword.iskeyword(name) or keyword.issoftkeyword(name):
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


def is_anonymous(name: str) -> bool:
    """Whether the formula gave no name: numbers stand for it."""
    return not name[:1].isalpha() and not name.startswith("_")


class Variables:
    """The variables of values: loads are named after buffers, casts after what they cast. Taken once asked for."""

    def __init__(self, kernel: Kernel, names: Names) -> None:
        self._names = names
        definitions = [s for s in kernel.body if isinstance(s, Definition)]
        self._found = {s.name: names.take(s.name) for s in definitions if not is_anonymous(s.name)}
        self._words: dict[str, str] = {}
        for statement in definitions:
            self._words[statement.name] = self._found.get(statement.name) or _word(statement, self._words)

    def __getitem__(self, value: str) -> str:
        if value not in self._found:
            self._found[value] = self._names.take(self._words[value])
        return self._found[value]


def _word(statement: Definition, words: dict[str, str]) -> str:
    match statement:
        case Load():
            return statement.buffer
        case Cast() if isinstance(statement.operand, str):
            return words.get(statement.operand, statement.operand)
        case Compute():
            return NOUNS.get(statement.primitive, statement.primitive)
        case Reduce():
            return REDUCTIONS.get(statement.combine, statement.combine)
        case Position():
            return "position"
        case Uniform():
            return "uniform"
    return "value"

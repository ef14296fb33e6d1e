"""Identifiers for the values of a kernel: the formula's names where it gave any, else words for what they are."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Iterable

from ..kernel_ir.kernel import Cast, Compute, Definition, Kernel, Load, Position, Reduce, Uniform
from ..kernel_ir.statements import used_names
from ..types.dtypes import DType

_NUMBERED = re.compile(r"[a-z]?\d+")
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

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = set(reserved)

    def take(self, wanted: str) -> str:
        base = re.sub(r"\W", "_", wanted, flags=re.ASCII)
        if not base or base[0].isdigit():
            base = f"value{base}"
        name, number = base, 0
        while name in self._taken or keyword.iskeyword(name) or keyword.issoftkeyword(name):
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    def release(self, name: str) -> None:
        """Let a name be taken again: of what is over."""
        self._taken.discard(name)


def is_anonymous(name: str) -> bool:
    """Whether the formula gave no name: a number stands for it, or a keyword."""
    return _NUMBERED.fullmatch(name) is not None or keyword.iskeyword(name)


class Variables:
    """The variables of values: loads are named after buffers, casts after what they cast. Taken once asked for.

    A load that only a cast uses is absorbed: it stands in the cast, which has its name.
    """

    def __init__(self, kernel: Kernel, names: Names) -> None:
        self._names = names
        uses = Counter(name for statement in kernel.body for name in used_names(statement))
        definitions = [s for s in kernel.body if isinstance(s, Definition)]
        loads = {s.name: s for s in definitions if isinstance(s, Load) and uses[s.name] == 1}
        casts = [s for s in definitions if isinstance(s, Cast) and s.operand in loads]
        self._absorbed = {str(s.operand) for s in casts}
        given = {s.name: s.name for s in definitions if not is_anonymous(s.name)}
        given.update({s.name: _name_of_cast(s, loads[str(s.operand)]) for s in casts})
        self._words: dict[str, str] = {}
        for statement in definitions:
            self._words[statement.name] = given.get(statement.name) or _word(statement, self._words)
        self._found = {name: names.take(given[name]) for name in given if name not in self._absorbed}

    def is_absorbed(self, load: str) -> bool:
        return load in self._absorbed

    def __getitem__(self, value: str) -> str:
        """One that the kernel does not have, such as a part of a reduction, has a word of its own."""
        if value not in self._found:
            self._found[value] = self._names.take(self._words.get(value, value))
        return self._found[value]


def _name_of_cast(cast: Cast, load: Load) -> str:
    """Its own, unless that is the load's with a number."""
    base = load.buffer if is_anonymous(load.name) else load.name
    return base if is_anonymous(cast.name) or re.fullmatch(rf"{re.escape(base)}[._]?\d+", cast.name) else cast.name


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


def parameter_variable(taken: dict[tuple[str, DType], str], passed: str, names: Names, name: str, dtype: DType) -> str:
    """The variable that holds a parameter in a dtype: the one that is passed, and one more for each other dtype."""
    if (name, dtype) not in taken:
        is_known = any(other == name for other, _ in taken)
        taken[name, dtype] = names.take(f"{passed}_{dtype}") if is_known else passed
    return taken[name, dtype]

"""Writes random expressions of what has a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from expression_table import (
    ANY_SHAPE,
    BOOLS,
    BROADCAST,
    BY_SHAPE,
    FLOATS,
    INTS,
    MATRIX_ONLY,
    MATRIX_SHAPES,
    OF_X,
    SHAPES,
)

_OPERAND = re.compile(r"\{(\w*)\}")


@dataclass
class Names:
    """What can be read at a place: tensors and lists by shape, numbers by type."""

    tensors: dict[str, str] = field(default_factory=dict)
    lists: dict[str, str] = field(default_factory=dict)
    """Lists of tensors of one shape, with at least one in them."""
    numbers: dict[str, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    """Names that are not assigned again: what loops count with, what a `while` tests."""

    def copy(self) -> Names:
        return Names(dict(self.tensors), dict(self.lists), dict(self.numbers), set(self.fixed))


def fill(template: str, operand: Callable[[str], str]) -> str:
    """The template with operands for its holes."""
    return _OPERAND.sub(lambda found: operand(found[1]), template)


class ExpressionWriter:
    """Expressions of a shape or of a type of number. In a program without matrices `a` stands for any sizes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.names = Names()
        self.is_matrix = random.random() < 0.5
        self.shapes = [shape for shape in SHAPES if self.is_matrix or shape not in MATRIX_SHAPES]
        self.uses: dict[str, list[str]] = {}
        """Expressions of a program's own parameters, by the shape of what they give."""
        self.given: dict[tuple[str, str], str] = {}
        """Names of such parameters, by type and by the shape that they broadcast to."""

    def depth(self) -> int:
        return self.random.choice((1, 1, 2))

    def tensor(self, shape: str, depth: int, *, eager: bool = False) -> str:
        """An expression of a shape; `eager` prefers what was made last."""
        known = [name for name, held in self.names.tensors.items() if held == shape]
        lists = [name for name, held in self.names.lists.items() if held == shape]
        if known and (depth <= 0 or self.random.random() < (0.5 if eager else 0.3)):
            return known[-1] if eager and self.random.random() < 0.7 else self.random.choice(known)
        if lists and self.random.random() < 0.3:
            return f"{self.random.choice(lists)}[{self.random.choice(('0', '-1'))}]"
        return self.filled(self._template(shape), shape, depth - 1) if depth > 0 else OF_X[shape]

    def _template(self, shape: str) -> str:
        if self.uses.get(shape) and self.random.random() < 0.25:
            return self.random.choice(self.uses[shape])
        special = BY_SHAPE.get(shape, ()) + (MATRIX_ONLY.get(shape, ()) if self.is_matrix else ())
        if not self.is_matrix:
            special = tuple(text for text in special if not re.search(r"\{(ba|aa)\}", text))
        return self.random.choice(ANY_SHAPE if self.random.random() < 0.65 or not special else special)

    def filled(self, template: str, shape: str, depth: int) -> str:
        def operand(hole: str) -> str:
            if hole in ("int", "float", "bool"):
                return self.number(hole, depth)
            if hole == "number":
                return self.tensor("", depth)
            if hole == "S":
                return self.tensor(shape, depth)
            if hole == "T":
                return self.tensor(self.random.choice(BROADCAST[shape]), depth)
            return self.tensor(hole, depth)

        return fill(template, operand)

    def number(self, kind: str, depth: int) -> str:
        known = [name for name, of in self.names.numbers.items() if of == kind]
        if depth <= 0 or self.random.random() < 0.3:
            if kind == "bool" and not known:
                return f"{self.number('int', 0)} > 1" if self.random.random() < 0.8 else "True"
            constants = {"int": ("1", "2", "3"), "float": ("0.5", "(-1.25)", "1.5"), "bool": ("True", "False")}[kind]
            return self.random.choice(known) if known and self.random.random() < 0.7 else self.random.choice(constants)
        templates = {"int": INTS, "float": FLOATS, "bool": BOOLS}[kind]
        return self.filled(self.random.choice(templates), self.random.choice(self.shapes), depth - 1)

"""Which values are names in the text, and which are written where they are used."""

from __future__ import annotations

from collections.abc import Iterator

from ...lang.light_dataclasses import dataclass, field
from ..ir.node import Node, Value
from .uses import Uses

REPEATED = ("prim::Constant", "prim::Uninitialized")
"""Kinds that are written at each use."""


@dataclass(slots=True)
class Written:
    """The uses of values, and the nodes that are written inside the one that uses them; `Shape` decides on them."""

    uses: Uses
    inlined: set[Node] = field(default_factory=set)

    def is_variable(self, value: Value) -> bool:
        """Whether the value is written as a name."""
        return value.node not in self.inlined and value.node.kind not in REPEATED

    def leaves(self, *values: Value) -> Iterator[Value]:
        """The variables in expressions."""
        stack = list(values)
        while stack:
            value = stack.pop()
            if self.is_variable(value):
                yield value
            elif value.node in self.inlined:
                stack += value.node.inputs
                stack += (v for block in value.node.blocks for v in block.outputs)

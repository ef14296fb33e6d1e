"""What surely requires a gradient, or surely does not, whichever way a graph goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..analysis.dataflow import Dataflow
from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..ops.registry import OPS, Trait
from ..types.types import ListType, Type

WITH, WITHOUT, _EMPTY = 1, 2, 4
"""Bits: a tensor in it may be one that requires a gradient, one may be that does not; a list may have none in it."""
_TENSORS = WITH | WITHOUT
_GIVEN_ONLY = Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY


class CertainGradients(Dataflow[int]):
    """`given` says it of the inputs that may require one, `may_require` of a type whether a tensor in it may,
    `only_moves` of a node whether it makes no tensor of its own.

    Dtypes are left out: what is said of a result holds where it is a floating tensor.
    """

    def __init__(
        self,
        graph: Graph,
        given: Mapping[Value, int],
        may_require: Callable[[Type], bool],
        only_moves: Callable[[Node], bool],
    ) -> None:
        super().__init__(graph)
        self._may_require = may_require
        self._only_moves = only_moves
        self.states.update(given)

    def answers(self) -> dict[Value, bool]:
        """Whether a gradient is required, of every value of which that is certain for all tensors in it."""
        return {value: bits & _TENSORS == WITH for value, bits in self.solve().items() if bits & _TENSORS in (1, 2)}

    def made(self, node: Node) -> Iterable[tuple[Value, int]]:
        if self.hands_on(node):
            return []
        operands = [value for value in node.inputs if self._may_require(value.type)]
        if any(value not in self.states for value in operands):
            return []
        given = [self.states[value] for value in operands]
        inner = [
            (parameter, self.states[value])
            for block in node.blocks
            for parameter, value in zip(block.inputs, node.inputs, strict=False)
            if value in self.states
        ]
        bits = self._moved(given) if self._only_moves(node) else self._computed(node, operands, given)
        return [*inner, *((value, bits) for value in node.outputs if self._may_require(value.type))]

    def joined(self, value: Value, before: int | None, found: int) -> int:
        return (before or 0) | found

    def _moved(self, given: Iterable[int]) -> int:
        bits = 0
        for found in given:
            bits |= found
        return bits or _EMPTY

    def _computed(self, node: Node, operands: list[Value], given: list[int]) -> int:
        """A result requires a gradient if an operand does."""
        if OPS.has(node.schema, _GIVEN_ONLY) or not any(bits & WITH for bits in given):
            return WITHOUT
        surely = any(b == WITH and not isinstance(v.type, ListType) for v, b in zip(operands, given, strict=True))
        return WITH if surely or all(bits == WITH for bits in given) else _TENSORS

"""Which tensors have one shape, whatever their sizes: a forward analysis over sets of values.

The shape of a pointwise result is that of its operands broadcast together, and broadcasting takes no notice of order or
repetition. So a shape is a set of values whose shapes are broadcast: with y = x * w and z = y * x both have that of
{x, w}. A value of which nothing is known has a shape of its own, that of {value}. Of a list of sizes, as `x.size()` is,
it is said whose shape they are. Of a list of tensors, or of such sizes, it is said what all of them have: of one that
holds several shapes, {list}.

A loop carries a shape that all of its rounds give. What is made in a round is another value in the next one, so no
shape that speaks of it leaves the round.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ..ir.graph import Graph
from ..ir.kinds import is_loop, open_flow_of, own_parameters
from ..ir.node import PARAM, Block, Node, Value
from ..ops.registry import OPS, Trait
from ..types.types import INT_LIST, UNDEFINED, ListType, Type, is_tensor, strip_optional
from .dataflow import Dataflow

ShapeClass: TypeAlias = frozenset[Value]
_SAME = (
    *("aten::to.dtype", "aten::type_as", "aten::detach", "aten::_unrecorded_view"),
    *("aten::contiguous", "prim::unchecked_cast"),
)
"""Ops with the shape of their first operand."""
_SIZED = ("aten::expand", "aten::sum_to_size", "aten::_grad_sum_to_size", "prim::MaterializeGrad")
"""Ops with the shape that their second operand gives."""
_SIZES = ("aten::size", "prim::grad_size")
_LIST, _APPEND, _ITEM = "prim::ListConstruct", "aten::append.t", "aten::__getitem__.t"


class SameShapes(Dataflow[ShapeClass]):
    """What is said of the tensors of a graph, and of its lists of them."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        made = {value for node in graph.all_nodes() for value in (*node.outputs, *_parameters(node))}
        # A graph in the making uses values of the one that it becomes a part of.
        used = {value for node in graph.all_nodes() for value in node.inputs}
        self.states.update({value: _own(value) for value in used - made if _is_told(value.type)})

    def of(self, value: Value) -> ShapeClass:
        """The shape of a tensor."""
        return self.states.get(value) or _own(value)

    def hands_on(self, node: Node) -> bool:
        """A prim::GradOf makes zeros as well, and so gives other shapes than its block."""
        return node.kind != "prim::GradOf" and open_flow_of(node) is not None

    def hand(self, source: Value, into: Value) -> None:
        if not _is_told(into.type):
            return
        found = self.states.get(source) if _is_told(source.type) else _own(into)
        if found is not None:
            loop = _carrier(into)
            self.say(into, found if loop is None or not any(_is_inside(v, loop) for v in found) else _own(into))

    def made(self, node: Node) -> Iterable[tuple[Value, ShapeClass]]:
        if self.hands_on(node):
            return [(v, _own(v)) for block in node.blocks for v in own_parameters(block) if _is_told(v.type)]
        if (node.kind == _LIST or node.kind == _APPEND) and node.output.type != INT_LIST:
            return self._collected(node)
        outputs = [value for value in node.outputs if _is_told(value.type)]
        if any(_is_told(value.type) and value not in self.states for value in node.inputs):
            return []
        found = self._shape(node) if len(node.outputs) == 1 and outputs else None
        return [(value, found or _own(value)) for value in (*outputs, *_parameters(node))]

    def joined(self, value: Value, before: ShapeClass | None, found: ShapeClass) -> ShapeClass:
        """What a node makes follows from what is said of its operands last; what is handed on is one of several."""
        if before is None or before == found or self._is_made(value):
            return found
        return _own(value)

    def _is_made(self, value: Value) -> bool:
        node = value.node
        return node.kind != PARAM and not self.hands_on(node)

    def _collected(self, node: Node) -> Iterable[tuple[Value, ShapeClass]]:
        """A list that is put together or grows; nothing is said of one that is empty."""
        held = node.inputs if node.kind == _LIST else node.inputs[1:]
        if not _is_told(node.output.type) or any(value not in self.states for value in held):
            return []
        shapes = {self.states[value] for value in node.inputs if value in self.states}
        return [(node.output, shapes.pop() if len(shapes) == 1 else _own(node.output))] if shapes else []

    def _shape(self, node: Node) -> ShapeClass | None:
        """The shape of the only result, if it follows from those of the operands; None for one of its own."""
        if node.kind == _ITEM:
            held = self.states.get(node.inputs[0])
            return None if held is None or any(isinstance(value.type, ListType) for value in held) else held
        if node.kind in _SIZES:
            return self.of(node.inputs[0])
        if node.kind in _SAME:
            return self.of(node.inputs[0]) if is_tensor(node.inputs[0].type) else None
        if node.kind in _SIZED:
            return self.asked_for(node.inputs[1])
        op = OPS.of(node.schema)
        if op is None or not op.has(Trait.POINTWISE) or any(v.type == UNDEFINED for v in node.inputs):
            return None
        if any(is_tensor(strip_optional(v.type)) and not is_tensor(v.type) for v in node.inputs):
            # An operand that may be there or not.
            return None
        return frozenset[Value]().union(*(self.of(v) for v in node.inputs if is_tensor(v.type)))

    def asked_for(self, size: Value) -> ShapeClass | None:
        """The shape that a list of sizes is of; None if it is that of no tensor."""
        found = self.of(size)
        return found if all(is_tensor(value.type) for value in found) else None


def _own(value: Value) -> ShapeClass:
    return frozenset((value,))


def _parameters(node: Node) -> list[Value]:
    return [value for block in node.blocks for value in block.inputs]


def _is_told(type: Type) -> bool:
    """Whether something is said of values of a type: tensors, sizes, and lists of either."""
    if type == INT_LIST or is_tensor(type):
        return True
    return isinstance(type, ListType) and (type.element == INT_LIST or is_tensor(type.element))


def _carrier(value: Value) -> Node | None:
    """The loop of which a value is the output, or a parameter from the second round on."""
    node: Node | None = value.node
    if node is not None and node.kind == PARAM:
        node = node.holder
    return node if node is not None and is_loop(node) else None


def _is_inside(value: Value, loop: Node) -> bool:
    """Whether each round of a loop has a value of its own."""
    block: Block | None = value.node.owner
    while block is not None and block.node is not None:
        if block.node is loop:
            return True
        block = block.node.owner
    return False

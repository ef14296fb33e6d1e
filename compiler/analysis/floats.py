"""Which tensors are of floats for sure, in a graph whose gradient is asked for: of ints nobody asks for one.

    %y : Tensor = aten::mul.Tensor(%x, %w)
    %d : int = prim::dtype(%x)
    %z : Tensor = aten::to.dtype(%y, %d)        %z, which is returned, is of floats, and so is %x, of its dtype

So are what has the dtype of another that is, to whichever side, and what an op gives for operands of which one is. Of
what dtype a result is, the op's own rule tells, asked with operands of floats and of ints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..ir.graph import Graph
from ..ir.kinds import is_loop
from ..ir.node import Node, Value
from ..ops.registry import OPS, Op, Trait
from ..types.dtypes import FLOAT32, INT64, DType
from ..types.types import NONE, TensorType, Type, is_tensor

_CAST, _DTYPE = "aten::to.dtype", "prim::dtype"
_LIKE = ("aten::type_as", "aten::to.other")
"""Casts to the dtype of their second operand."""
_RANK = 3
"""Of all operands alike: those without dimensions count less in promotion, but never make ints of floats."""
_SWEEPS = 3
"""Of all nodes, within which nearly all is found; what is found is right after each."""


def asks_for_a_dtype(graph: Graph) -> bool:
    """Whether anything is brought to the dtype of a tensor, so that it matters what is known of that."""
    return any(_brought_to(node) is not None for node in graph.all_nodes())


def _brought_to(node: Node) -> Value | None:
    """The tensor to whose dtype a cast brings another."""
    if node.kind in _LIKE:
        return node.inputs[1]
    if node.kind == _CAST and node.inputs[1].node.kind == _DTYPE:
        return node.inputs[1].node.inputs[0]
    return None


class Floats:
    """`given` are of floats for sure. `asked` are results, of each of which a gradient is given if it is of floats.

    Of results of one dtype that is certain wherever a gradient is: of two, one may be of ints, and the other's gradient
    comes back to what has the dtype of the first.
    """

    def __init__(self, graph: Graph, given: Collection[Value], asked: Sequence[Value] = ()) -> None:
        self._same: dict[Value, Value] = {}
        self._floating: set[Value] = set()
        nodes = list(graph.all_nodes())
        for node in nodes:
            if (other := self._of_one_dtype(node)) is not None:
                self.join(node.output, other)
        for node in reversed(nodes):
            if is_loop(node):
                self._join_carried(node)
        typed = [value for node in nodes for value in node.outputs if _is_typed(value)]
        self._floating.update(self._class(value) for value in (*given, *typed))
        if all(is_tensor(value.type) for value in asked) and len({self._class(value) for value in asked}) == 1:
            self._floating.add(self._class(asked[0]))
        for _ in range(_SWEEPS):
            before = len(self._floating)
            self._floating.update(self._class(value) for node in nodes for value in self._follows(node))
            if len(self._floating) == before:
                break

    def __contains__(self, value: Value) -> bool:
        return _is_typed(value) or self._class(value) in self._floating

    def _class(self, value: Value) -> Value:
        """The value that stands for all of its dtype."""
        while (above := self._same.get(value)) is not None:
            value = above
        return value

    def join(self, one: Value, other: Value) -> None:
        """Say that two are of one dtype."""
        one, other = self._class(one), self._class(other)
        if one is not other:
            self._same[one] = other
            if one in self._floating:
                self._floating.add(other)

    def _join_carried(self, node: Node) -> None:
        """What each round gives in the dtype that it was given has that of the first and of the last."""
        (block,) = node.blocks
        carried = zip(node.inputs[2:], block.inputs[1:], block.outputs[1:], node.outputs, strict=True)
        for first, given, made, last in carried:
            if is_tensor(first.type) and self._class(given) is self._class(made):
                self.join(first, given)
                self.join(last, given)

    def _of_one_dtype(self, node: Node) -> Value | None:
        """The value whose dtype the result has, whatever that is."""
        if node.kind == _CAST or node.kind in _LIKE:
            return _brought_to(node)
        op = OPS.of(node.schema)
        if op is None or not node.inputs or len(node.outputs) != 1 or op.has(Trait.NONDIFFERENTIABLE):
            return None
        first = node.inputs[0]
        if not is_tensor(first.type) or not is_tensor(node.output.type):
            return None
        like = [is_tensor(value.type) and self._class(value) is self._class(first) for value in node.inputs]
        for own, others in ((INT64, FLOAT32), (FLOAT32, INT64)):
            if _result(op, node, [own if is_like else others for is_like in like]) != own:
                return None
        return first

    def _follows(self, node: Node) -> Iterator[Value]:
        """Outputs that are of floats because operands are."""
        if node.kind == "prim::If":
            for output, *made in zip(node.outputs, *(block.outputs for block in node.blocks), strict=True):
                if is_tensor(output.type) and all(value in self for value in made):
                    yield output
        op = OPS.of(node.schema)
        if op is not None and len(node.outputs) == 1 and is_tensor(node.output.type):
            operands = [FLOAT32 if is_tensor(v.type) and v in self else INT64 for v in node.inputs]
            found = _result(op, node, operands)
            if found is not None and found.is_floating:
                yield node.output


def _is_typed(value: Value) -> bool:
    dtype = value.type.dtype if isinstance(value.type, TensorType) else None
    return dtype is not None and dtype.is_floating


def _is_told_a_dtype(op: Op, node: Node) -> bool:
    arguments = zip(op.schema.arguments, node.inputs, strict=True)
    return any(argument.name == "dtype" and value.type != NONE for argument, value in arguments)


def _result(op: Op, node: Node, operands: list[DType]) -> DType | None:
    """The dtype of the result for tensors of such dtypes; None where the types of operands do not tell."""
    if op.result is None or node.kind in _LIKE or _is_told_a_dtype(op, node):
        return None
    types: list[Type] = [
        TensorType(dtype=dtype, rank=_RANK) if is_tensor(value.type) else value.type
        for value, dtype in zip(node.inputs, operands, strict=True)
    ]
    found = op.result_types(types)[0]
    return found.dtype if isinstance(found, TensorType) else None

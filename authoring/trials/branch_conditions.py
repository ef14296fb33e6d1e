"""What decides a branch: nothing that arguments say, numbers of dimensions, sizes of nothing, or more than that.

Where nothing that a caller gives can turn a branch, the other side is no gap in what was tried.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node, Value
from ...compiler.types.types import TensorType

MAX_RANK = 4
"""Numbers of dimensions are gone through up to this: a branch on a larger one is decided by more."""

RANKS, NOTHING, MORE = "ranks", "nothing", "more"


class Decided:
    """By node of a function's forward and backward, what decides a branch."""

    def __init__(self, forward: Graph, backward: Graph | None) -> None:
        self._context: dict[Value, Value] = {}
        """By value that the backward unpacks, what the forward put there."""
        self._inputs = {*forward.inputs, *(backward.inputs if backward is not None else ())}
        packed = forward.outputs[-1].node if backward is not None and forward.outputs else None
        if backward is None or packed is None or packed.kind != "prim::TupleConstruct":
            return
        for use in backward.inputs[0].uses:
            if use.user.kind == "prim::TupleUnpack":
                self._context.update(zip(use.user.outputs, packed.inputs, strict=True))

    def by(self, node: Node) -> frozenset[str]:
        """The kinds of what decides a branch: none where nothing that a caller gives does."""
        found: set[str] = set()
        pending, seen = [node.inputs[0]], {node.inputs[0]}
        while pending:
            value = pending.pop()
            kind = self._kind(value)
            if kind is not None:
                found.add(kind)
                continue
            following = [v for v in self._made_of(value) if v not in seen]
            pending += following
            seen.update(following)
        return frozenset(found)

    def _kind(self, value: Value) -> str | None:
        node = value.node
        name = node.schema.full_name if node.schema is not None else node.kind
        if value in self._inputs or isinstance(value.type, TensorType):
            return MORE
        if name == "aten::dim" or (name == "aten::len.t" and node.inputs[0].node.kind == "aten::size"):
            return RANKS
        if name == "aten::eq.int_list" and any(_is_nothing(v) for v in node.inputs):
            return NOTHING
        given = node.attrs.get("value") if node.kind == "prim::Constant" else None
        return MORE if isinstance(given, int) and not isinstance(given, bool) and _is_a_high_rank(given) else None

    def _made_of(self, value: Value) -> Iterator[Value]:
        node = value.node
        if value in self._context:
            yield self._context[value]
        elif node.kind == "prim::If":
            yield node.inputs[0]
            yield from (block.outputs[value.index] for block in node.blocks)
        elif node.kind == "prim::Loop":
            (block,) = node.blocks
            yield from (
                *node.inputs[:2],
                node.inputs[value.index + 2],
                block.outputs[0],
                block.outputs[value.index + 1],
            )
        elif node.owner is not None and value in node.owner.inputs and node.holder is not None:
            yield from self._of_loop(value, node.holder)
        else:
            yield from node.inputs

    def _of_loop(self, value: Value, loop: Node) -> Iterator[Value]:
        """Of what a loop's block is given: how many rounds there are, and what a round leaves to the next."""
        (block,) = loop.blocks
        yield from (*loop.inputs[:2], block.outputs[0])
        number = list(block.inputs).index(value)
        if number:
            yield from (loop.inputs[number + 1], block.outputs[number])


def _is_nothing(value: Value) -> bool:
    """Whether a value is the size of a tensor of one dimension without elements, as a literal."""
    node = value.node
    literal = node.attrs.get("value") if node.kind == "prim::Constant" else None
    if node.kind == "prim::ListConstruct" and len(node.inputs) == 1:
        literal = [node.inputs[0].node.attrs.get("value")]
    return literal == [0]


def _is_a_high_rank(number: int) -> bool:
    return MAX_RANK < number < 64

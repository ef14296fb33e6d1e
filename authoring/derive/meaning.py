"""Whether two pairs compute the same, whatever their values are called: a value is numbered by what it is made of."""

from __future__ import annotations

from collections.abc import Hashable

from ...compiler.ir.graph import GradPair, Graph
from ...compiler.ir.kinds import KindTrait, has
from ...compiler.ir.node import PARAM, RETURN, Node, Value
from ...compiler.ir.printer import constant_text
from ...compiler.ir.rewrite import is_commutative, program_order
from ...compiler.ops.registry import OPS, Trait
from ...compiler.passes.inline_functions import inline_functions


def same_meaning(left: GradPair, right: GradPair) -> bool:
    """Whether both halves of two pairs return the same, made in the same way, and those of their backwards."""
    numbers: dict[Hashable, int] = {}
    mine, other = left.graphs, right.graphs
    if len(mine) != len(other):
        return False
    return all(
        _Numbered(one, numbers).results == _Numbered(two, numbers).results for one, two in zip(mine, other, strict=True)
    )


class _Numbered:
    """The values of one graph; `known` are the numbers of what has been met, here or in another graph."""

    def __init__(self, graph: Graph, known: dict[Hashable, int]) -> None:
        self._known = known
        self._numbers: dict[Value, int] = {}
        self._effects = 0
        whole = graph.copy()
        while inline_functions(whole):
            pass
        for node in program_order(whole):
            self._enter(node)
        self.results = [self._numbers[value] for value in whole.outputs]

    def _enter(self, node: Node) -> None:
        holder = node.holder
        if node.kind == PARAM:
            self._number(node, ("parameter", *self._place(node, holder)))
        elif node.kind == RETURN:
            if holder is not None and node.owner is holder.blocks[-1]:
                self._number(holder, self._key(holder))
        elif not node.blocks:
            self._number(node, self._key(node))

    def _place(self, node: Node, holder: Node | None) -> tuple[Hashable, ...]:
        """Where a block's parameters are from; a graph's own are those of no node."""
        if holder is None or node.owner is None:
            return ()
        return holder.blocks.index(node.owner), holder.kind, *map(self._numbers.__getitem__, holder.inputs)

    def _key(self, node: Node) -> tuple[Hashable, ...]:
        """What is the same of two nodes that give the same."""
        inputs = [self._numbers[value] for value in node.inputs]
        if is_commutative(node):
            inputs[:2] = sorted(inputs[:2])
        attrs = tuple((name, constant_text(value)) for name, value in sorted(node.attrs.items()))
        blocks = tuple(tuple(self._numbers[value] for value in block.outputs) for block in node.blocks)
        types = tuple(value.type for value in node.outputs)
        return node.kind, tuple(inputs), attrs, blocks, types, self._turn(node)

    def _turn(self, node: Node) -> int:
        """Which of the nodes it is that are not the same each time they run; 0 for others."""
        op = OPS.of(node.schema)
        acts = has(node, KindTrait.EFFECT) if op is None else bool(op.traits & (Trait.RANDOM | Trait.SIDE_EFFECT))
        self._effects += acts
        return self._effects if acts else 0

    def _number(self, node: Node, key: tuple[Hashable, ...]) -> None:
        for i, value in enumerate(node.outputs):
            self._numbers[value] = self._known.setdefault((*key, i), len(self._known))

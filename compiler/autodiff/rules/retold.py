"""Numbers of a round that follow from its index and from what stands around the loop: told again, not kept.

    for i in range(n):                    for j in range(n):                  the backward, with i = n - 1 - j
        y = y * xs[i + 1]                     i = n - 1 - j
                                              g = torch._set_item(…, i + 1, …)

A list of them would hold one for each round; what is at its places nobody could tell before it is filled, and which
place of `xs` a round's gradient belongs to is to be known before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...ir.node import Block, Node, Value
from ...ir.rewrite import CONSTANT
from ...ops.registry import OPS, Trait
from ...types.types import BOOL, FLOAT, INT, Type, leaf_of

_NUMBERS = (INT, FLOAT, BOOL)
_PICKS = "aten::__getitem__.t"


def retold(block: Block, given: Iterable[Value], wanted: Mapping[int, Value]) -> tuple[list[Node], set[int]]:
    """The nodes of a round's body that tell wanted numbers from given values, in order, and which wanted ones they
    tell."""
    told = set(given)
    by_round: dict[Value, Node] = {}
    for node in block.nodes:
        if _tells_numbers(node) and told.issuperset(node.inputs):
            told.update(node.outputs)
            by_round.update(dict.fromkeys(node.outputs, node))
    found = {i for i, value in wanted.items() if value in by_round}
    needed: set[Node] = set()
    pending = [wanted[i] for i in found]
    while pending:
        teller = by_round.get(pending.pop())
        if teller is not None and teller not in needed:
            needed.add(teller)
            pending += teller.inputs
    return [node for node in block.nodes if node in needed], found


def _tells_numbers(node: Node) -> bool:
    """Whether a node makes a number in a few steps, the same ones whenever it is asked."""
    if node.kind == CONSTANT:
        return node.output.type in _NUMBERS
    op = OPS.of(node.schema)
    if op is None or op.has(Trait.RANDOM | Trait.SIDE_EFFECT) or node.blocks or not node.inputs:
        return False
    if node.kind == _PICKS:
        return holds_numbers(node.output.type)
    return all(value.type in _NUMBERS for value in (*node.inputs, *node.outputs))


def holds_numbers(type: Type) -> bool:
    """Whether values of a type are numbers, or lists of them."""
    return leaf_of(type) in _NUMBERS

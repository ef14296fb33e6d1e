"""Which of what a loop carries has a gradient in some round, found without differentiating a round.

Values are followed from those that have one along their uses, as the forward half goes through them. What is found is a
start: the gradient of the round says what holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...analysis.captures import captures
from ...ir.kinds import entering, handed_to, open_flow_of
from ...ir.node import RETURN, Block, Node, Value, walk
from ...types.types import is_differentiable

GradientResults = Callable[[Node, set[Value]], Iterable[Value]]
"""Of a node without blocks: the outputs that have a gradient, where these of its operands have one."""


def active_state(loop: Node, active: set[Value], results: GradientResults) -> list[bool]:
    """Of each value that a loop carries, whether it has a gradient in some round."""
    (block,) = loop.blocks
    parameters = block.inputs[1:]
    found = {p for p, value in zip(parameters, entering(loop), strict=True) if value in active}
    found |= {value for value in captures(block) if value in active}
    follow_active(block, found, results)
    return [p in found for p in parameters]


def follow_active(block: Block, found: set[Value], results: GradientResults) -> None:
    """Add to the values found what follows from them in a block."""
    inside = set(walk(block.nodes))
    untold = list(found)
    while untold:
        for use in untold.pop().uses:
            user = use.user
            node = user.holder if user.kind == RETURN else user
            if node is None or (node not in inside and user is not block.ret):
                continue
            is_handed_on = user.kind == RETURN or open_flow_of(node) is not None
            for value in handed_to(user, use.index) if is_handed_on else results(node, found):
                if value not in found and is_differentiable(value.type):
                    found.add(value)
                    untold.append(value)

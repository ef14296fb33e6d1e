"""What rounds of a loop ask of their number."""

from __future__ import annotations

from ..ir.node import Block, Node, Value


def position_counted_back(body: Block) -> Node | None:
    """Where a round looks at its number for nothing but how far it is from one that all rounds have: that node.

    %position : int = aten::sub.int(%last, %i), as the backward of a loop has it
    """
    (index, *_) = body.inputs
    if index.use_count != 1:
        return None
    (use,) = index.uses
    node = use.user
    counted_back = node.kind == "aten::sub.int" and use.index == 1 and node.owner is body
    return node if counted_back and _is_outside(node.inputs[0], body) else None


def _is_outside(value: Value, body: Block) -> bool:
    block = value.node.owner
    while block is not None and block is not body:
        block = block.node.owner if block.node is not None else None
    return block is None

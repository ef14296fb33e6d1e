"""What a block uses of what stands around it."""

from __future__ import annotations

from ..ir.node import Block, Node, Value, walk


def captures(block: Block) -> list[Value]:
    """Values from outside that a block uses, in order of first use; constants left out."""
    inside = {block.param, block.ret, *walk(block.nodes)}
    inner_blocks = [b for node in walk(block.nodes) for b in node.blocks]
    inside.update(b.param for b in inner_blocks)
    found: dict[Value, None] = {}
    for value in used_values(block):
        if value.node not in inside and value.node.kind != "prim::Constant":
            found[value] = None
    return list(found)


def used_values(block: Block) -> list[Value]:
    """Every input of every node inside, block results included, in program order."""
    used: list[Value] = []
    stack: list[Node | Block] = [block]
    while stack:
        item = stack.pop()
        if isinstance(item, Node):
            used += item.inputs
            stack += reversed(item.blocks)
        else:
            stack.append(item.ret)
            stack += reversed(list(item.nodes))
    return used

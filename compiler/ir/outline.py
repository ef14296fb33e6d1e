"""A stretch of nodes as the block of one node, which is given what they use and gives what others use of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...lang.source import Span
from .builder import Builder
from .node import Block, Node, Value, copy_node


def outline(
    block: Block,
    members: Sequence[Node],
    kind: str,
    attrs: dict[str, Any] | None = None,
    *,
    repeated: Callable[[Node], bool],
    span: Span,
) -> Node:
    """A node of a kind around nodes that are in no list now, at the end of a block.

    What they use from outside becomes its inputs; a constant, or what else is `repeated`, it has for itself.
    """
    group = Builder(block, span=span).node(kind, blocks=1, attrs=attrs)
    (body,) = group.blocks
    for node in members:
        body.append(node)
    inside = dict.fromkeys(_inside(members))
    env: dict[Value, Value] = {}
    for node in inside:
        for index, value in enumerate(node.inputs):
            if value.node not in inside:
                if value not in env:
                    env[value] = _taken_in(group, value, members[0], repeated)
                node.set_input(index, env[value])
    for value in [value for node in members for value in node.outputs]:
        outer = [use for use in value.uses if use.user not in inside and use.user is not body.ret]
        if outer:
            body.ret.add_input(value)
            result = group.add_output(value.type, value.name_hint)
            for use in outer:
                use.user.set_input(use.index, result)
    return group


def _taken_in(group: Node, value: Value, first: Node, repeated: Callable[[Node], bool]) -> Value:
    """A value from outside as the block sees it: a parameter, or one of its own in front of all."""
    if repeated(value.node):
        return copy_node(value.node, {}, lambda node: node.insert_before(first)).outputs[value.index]
    group.add_input(value)
    return group.blocks[0].add_input(value.type, value.name_hint)


def _inside(members: Sequence[Node]) -> Iterator[Node]:
    """The nodes with all in their blocks, what stands for their parameters and results included."""
    pending = list(members)[::-1]
    while pending:
        node = pending.pop()
        yield node
        for block in reversed(node.blocks):
            pending.append(block.ret)
            pending += list(block.nodes)[::-1]
            pending.append(block.param)

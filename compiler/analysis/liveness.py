"""Where each value is used for the last time, block by block.

A value dies at a node of the block that defines it. If that node holds blocks, what happens inside is decided by
the table of the inner block in turn: it may die there, or at the entry of a branch that does not use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ...lang.light_dataclasses import dataclass
from ..ir.graph import Graph
from ..ir.kinds import KindTrait, kinds_with
from ..ir.node import Block, Node, Value

ALIASES = kinds_with(KindTrait.SAME_VALUE)
CONSTANTS = kinds_with(KindTrait.KNOWN)


@dataclass(frozen=True, slots=True)
class Liveness:
    """`last[block][value]` is the node of `block` that uses the value last, itself or by what is inside it."""

    last: dict[Block, dict[Value, Node]]
    deaths: dict[Node, list[Value]]
    aliases: dict[Value, Value]

    def resolve(self, value: Value) -> Value:
        """The value that stands for this one at run time."""
        return self.aliases.get(value, value)

    def used_in(self, block: Block, value: Value) -> bool:
        return value in self.last.get(block, ())


def analyse(graph: Graph) -> Liveness:
    """The last uses in a graph without closures."""
    last: dict[Block, dict[Value, Node]] = {}
    aliases: dict[Value, Value] = {}
    for node in _in_order(graph.body):
        if node.kind in ALIASES:
            (source,) = node.inputs
            aliases[node.output] = aliases.get(source, source)
        else:
            _record(node, aliases, last)
    deaths: dict[Node, list[Value]] = {}
    for table in last.values():
        for value, node in table.items():
            deaths.setdefault(node, []).append(value)
    return Liveness(last, deaths, aliases)


def _in_order(body: Block) -> Iterator[Node]:
    """Every node and every block's Return, each block's after the nodes inside it and before what follows."""
    stack: list[Iterator[Node]] = [chain(body.nodes, (body.ret,))]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        yield node
        stack += [chain(block.nodes, (block.ret,)) for block in reversed(node.blocks)]


def _record(node: Node, aliases: dict[Value, Value], last: dict[Block, dict[Value, Node]]) -> None:
    """Note the uses at `node` in its block and in those around it, up to the one that defines the value."""
    for used in node.inputs:
        value = aliases.get(used, used)
        if value.node.kind in CONSTANTS:
            continue
        home, user = value.node.owner, node
        while True:
            block = user.owner
            assert block is not None
            table = last.setdefault(block, {})
            if table.get(value) is user:
                break
            table[value] = user
            if block is home or block.node is None:
                break
            user = block.node

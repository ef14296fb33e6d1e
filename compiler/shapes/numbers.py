"""Numbers that a loop carries, after its rounds: followed by themselves, without the tensors.

for i in range(1000):
    n = n + x.size(0)      n grows by as much in each round: 1000 * 3 in all, and likewise in loops inside loops
    k = (k * 2 + i) % 7    k follows from itself and the index: 1000 rounds of three nodes
    if x.sum() > 0:
        m = m + 1          m cannot be told
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ...lang.trampoline import Walk, run
from ..ir.kinds import entering, is_loop
from ..ir.node import Block, Node, Value, walk
from ..ir.rewrite import constant_of
from ..ops.meta import UNKNOWN, Abstract
from ..types.open_sizes import is_open
from ..types.types import INT

KnownValues: TypeAlias = Mapping[Value, Abstract]
Simple: TypeAlias = Callable[[Node, list[Abstract]], Any]
"""The abstract results of a node without blocks for those of its inputs; what is no list is an error."""

MAX_STEPS = 100_000
"""Nodes that are gone through for the numbers of one loop."""


class NumberRounds:
    """The numbers among the carried values of a loop: `look` after each round that is gone through, then ask."""

    def __init__(self, block: Block, varying: Sequence[bool]) -> None:
        self._block = block
        self._index = block.inputs[0]
        pairs = zip(block.inputs[1:], block.outputs[1:], varying, strict=True)
        self._pairs = [(given, made) for given, made, varies in pairs if varies]
        self._rounds: list[dict[Value, Abstract]] = []
        self._growth: list[list[int | None]] = []

    def look(self, known: KnownValues) -> None:
        """Note what is known of the values inside in this round; of later rounds the same holds as of the last one."""
        if not self._pairs:
            return
        made = [value for node in (self._block.param, *self._block.nodes) for value in node.outputs]
        self._rounds.append({value: known[value] for value in made if value in known})
        self._growth.append([run(_growth(made, given, known)) for given, made in self._pairs])

    def after(
        self, trips: int, entered: Mapping[Value, Abstract], known: KnownValues, simple: Simple
    ) -> dict[Value, Abstract] | None:
        """The numbers after so many rounds, by the parameters that carry them; None where that cannot be told.

        `entered` are the numbers before the first round; `known` is of the values outside the loop.
        """
        grown: dict[Value, Abstract] = {}
        for k, (given, _) in enumerate(self._pairs):
            each = [growth[k] for growth in self._growth]
            if None in each or not isinstance(entered[given], int):
                break
            rest = trips - len(each)
            grown[given] = entered[given] + sum(g for g in each if g is not None) + rest * (each[-1] or 0)
        else:
            return grown
        return self._followed(trips, entered, known, simple)

    def _followed(
        self, trips: int, entered: Mapping[Value, Abstract], known: KnownValues, simple: Simple
    ) -> dict[Value, Abstract] | None:
        nodes = self._nodes()
        if nodes is None or is_open(trips) or trips * len(nodes) > MAX_STEPS:
            return None
        numbers = {given: entered[given] for given, _ in self._pairs}
        for turn in range(trips):
            seen = self._rounds[min(turn, len(self._rounds) - 1)]
            env = {self._index: turn, **numbers}
            for node in nodes:
                inputs = [env[v] if v in env else seen.get(v, known.get(v, UNKNOWN)) for v in node.inputs]
                results = simple(node, inputs)
                if not isinstance(results, list | tuple):
                    return None
                env.update(zip(node.outputs, results, strict=True))
            numbers = {g: env[made] if made in env else seen.get(made, UNKNOWN) for g, made in self._pairs}
        return numbers

    def _nodes(self) -> list[Node] | None:
        """The nodes that differ from round to round and make the numbers; None if one has blocks."""
        varying = _dependents(self._block, {self._index, *(given for given, _ in self._pairs)})
        needed: set[Node] = set()
        pending = [made for _, made in self._pairs]
        while pending:
            value = pending.pop()
            node = value.node
            if value not in varying or node is self._block.param or node in needed:
                continue
            if node.blocks:
                return None
            needed.add(node)
            pending += node.inputs
        return [node for node in self._block.nodes if node in needed]


def _dependents(block: Block, sources: set[Value]) -> set[Value]:
    """The values of a block's own nodes that depend on some, the content of inner blocks included."""
    found = set(sources)
    for node in block.nodes:
        inside = walk([node])
        if any(value in found for n in inside for value in (*n.inputs, *(v for b in n.blocks for v in b.outputs))):
            found.update(node.outputs)
    return found


def _growth(value: Value, start: Value, known: KnownValues) -> Walk:
    """By how much an int is larger than the one that it is made of, by sums and loops of sums; None for any other."""
    total = 0
    while value is not start:
        node = value.node
        if node.kind in ("aten::add.int", "aten::sub.int"):
            left, right = node.inputs
            sign = -1 if node.kind == "aten::sub.int" else 1
            if _is_number(known.get(right)):
                value, total = left, total + sign * known[right]
            elif _is_number(known.get(left)) and sign == 1:
                value, total = right, total + known[left]
            else:
                return None
        elif is_loop(node) and value.type == INT:
            each = yield _growth_in_loop(node, node.outputs.index(value), known)
            if each is None:
                return None
            value, total = entering(node)[node.outputs.index(value)], total + each
        else:
            return None
    return total


def _growth_in_loop(loop: Node, index: int, known: KnownValues) -> Walk:
    (body,) = loop.blocks
    trips, going = (known.get(value) for value in loop.inputs[:2])
    if trips is None or not _is_number(trips) or going is not True or constant_of(body.outputs[0]) is not True:
        return None
    each = yield _growth(body.outputs[1 + index], body.inputs[1 + index], known)
    return None if each is None else max(trips, 0) * each


def _is_number(value: Abstract) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

"""What branches give and loops carry: only what they decide or change, in the order of first use.

Emission meets names in the order in which statements bind them, which the same program written another way binds in
another order. Afterwards the order follows from the graph alone, so that a graph and its printed source agree.
"""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.node import PARAM, RETURN, Block, Node, Value
from ..types.types import Type

_MERGING = ("prim::If", "prim::Loop")


def order_results(graph: Graph) -> None:
    """Sort the results of branches, and what loops carry, by where each is first used."""
    ranks = _Ranks(graph)
    for node in reversed(ranks.merging):
        if len(node.outputs) > 1:
            order = sorted(range(len(node.outputs)), key=lambda k: ranks.of(node, k))
            if order != list(range(len(node.outputs))):
                _permute(node, order)


def drop_unchanged(graph: Graph) -> bool:
    """Remove results that are the same value whatever the branch, or after any number of rounds."""
    changed, again = False, True
    while again:
        again = False
        # Inner before outer: what an inner node no longer gives may leave an outer one unchanged.
        for node in reversed([n for n in graph.all_nodes() if n.kind in _MERGING]):
            for k in reversed(range(len(node.outputs))):
                value = _only_value(node, k)
                if value is not None:
                    _drop(node, k, value)
                    changed = again = True
    return changed


def _only_value(node: Node, k: int) -> Value | None:
    """The value from outside that result `k` always is."""
    if node.kind == "prim::If":
        first, second = (_wrapped(block.outputs[k], node.outputs[k].type) for block in node.blocks)
        return first if first is second else None
    param, value = node.blocks[0].inputs[k + 1], node.inputs[k + 2]
    result = _wrapped(node.blocks[0].outputs[k + 1], param.type)
    return value if result is param and value.type == param.type else None


def _wrapped(value: Value, type: Type) -> Value:
    """The optional of this type that a value was unwrapped from; any other value itself."""
    if value.node.kind == "prim::unchecked_unwrap_optional" and value.node.inputs[0].type == type:
        return value.node.inputs[0]
    return value


def _drop(node: Node, k: int, value: Value) -> None:
    node.outputs[k].replace_uses_with(value)
    fixed = 1 if node.kind == "prim::Loop" else 0
    if fixed:
        node.blocks[0].inputs[k + 1].replace_uses_with(value)
        node.remove_input(k + 2)
    for block in node.blocks:
        block.ret.remove_input(fixed + k)
        if fixed:
            block.param.remove_output(k + 1)
    node.remove_output(k)


class _Ranks:
    """Values in the order of their first uses. A use by a branch's result or a loop's variable only hands it on."""

    def __init__(self, graph: Graph) -> None:
        self.merging: list[Node] = []
        self._ranks: dict[Value, int] = {}
        stack: list[Node | Block] = [graph.body]
        while stack:
            item = stack.pop()
            if isinstance(item, Block):
                stack += [item.ret, *reversed(list(item.nodes))]
                continue
            for value in _own_inputs(item):
                self._mark(value)
            if item.kind in _MERGING:
                self.merging.append(item)
            stack += reversed(item.blocks)

    def of(self, node: Node, k: int) -> tuple[int, int]:
        values = [node.outputs[k]]
        if node.kind == "prim::Loop":
            values.append(node.blocks[0].inputs[k + 1])
        return min(self._ranks.get(v, len(self._ranks)) for v in values), k

    def _mark(self, value: Value) -> None:
        """Rank the value and all that it may come from."""
        stack = [value]
        while stack:
            value = stack.pop()
            if value not in self._ranks:
                self._ranks[value] = len(self._ranks)
                stack += reversed(_sources(value))


def _own_inputs(node: Node) -> list[Value]:
    """What a node itself reads."""
    if node.kind == "prim::Loop":
        return node.inputs[:2]
    owner = node.owner.node if node.owner is not None else None
    if node.kind == RETURN and owner is not None and owner.kind in _MERGING:
        return node.inputs[:1] if owner.kind == "prim::Loop" else []
    return node.inputs


def _sources(value: Value) -> list[Value]:
    node, k = value.node, value.index
    if node.kind == "prim::If":
        return [block.outputs[k] for block in node.blocks]
    if node.kind == "prim::Loop":
        return [node.inputs[k + 2], node.blocks[0].outputs[k + 1]]
    loop = node.owner.node if node.kind == PARAM and node.owner is not None else None
    if loop is not None and loop.kind == "prim::Loop" and k:
        return [loop.inputs[k + 1], loop.blocks[0].outputs[k]]
    return []


def _permute(node: Node, order: list[int]) -> None:
    node.outputs[:] = [node.outputs[k] for k in order]
    fixed = 1 if node.kind == "prim::Loop" else 0
    for block in node.blocks:
        values = block.outputs
        block.ret.replace_inputs([*values[:fixed], *(values[fixed + k] for k in order)])
    if fixed:
        params = node.blocks[0].param.outputs
        params[1:] = [params[k + 1] for k in order]
        node.replace_inputs([*node.inputs[:2], *(node.inputs[k + 2] for k in order)])

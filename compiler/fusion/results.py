"""Results that a caller may write into: what was two before it was found to be equal is two in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..ops.registry import OPS, Trait
from ..types.types import is_tensor

_HOLDERS = ("prim::ListConstruct", "prim::TupleConstruct")


def result_values(graph: Graph) -> list[Value]:
    """The results of a graph, and what lists and tuples among them hold."""
    return [node.inputs[index] for node, index in _places(graph)]


def keep_apart(graph: Graph, before: Sequence[Value]) -> list[tuple[Value, Value]]:
    """Have a result that became another be a copy of it; which copies were made, and of what.

    `before` are the results as they were. Views are left as they are: they share memory in torch too.
    """
    places = [*_places(graph)]
    if len(places) != len(before):
        return []
    copies: list[tuple[Value, Value]] = []
    first: dict[Value, Value] = {}
    for (node, index), was in zip(places, before, strict=True):
        value = node.inputs[index]
        op = OPS.of(value.node.schema)
        if not is_tensor(value.type) or op is None or op.has(Trait.VIEW | Trait.MAY_ALIAS):
            continue
        if first.setdefault(value, was) is not was:
            copy = Builder(graph, before=graph.body.ret, span=value.node.span).op("aten::clone", value, None)
            if node is not graph.body.ret:
                copy.node.unlink().insert_before(node)
            node.set_input(index, copy)
            copies.append((copy, value))
    return copies


def _places(graph: Graph) -> Iterator[tuple[Node, int]]:
    """Where results stand: as what the graph returns, or in what holds them."""
    ret = graph.body.ret
    open_ = [(ret, index) for index in reversed(range(len(ret.inputs)))]
    while open_:
        node, index = open_.pop()
        holder = node.inputs[index].node
        if holder.kind in _HOLDERS:
            open_ += [(holder, i) for i in reversed(range(len(holder.inputs)))]
        else:
            yield node, index

"""Calls of compiled functions in a graph that is being traced."""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Callee, GradPair, Graph
from ...compiler.ir.node import Value, copy_nodes
from ...compiler.passes.inline_functions import inline_functions
from ...lang.source import Span


class Inliner:
    """Puts functions into a graph: the body of a function, control flow and all, or a call of one with a backward.

    A function with a backward of its own stays a prim::CallFunction, so that it is differentiated by that. The graph's
    table gains such functions, and what they call, under their own names; where another function has one of these
    names already, under a new one, with what it calls inlined.
    """

    def __init__(self, graph: Graph) -> None:
        self._functions: dict[str, Callee] = {}
        graph.functions = self._functions
        self._names: dict[Callee, str] = {}

    def insert(
        self, builder: Builder, callee: Callee, arguments: Sequence[Value], place: Span | None = None
    ) -> list[Value]:
        """The results of a call. With a place, all that is put in stands there instead of where it is written."""
        if callee.pair is not None:
            types = [result.type for result in callee.schema.returns]
            return builder.node("prim::CallFunction", arguments, types, attrs={"callee": self._name(callee)}).outputs
        body = callee.graph.without_closure().copy()
        inline_functions(body, keep_pairs=True)
        for node in body.all_nodes():
            node.span = place or node.span
            if node.kind == "prim::CallFunction":
                node.attrs["callee"] = self._name(body.functions[node.attr("callee")])
        return copy_nodes(body.body, dict(zip(body.inputs, arguments, strict=True)), builder.insert)

    def _name(self, callee: Callee) -> str:
        """The name of a function in the table."""
        name = self._names.get(callee)
        if name is None:
            name = self._names[callee] = self._enter(callee)
        return name

    def _enter(self, callee: Callee) -> str:
        name = callee.schema.name
        wanted = {**callee.graph.functions, name: callee}
        if all(self._functions.get(key, value) is value for key, value in wanted.items()):
            self._functions.update(wanted)
            return name
        number = 1
        while f"{name}_{number}" in self._functions:
            number += 1
        self._functions[f"{name}_{number}"] = _closed(callee)
        return f"{name}_{number}"


def _closed(callee: Callee) -> Callee:
    """The function with what it calls inlined."""
    pair = _closed_pair(callee.pair) if callee.pair is not None else None
    return Callee(callee.schema, _closed_graph(callee.graph), pair)


def _closed_pair(pair: GradPair) -> GradPair:
    second = _closed_pair(pair.second) if pair.second is not None else None
    forward, backward = _closed_graph(pair.forward), _closed_graph(pair.backward)
    return GradPair(pair.schema, forward, backward, pair.context, pair.grad_outputs, second)


def _closed_graph(graph: Graph) -> Graph:
    closed = graph.copy()
    inline_functions(closed)
    closed.functions = {}
    return closed

"""Calls of compiled functions in a graph that is being traced."""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Callee, Graph
from ...compiler.ir.node import Value, copy_nodes
from ...compiler.link import Linker
from ...compiler.passes.inline_functions import inline_functions
from ...lang.source import Span


class Inliner:
    """Puts functions into a graph: the body of a function, control flow and all, or a call of one with a backward.

    A function with a backward of its own stays a prim::CallFunction, so that it is differentiated by that. The graph's
    table gains such functions, and what they call, under their own names; where another function has one of these
    names already, under a new one.
    """

    def __init__(self, graph: Graph) -> None:
        functions: dict[str, Callee] = {}
        graph.functions = functions
        self._linker = Linker(functions)

    def insert(
        self, builder: Builder, callee: Callee, arguments: Sequence[Value], place: Span | None = None
    ) -> list[Value]:
        """The results of a call. With a place, all that is put in stands there instead of where it is written."""
        if callee.pair is not None:
            types = [result.type for result in callee.schema.returns]
            name = self._linker.enter(callee)
            return builder.node("prim::CallFunction", arguments, types, attrs={"callee": name}).outputs
        body = callee.graph.without_closure().copy()
        inline_functions(body, keep_pairs=True)
        for node in body.all_nodes():
            node.span = place or node.span
            if node.kind == "prim::CallFunction":
                called = node.attr("callee")
                node.attrs["callee"] = self._linker.enter(body.functions[called], called)
        return copy_nodes(body.body, dict(zip(body.inputs, arguments, strict=True)), builder.insert)

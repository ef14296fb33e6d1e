"""What is differentiated when a function is: its graph, or, if it carries its own backward, a call of it."""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.graph import Callee, Graph
from ..lift import callee_of


def differentiable_graph(callee: Callee) -> Graph:
    """The graph that stands for a function in differentiation. Its pair, where it has one, is used for it."""
    if callee.pair is None and callee.graph.returns_closure:
        callee = callee_of(callee.graph)
    if callee.pair is None:
        return callee.graph
    name = callee.schema.name
    graph = Graph(name, {**callee.graph.functions, name: callee}, callee.graph.span, callee.graph.title)
    builder = Builder(graph, span=callee.graph.span)
    inputs = [graph.body.add_input(v.type, v.name_hint) for v in callee.graph.inputs]
    types = [result.type for result in callee.schema.returns]
    builder.returns(*builder.node("prim::CallFunction", inputs, types, attrs={"callee": name}).outputs)
    return graph

"""Whether a graph draws random numbers, or has ops of other traits, looked at through calls."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.node import Node
from ..ops.registry import OPS, Trait


def is_random(node: Node) -> bool:
    """Whether an op draws random numbers."""
    return OPS.has(node.schema, Trait.RANDOM)


def draws(graph: Graph) -> bool:
    """Whether running a graph, or a function that it calls, draws random numbers."""
    return runs_any(graph, Trait.RANDOM)


def runs_any(graph: Graph, traits: Trait) -> bool:
    """Whether a graph, or a function that it calls, has an op with one of some traits."""
    pending, seen = [graph], {graph}
    while pending:
        for node in pending.pop().all_nodes():
            if OPS.has(node.schema, traits):
                return True
            called = called_graph(node, graph)
            if called is not None and called not in seen:
                seen.add(called)
                pending.append(called)
    return False


def called_graph(node: Node, graph: Graph) -> Graph | None:
    """The graph of the function that a node calls; None for any other node."""
    callee = graph.called(node)
    return callee.graph if callee is not None else None

"""Which gradients, differentiated once more, would pass a backward that a function carries itself.

Kernels are planned from ops, with the calls of functions written out. What is to be differentiated again must not be:

def h(x):                        f = h(x) * x    its backward takes h(x), and dh/dx is h's own to tell
    def backward(g): …
"""

from __future__ import annotations

from collections.abc import Iterable

from ..autodiff.gradient import Gradient
from ..ir.graph import Graph
from ..ir.node import Node, Value, walk

CALL = "prim::CallFunction"


def passes_own_backwards(graph: Graph, gradient: Gradient) -> bool:
    """Whether the backward of a graph calls a function with a backward of its own, or takes what follows from such a
    call. Loops have been differentiated with their calls written out."""
    loops = [node for node in graph.all_nodes() if node.kind == "prim::Loop"]
    if any(_reaches_pair(node, graph) for node in walk(loops)):
        return True
    if any(_reaches_pair(node, gradient.df) for node in gradient.df.all_nodes()):
        return True
    outputs = gradient.f.outputs
    taken = [outputs[i] for i in gradient.captured_outputs if i >= gradient.num_real_outputs]
    return any(_reaches_pair(node, gradient.f) for node in _behind(taken))


def _reaches_pair(node: Node, graph: Graph) -> bool:
    """Whether a node calls a function with a pair, itself or by those that it calls."""
    pending, seen = [(node, graph)], set[str]()
    while pending:
        found, caller = pending.pop()
        if found.kind != CALL or found.attr("callee") in seen:
            continue
        callee = caller.called(found)
        if callee is None or callee.pair is not None:
            return callee is not None
        seen.add(found.attr("callee"))
        pending += [(inner, callee.graph) for inner in callee.graph.all_nodes()]
    return False


def _behind(values: Iterable[Value]) -> Iterable[Node]:
    """The nodes that values of tensors follow from, those in blocks included."""
    pending, seen = [value.node for value in values], set[Node]()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        pending += [value.node for value in node.inputs]
        for block in node.blocks:
            pending += block.nodes

"""Put the bodies of functions in the place of their calls.

Before:
    graph f(%x : Tensor):
      %y : Tensor = prim::CallFunction[callee="square"](%x)
      return (%y)
After:
    graph f(%x : Tensor):
      %y : Tensor = aten::mul.Tensor(%x, %x)
      return (%y)

A function's closure stays behind: a call gives no closure. Calls of functions that carry a pair can be kept, so
that differentiation meets them and uses the pair. What comes of a formula of the library has the span of its call.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.builder import Builder
from ..ir.graph import Callee, Graph
from ..ir.node import Node, copy_node, walk
from ..ir.rewrite import replace_node
from ..types.types import CLOSURE

MAX_NODES = 200_000
"""Inlining stops when it has made so many nodes; calls that are left run as calls."""


def inline_functions(graph: Graph, *, keep_pairs: bool = False) -> bool:
    """Inline calls, and those in what was inlined; `keep_pairs` leaves calls of functions that have a pair."""
    pending = [node for node in graph.all_nodes() if node.kind == "prim::CallFunction"]
    pending.reverse()
    made, changed = 0, False
    while pending and made < MAX_NODES:
        call = pending.pop()
        callee = graph.called(call)
        if callee is None or (keep_pairs and callee.pair is not None) or not _shares_names(callee, graph.functions):
            continue
        copies = _inline(call, callee)
        made += len(copies)
        pending += [node for node in reversed(copies) if node.kind == "prim::CallFunction"]
        changed = True
    return changed


def _shares_names(callee: Callee, functions: Mapping[str, Callee]) -> bool:
    """Whether the names that the callee calls mean the same to its caller."""
    theirs = callee.graph.functions
    if theirs is functions:
        return True
    names = (node.attr("callee") for node in callee.graph.all_nodes() if node.kind == "prim::CallFunction")
    return all(theirs.get(name) is functions.get(name) for name in names)


def _inline(call: Node, callee: Callee) -> list[Node]:
    """Copy the callee's nodes in front of the call and put their results in its place; returns the copies."""
    assert call.owner is not None
    builder = Builder(call.owner, call)
    env = dict(zip(callee.graph.inputs, call.inputs, strict=True))
    copies: list[Node] = []
    span = call.span if callee.graph.span.source.is_library else None
    for node in callee.graph.nodes:
        if node.kind != "prim::Function":
            top = copy_node(node, env, builder.insert, span)
            copies += walk([top])
    results = callee.graph.outputs
    if results and results[-1].type == CLOSURE:
        results = results[:-1]
    replace_node(call, [env.get(value, value) for value in results])
    return copies

"""The node that emission makes of a write: prim::Write(object, content). No graph has one after functionalization."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.node import walk

WRITE = "prim::Write"
POP = "aten::pop.t"
"""The element that a list gives away; the write of the shorter list follows."""


def has_writes(graph: Graph) -> bool:
    return any(node.kind in (WRITE, POP) for node in walk(graph.body.nodes))

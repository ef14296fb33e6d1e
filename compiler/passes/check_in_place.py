"""Make sure that no op writes into a value that is still read.

Before:
    graph f(%x : Tensor):
      %1 : Tensor = aten::exp(%x)
      return (%1)
After:
    graph f(%x : Tensor):
      %1 : Tensor = aten::exp(%x)
      return (%1)

Values are immutable, and in-place spellings have become new values when a graph is emitted, so every op of the table
passes. A graph that was written by hand or made by a pass of a user's may name an op that writes (its name ends in an
underscore, as in torch): that is an error here, before anything runs, for execution plans reuse memory on the promise
that nothing does.
"""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.node import Node
from ..ir.structure import Broken


class WritesInPlace(Broken):
    """A node writes into its operand."""


def check_in_place(graph: Graph) -> bool:
    """Raise WritesInPlace for a node that mutates an operand; changes nothing."""
    for node in graph.all_nodes():
        if _writes(node):
            raise WritesInPlace(f"graph {graph.name}: {node.kind} writes into its operand; values are immutable")
    return False


def _writes(node: Node) -> bool:
    base = node.kind.rpartition("::")[2].partition(".")[0]
    return base.endswith("_") and not base.endswith("__")

"""A graph that was settled for open sizes, for given ones: numbers in the place of what followed from them."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Graph
from ..types.sizes import closed, is_open


def close_sizes(graph: Graph, atoms: Sequence[int]) -> Graph:
    """A copy with values for the open sizes among its constants, given one for each atom."""
    copied = graph.copy()
    for node in copied.all_nodes():
        for name, value in node.attrs.items():
            if is_open(value):
                node.attrs[name] = closed(value, atoms)
    return copied

"""A graph that was settled for open sizes, for given ones: numbers in the place of what followed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.graph import Graph
from ..ir.rewrite import CONSTANT
from ..types.open_sizes import closed, is_open


def close_sizes(graph: Graph, atoms: Sequence[int]) -> Graph:
    """A copy with values for the open sizes among its constants, given one for each atom.

    Before, settled for x of n × 3, and then for n = 5:
        graph f(%x : Tensor, %g : Tensor):
          %size : List[int] = aten::size(%x)
          %1 : Tensor = aten::sum_to_size(%g, %size)
          return (%1)
    After:
        graph f(%x : Tensor[float32, rank=2], %g : Tensor[float32, rank=2]):
          %size : List[int] = prim::Constant[value=[5, 3]]()
          %1 : Tensor[float32, rank=2] = aten::sum_to_size(%g, %size)
          return (%1)
    """
    copied = graph.copy()
    for node in copied.all_nodes():
        for name, value in node.attrs.items():
            if is_open(value):
                node.attrs[name] = closed(value, atoms)
    return copied


def take_open_sizes(graph: Graph) -> tuple[Graph, list[Any]]:
    """A copy that takes what follows from open sizes as further inputs, and what these are.

    Before, settled for x of n × 3:
        graph f(%x : Tensor, %g : Tensor):
          %size : List[int] = aten::size(%x)
          %1 : Tensor = aten::sum_to_size(%g, %size)
          return (%1)
    After:
        graph f(%x : Tensor[float32, rank=2], %g : Tensor[float32, rank=2], %1 : List[int]):
          %2 : Tensor[float32, rank=2] = aten::sum_to_size(%g, %1)
          return (%2)
    """
    copied = graph.copy()
    found: list[Any] = []
    for node in [node for node in copied.all_nodes() if node.kind == CONSTANT and is_open(node.attrs["value"])]:
        found.append(node.attrs["value"])
        node.output.replace_uses_with(copied.body.add_input(node.output.type))
        node.destroy()
    return copied, found

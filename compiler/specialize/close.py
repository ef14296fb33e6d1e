"""A graph that was settled for open sizes, for given ones: numbers in the place of what followed from them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Value
from ..ir.rewrite import CONSTANT, replace_node
from ..types.open_sizes import closed, is_open
from ..types.types import INT, ListType, Type


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
    """A copy that takes what follows from open sizes as further inputs, each once, and what these are.

    Before, settled for x of n × 3:
        graph f(%x : Tensor, %g : Tensor):
          %size : List[int] = aten::size(%x)
          %1 : Tensor = aten::sum_to_size(%g, %size)
          return (%1)
    After:
        graph f(%x : Tensor[float32, rank=2], %g : Tensor[float32, rank=2], %1 : int):
          %2 : int = prim::Constant[value=3]()
          %size : List[int] = prim::ListConstruct(%1, %2)
          %3 : Tensor[float32, rank=2] = aten::sum_to_size(%g, %size)
          return (%3)
    """
    copied = graph.copy()
    taken = _Taken(copied)
    for node in [node for node in copied.all_nodes() if node.kind == CONSTANT and is_open(node.attrs["value"])]:
        value, type = node.attrs["value"], node.output.type
        if isinstance(value, list | tuple) and type == ListType(INT):
            # Numbers one by one: a call with lists among its arguments is told from others more slowly.
            builder = Builder.in_front_of(node)
            items = [taken.input(item, INT) if is_open(item) else builder.constant(item) for item in value]
            replace_node(node, [builder.node("prim::ListConstruct", items, [type]).output])
        else:
            node.output.replace_uses_with(taken.input(value, type))
            node.destroy()
    return copied, taken.values


class _Taken:
    """The inputs that a graph is given for what follows from open sizes."""

    def __init__(self, graph: Graph) -> None:
        self.values: list[Any] = []
        self._graph = graph
        self._inputs: dict[Hashable, Value] = {}

    def input(self, value: Any, type: Type) -> Value:
        """The one for a value; equal polynomials are one, of which nothing is asked."""
        key = (type, value.polynomial) if type == INT else len(self.values)
        found = self._inputs.get(key)
        if found is None:
            self.values.append(value)
            found = self._inputs[key] = self._graph.body.add_input(type)
        return found

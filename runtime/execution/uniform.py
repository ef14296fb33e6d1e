"""Backwards of tensors that all have one shape: nothing was broadcast, so nothing is to be summed.

    graph(%g : Tensor, %x : Tensor, %w : Tensor, %1 : List[int]):      graph(%g : Tensor, %x : Tensor, …):
      %2 : Tensor = aten::mul.Tensor(%g, %w)                             %2 : Tensor = aten::mul.Tensor(%g, %w)
      %3 : Tensor = aten::sum_to_size(%2, %1)                     ─▶     return (%2)
      return (%3)

Whether the shapes and sizes that go in are one is asked at each run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node, Value
from ...compiler.ir.rewrite import replace_node
from ...compiler.passes.eliminate_dead_code import eliminate_dead_code
from ...compiler.pipeline import run_recipe
from ...compiler.types.types import INT_LIST, is_tensor


def is_uniform(values: Iterable[Any]) -> bool:
    """Whether tensors and sizes are all of one shape; None stands for a gradient that is undefined."""
    shape: tuple[int, ...] | None = None
    for value in values:
        if value is not None:
            found = tuple(value) if isinstance(value, list | tuple) else value.shape
            if found != shape:
                if shape is not None:
                    return False
                shape = found
    return True


def sums_broadcasts(graph: Graph) -> bool:
    """Whether a graph takes tensors and sizes only, and sums to sizes."""
    if not all(is_tensor(value.type) or value.type == INT_LIST for value in graph.inputs):
        return False
    return any(node.kind == "aten::sum_to_size" for node in graph.all_nodes())


def tie_to_one_shape(graph: Graph) -> None:
    """Rewrite a graph for inputs that are uniform."""
    _tie(graph)
    run_recipe(graph, "settle_gradients")
    run_recipe(graph, "run")
    for node in list(graph.all_nodes()):
        if _is_tie(node, graph):
            replace_node(node, [node.inputs[0]])
    eliminate_dead_code(graph)


def _tie(graph: Graph) -> None:
    """Say of every input that it has the shape of the first: what follows from that is a pass's to find."""
    tensors = [value for value in graph.inputs if is_tensor(value.type) and value.use_count]
    first = graph.body.param.next
    if not tensors or first is None:
        return
    leader, *others = tensors
    builder = Builder(graph, before=first)
    size = builder.op("aten::size", leader)
    for value in others:
        _replace_uses(value, builder.op("aten::expand", value, size))
    for value in graph.inputs:
        if value.type == INT_LIST:
            value.replace_uses_with(size)


def _replace_uses(value: Value, tied: Value) -> None:
    for use in value.uses:
        if use.user is not tied.node:
            use.user.set_input(use.index, tied)


def _is_tie(node: Node, graph: Graph) -> bool:
    if node.kind != "aten::expand" or node.inputs[0].node is not graph.body.param:
        return False
    size = node.inputs[1].node
    return size.kind == "aten::size" and size.inputs[0].node is graph.body.param

"""Backwards of tensors that all have one shape: nothing was broadcast, so nothing is to be summed.

Whether the shapes and sizes that go in are one is asked at each run, of lists' tensors too; tensors of no dimension, as
the gradient of a loss, stand beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node, Value
from ...compiler.ir.rewrite import replace_node
from ...compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from ...compiler.pipeline import run_recipe
from ...compiler.types.types import INT_LIST, TensorType, is_tensor, is_tensor_list, strip_optional

_ITEM = "aten::__getitem__.t"


class Leaders(NamedTuple):
    """The first inputs that are there, by number: of the tensors of one shape, and of those of no dimension; -1: none.

    What is asked of a shape is asked of them: others may be gradients that are undefined.
    """

    shaped: int
    scalar: int


class Uniformity:
    """Says of what goes into a graph whether it is all of one shape, but for tensors of no dimension and the unused.

    None stands for a gradient that is undefined, and for what another branch than the one taken makes.
    """

    def __init__(self, graph: Graph) -> None:
        # What may be left out has the type of what it holds where it is given.
        used = [(index, strip_optional(value.type)) for index, value in enumerate(graph.inputs) if value.use_count]
        self._tensors = [index for index, type in used if is_tensor(type)]
        self._lists = [index for index, type in used if is_tensor_list(type)]
        self._sizes = [index for index, type in used if type == INT_LIST]

    def __call__(self, values: Sequence[Any]) -> Leaders | None:
        """Whose shape it is; None where there are several."""
        shape: tuple[int, ...] = ()
        shaped = scalar = -1
        for index in self._tensors:
            value = values[index]
            if value is not None:
                found = value.shape
                if not found:
                    scalar = index if scalar < 0 else scalar
                elif shaped < 0:
                    shape, shaped = found, index
                elif found != shape:
                    return None
        for index in self._lists:
            for value in values[index] or ():
                if value is not None and value.shape != shape:
                    return None
        for index in self._sizes:
            size = values[index]
            if size is not None and tuple(size) != shape:
                return None
        return Leaders(shaped, scalar)


def uniformity(graph: Graph) -> Uniformity | None:
    """What asks it of a graph that takes several tensors and sums to sizes; None where nothing hangs on it."""
    plain = graph.without_closure()
    if not any(node.kind == "aten::sum_to_size" for node in plain.all_nodes()):
        return None
    return Uniformity(plain) if any(is_tensor(value.type) for value in plain.inputs) else None


def tie_to_one_shape(graph: Graph, leaders: Leaders) -> None:
    """Rewrite a graph for inputs that are uniform, whose ranks are known by their types.

    Before:
        graph df(%g : Tensor[float32, rank=2], %w : Tensor[float32, rank=2], %size : List[int]):
          %1 : Tensor = aten::mul.Tensor(%g, %w)
          %2 : Tensor = aten::sum_to_size(%1, %size)
          return (%2)
    After:
        graph df(%g : Tensor[float32, rank=2], %w : Tensor[float32, rank=2], %size : List[int]):
          %1 : Tensor[float32, rank=2] = aten::mul.Tensor(%g, %w)
          return (%1)
    """
    _tie(graph, leaders)
    run_recipe(graph, "settle_gradients")
    run_recipe(graph, "run")
    for node in list(graph.all_nodes()):
        if _is_tie(node, graph):
            replace_node(node, [node.inputs[0]])
    eliminate_dead_code(graph)


def _tie(graph: Graph, leaders: Leaders) -> None:
    """Say of every tensor that it has the shape of the first: what follows from that is a pass's to find."""
    first = graph.body.param.next
    assert first is not None
    for number in leaders:
        if number < 0:
            continue
        leader = graph.inputs[number]
        is_shaped = number == leaders.shaped
        size = Builder(graph, before=first).op("aten::size", leader)
        for value in graph.inputs:
            if value is leader or not value.use_count:
                continue
            if is_tensor(value.type) and _rank(value) is not None and bool(_rank(value)) == is_shaped:
                _tie_to(value, size, first)
            elif value.type == INT_LIST and (is_shaped or leaders.shaped < 0):
                value.replace_uses_with(size)
            elif is_tensor_list(value.type) and is_shaped:
                for use in value.uses:
                    if use.user.kind == _ITEM and use.user.next is not None:
                        _tie_to(use.user.output, size, use.user.next)


def _rank(value: Value) -> int | None:
    return value.type.rank if isinstance(value.type, TensorType) else None


def _tie_to(value: Value, size: Value, before: Node) -> None:
    assert before.owner is not None
    tied = Builder(before.owner, before).op("aten::expand", value, size)
    for use in value.uses:
        if use.user is not tied.node:
            use.user.set_input(use.index, tied)


def _is_tie(node: Node, graph: Graph) -> bool:
    """Whether a node expands a tensor that came in to the shape of another which has the same one."""
    if node.kind != "aten::expand" or node.inputs[1].node.kind != "aten::size":
        return False
    tied, leader = node.inputs[0], node.inputs[1].node.inputs[0]
    if leader.node is not graph.body.param:
        return False
    if tied.node is graph.body.param:
        return isinstance(tied.type, TensorType) and (_rank(tied) == 0) == (_rank(leader) == 0)
    return tied.node.kind == _ITEM and tied.node.inputs[0].node is graph.body.param and _rank(leader) != 0

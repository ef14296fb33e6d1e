"""Branches that data decides, taken as they went once: a straight line, and what has to be so for it to hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Value
from ..ops.registry import OPS
from .fuse import ArgumentFacts, metas_of_arguments
from .write_out import settle_for_kernels

MOST_DECISIONS = 8
"""Of one graph: so many tensors have a say in where it goes on."""


class DecidedGraph(NamedTuple):
    """A graph without branches, behind whose outputs are the tensors that decided, and what each of them said."""

    graph: Graph
    answers: Sequence[bool]


def decided_graph(
    graph: Graph, arguments: Sequence[ArgumentFacts], tells: Callable[[Graph], bool]
) -> DecidedGraph | None:
    """The graph on the way that it takes for some arguments; None where it is none for this, or decides nothing.

    `tells` runs a graph of the same inputs on these arguments, and says whether its only output is true.

    Before, where x is one positive number of float32:
        graph f(%x : Tensor):
          %1 : bool = aten::Bool.Tensor(%x)
          %y : Tensor = prim::If(%1)
            block():
              %2 : Tensor = aten::exp(%x)
              return (%2)
            block():
              return (%x)
          return (%y)
    After:
        graph f(%x : Tensor[float32, rank=1]):
          %y : Tensor[float32, rank=1] = aten::exp(%x)
          return (%y, %x)
    """
    found, known = graph.plain_copy(), metas_of_arguments(arguments)
    count, answers = len(found.outputs), list[bool]()
    while True:
        settle_for_kernels(found, known)
        branch = next((node for node in found.nodes if node.blocks), None)
        if branch is None:
            return DecidedGraph(found, answers) if answers else None
        condition = branch.inputs[0] if branch.kind == "prim::If" else None
        tensor = None if condition is None else _told_by(condition)
        if condition is None or tensor is None or len(answers) == MOST_DECISIONS:
            return None
        found.body.ret.add_input(tensor)
        telling = found.plain_copy()
        telling.body.ret.replace_inputs(telling.outputs[-1:])
        answers.append(tells(telling))
        condition.replace_uses_with(Builder(found, before=branch).constant(answers[-1]))
        assert len(found.outputs) == count + len(answers)


def _told_by(condition: Value) -> Value | None:
    """The tensor whose only element a condition is."""
    op = OPS.of(condition.node.schema)
    is_told = op is not None and op.schema.full_name == "aten::Bool.Tensor"
    return condition.node.inputs[0] if is_told else None

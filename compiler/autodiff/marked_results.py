"""Which results of a graph require a gradient, where the way that a run goes decides it.

Before, where x is asked for:
    graph f(%x : Tensor, %w : Tensor, %flag : bool):
      %y : Tensor = prim::If(%flag)
        block():
          return (%x)
        block():
          return (%w)
      return (%y)
After, and `{0: 1}`:
    graph f(%x : Tensor, %w : Tensor, %flag : bool):
      %y : Tensor, %1 : bool = prim::If(%flag)
        block():
          %2 : bool = prim::Constant[value=True]()
          return (%x, %2)
        block():
          %3 : bool = prim::Constant[value=False]()
          return (%w, %3)
      return (%y, %1)

To differentiate a graph says only which results may require one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Value
from ..ir.rewrite import constant_of
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..passes.simplification.fold_constants import fold_constants
from .requires_grad import Answer, Answers, as_bool, find_answers, list_depth, may_require

ResultMark: TypeAlias = "bool | tuple[bool, ...] | int"
"""The answer, that of each tensor in a list, or which output is the one or the other."""


def mark_results(graph: Graph, asked: Mapping[Value, Answer]) -> dict[int, ResultMark]:
    """Have a graph without questions return the marks that only a run decides behind its results.

    Those of results that surely require one are left out. A mark holds of floating tensors; all tensors in a list of
    lists have one.
    """
    answers = Answers(of_floats=True)
    find_answers(graph, {v: asked.get(v, False) for v in graph.inputs if may_require(v.type)}, answers)
    results = list(graph.outputs)
    builder = Builder(graph, before=graph.body.ret, span=graph.span)
    marks: dict[int, ResultMark] = {}
    told: list[int] = []
    for i, value in enumerate(results):
        answer = answers.get(value, False)
        if isinstance(answer, Value):
            told.append(i)
            graph.body.ret.add_input(answer if list_depth(value.type) == 1 else as_bool(builder, answer))
        elif may_require(value.type) and answer is not True:
            marks[i] = False
    fold_constants(graph)
    eliminate_dead_code(graph)
    _take_constants(graph, told, len(results), marks)
    return marks


def _take_constants(graph: Graph, told: Sequence[int], count: int, marks: dict[int, ResultMark]) -> None:
    """Return no mark that is known after all."""
    outputs = list(graph.outputs[:count])
    for i, value in zip(told, graph.outputs[count:], strict=True):
        known = _known(value)
        if known is None:
            if value not in outputs[count:]:
                outputs.append(value)
            marks[i] = outputs.index(value, count)
        elif known is False or (isinstance(known, tuple) and not all(known)):
            marks[i] = known
    graph.body.ret.replace_inputs(outputs)
    eliminate_dead_code(graph)


def _known(value: Value) -> bool | tuple[bool, ...] | None:
    found = constant_of(value)
    if value.node.kind == "prim::ListConstruct":
        found = [constant_of(element) for element in value.node.inputs]
    if isinstance(found, bool):
        return found
    is_list = isinstance(found, list | tuple) and all(isinstance(element, bool) for element in found)
    return tuple(found) if is_list else None

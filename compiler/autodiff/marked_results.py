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

from ..functionalize.unrecorded import DETACH, VIEW, VIEWS
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Value
from ..ir.rewrite import constant_of
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..passes.simplification.fold_constants import fold_constants
from ..types.types import can_require_grad
from .requires_grad import Answer, Answers, find_answers

_PLAIN = {VIEW: DETACH, VIEWS: "aten::_without_gradient"}
KnownMark: TypeAlias = "bool | tuple[KnownMark, ...]"
ResultMark: TypeAlias = "KnownMark | int"
"""The answer, those of what is in a list, or which output is the one or the other."""


def mark_results(graph: Graph, asked: Mapping[Value, Answer]) -> dict[int, ResultMark]:
    """Have a graph without questions return the marks that only a run decides behind its results.

    Those of results that surely require one are left out. A mark holds of floating tensors.
    """
    answers = Answers(of_floats=True)
    find_answers(graph, {v: asked.get(v, False) for v in graph.inputs if can_require_grad(v.type)}, answers)
    results = list(graph.outputs)
    marks: dict[int, ResultMark] = {}
    told: list[int] = []
    for i, value in enumerate(results):
        answer = answers.get(value, False)
        if isinstance(answer, Value):
            told.append(i)
            graph.body.ret.add_input(answer)
        elif can_require_grad(value.type) and answer is not True:
            marks[i] = False
    fold_constants(graph)
    eliminate_dead_code(graph)
    _take_constants(graph, told, len(results), marks)
    return marks


def mark_given(graph: Graph) -> dict[int, ResultMark]:
    """The same of which results are arguments themselves, in a graph of what is computed where no gradient flows.

    There whatever is made is detached, and views say that they are some: an argument has its gradient still where none
    is between.
    """
    for node in list(graph.all_nodes()):
        if node.kind in (VIEW, VIEWS):
            view = node.output
            uses = view.uses
            made = Builder(graph, before=node.next, span=node.span).op(_PLAIN[node.kind], view)
            made.type = view.type
            for use in uses:
                use.user.set_input(use.index, made)
    return mark_results(graph, dict.fromkeys(graph.inputs, True))


def _take_constants(graph: Graph, told: Sequence[int], count: int, marks: dict[int, ResultMark]) -> None:
    """Return no mark that is known after all."""
    outputs = list(graph.outputs[:count])
    for i, value in zip(told, graph.outputs[count:], strict=True):
        known = _known(value)
        if known is None:
            if value not in outputs[count:]:
                outputs.append(value)
            marks[i] = outputs.index(value, count)
        elif not _holds_everywhere(known):
            marks[i] = known
    graph.body.ret.replace_inputs(outputs)
    eliminate_dead_code(graph)


def _known(value: Value) -> KnownMark | None:
    """A constant mark; of lists it is made of constants, or one. Lists nest as deep as types: this recurses."""
    if value.node.kind == "prim::ListConstruct":
        items = [_known(element) for element in value.node.inputs]
        return None if None in items else tuple(item for item in items if item is not None)
    return _as_known(constant_of(value))


def _as_known(found: object) -> KnownMark | None:
    if isinstance(found, list):
        items = [_as_known(item) for item in found]
        return None if None in items else tuple(item for item in items if item is not None)
    return found if isinstance(found, bool) else None


def _holds_everywhere(mark: KnownMark) -> bool:
    return all(map(_holds_everywhere, mark)) if isinstance(mark, tuple) else mark

"""Which inputs of a graph its outputs depend on at all, by their elements or their shapes."""

from __future__ import annotations

from collections.abc import Sequence

from ...lang.diagnostics import CompileError, Diagnostic
from ..ir.graph import Graph
from ..ir.kinds import open_flow_of, own_inputs, own_results, sources
from ..ir.node import PARAM, Value
from ..passes.inline_functions import inline_functions


def require_reach(graph: Graph, wrt: Sequence[int]) -> None:
    """CompileError (E409) unless each of these inputs reaches an output.

    An input reaches what is computed from it in any way; whether a gradient comes back, or a zero one, is another
    question.
    """
    inlined = graph.copy()
    inline_functions(inlined, keep_pairs=True)
    reached = reaching_inputs(inlined)
    for index in wrt:
        if index not in reached:
            name = graph.inputs[index].name_hint or f"input {index}"
            message = f"cannot differentiate with respect to '{name}': it does not reach the output of '{graph.title}'"
            note = "leave it out of `argnums`, or take zeros for it with `allow_unused=True`"
            raise CompileError([Diagnostic("E409", message, graph.span, (note,))])


def reaching_inputs(graph: Graph) -> set[int]:
    """The numbers of the inputs on which an output depends, by what decides a branch or a loop too."""
    seen: set[Value] = set()
    stack = list(graph.outputs)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        stack += _depends_on(value)
    return {index for index, value in enumerate(graph.inputs) if value in seen}


def _depends_on(value: Value) -> list[Value]:
    """The values that one follows from in a step."""
    node = value.node
    around = node.holder
    if node.kind == PARAM:
        return sources(value) or (list(around.inputs[:2]) if around is not None else [])
    if open_flow_of(node) is not None:
        return [*own_inputs(node), *(v for block in node.blocks for v in own_results(block)), *sources(value)]
    return [*node.inputs, *(v for block in node.blocks for v in block.outputs)]

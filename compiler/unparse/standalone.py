"""What the compiler made of functions, as source: a function with all that it calls, which compiles as it stands.

Graphs of gradients have nodes that no source has. A prim::GradOf is a branch on whether a gradient is there, and a call
of a library formula is the op that it belongs to. What is made of functions has names that no source has, such as
`square.backward`: in the text they are `square_backward`.
"""

from __future__ import annotations

import re

from ..analysis.definedness import Definedness, State, post_order
from ..ir.builder import Builder
from ..ir.graph import Callee, Graph, with_closure
from ..ir.kinds import carried, is_loop
from ..ir.node import Node
from ..ir.rewrite import replace_node
from ..link import Linker, reachable
from ..ops.registry import OPS
from ..passes.gradients.open_grad_of import open_grad_of
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..passes.simplification.fold_constants import fold_constants
from ..spelling.order import drop_unchanged, order_results
from ..types.types import NUMBER, UNDEFINED
from .functions import unparse_unit
from .literals import annotation
from .names import clean

_NOT_IN_NAMES = re.compile(r"\W")


def unparse_program(*callees: Callee) -> str:
    """Functions and, behind them, those that they call."""
    linked: dict[str, Callee] = {}
    linker = Linker(linked, rename=_plain)
    names = [linker.enter(_with_ops(callee)) for callee in callees]
    found = dict.fromkeys(linked[name] for name in names)
    for name in names:
        found |= reachable(linked[name], name)
    table: dict[str, Callee] = {}
    for callee in found:
        graph = in_source_terms(with_closure(callee))
        graph.functions = table
        table[callee.schema.name] = Callee(callee.schema, graph)
    return unparse_unit(table)


def _plain(name: str) -> str:
    return clean(_NOT_IN_NAMES.sub("_", name)) or "function"


def _with_ops(callee: Callee) -> Callee:
    """The function itself where its graph has no such calls: what it is linked as, others call."""
    graph = with_ops(callee.graph)
    return callee if graph is callee.graph else Callee(callee.schema, graph, callee.pair)


def with_ops(graph: Graph) -> Graph:
    """A copy with the ops in the place of calls of the library's formulas for them; itself where it has none.

    Before:
        graph f(%x : Tensor):
          %1 : Tensor = prim::CallFunction[callee="aten::relu"](%x)
          return (%1)
        graph aten::relu(%x : Tensor):
          return (%x)
    After:
        graph f(%x : Tensor):
          %1 : Tensor = aten::relu(%x)
          return (%1)
    """
    if not any(map(_calls_formula, graph.all_nodes())):
        return graph
    graph = graph.copy()
    for node in [node for node in graph.all_nodes() if _calls_formula(node)]:
        kind = node.attr("callee")
        schema = OPS.named(kind).schema
        types = [value.type for value in node.outputs]
        made = Builder.in_front_of(node).node(kind, node.inputs, types, schema=schema)
        replace_node(node, made.outputs)
    return graph


def _calls_formula(node: Node) -> bool:
    return node.kind == "prim::CallFunction" and "::" in node.attr("callee")


def in_source_terms(graph: Graph) -> Graph:
    """A copy that has nothing but what source can say, in the order in which emission leaves it.

    Before:
        graph df(%g : Tensor, %x : Tensor):
          %1 : Tensor = prim::GradOf[name="aten::mul.Tensor"](%g)
            block():
              %2 : Tensor = aten::mul.Tensor(%g, %x)
              return (%2)
          return (%1)
    After:
        graph df(%g : Tensor, %x : Tensor):
          %1 : bool = prim::grad_defined(%g)
          %2 : Tensor = prim::If(%1)
            block():
              %3 : Tensor = aten::mul.Tensor(%g, %x)
              return (%3)
            block():
              %4 : Undefined = prim::AutogradZero()
              return (%4)
          return (%2)
    """
    copied = graph.copy()
    open_grad_of(copied)
    _narrow_numbers(copied)
    _drop_casts(copied)
    _drop_missing(copied)
    fold_constants(copied)
    for i, value in enumerate(copied.outputs):
        if value.type == UNDEFINED:
            copied.body.ret.set_input(i, Builder(copied).constant(None))
    eliminate_dead_code(copied)
    _narrow_carried(copied)
    while drop_unchanged(copied):
        eliminate_dead_code(copied)
        _narrow_carried(copied)
    order_results(copied)
    return copied


def _drop_casts(graph: Graph) -> None:
    """A cast to what source has no other word for, a tensor whose dtype is known, is none in source."""
    for node in [node for node in graph.all_nodes() if node.kind == "prim::unchecked_cast"]:
        source, result = node.inputs[0], node.output
        if UNDEFINED not in (source.type, result.type) and annotation(source.type) == annotation(result.type):
            source.name_hint = source.name_hint or result.name_hint
            result.replace_uses_with(source)
            node.destroy()


def _drop_missing(graph: Graph) -> None:
    """Take gradients that are surely not there for what they are, as emission does, in the place of lists too."""
    states = Definedness(graph)
    for node in post_order(graph):
        states.visit(node)
    values = (value for node in graph.all_nodes() for value in node.outputs)
    missing = [value for value in values if value.type != UNDEFINED and states[value] is State.ZERO]
    if missing:
        zero = Builder(graph, before=graph.body.param.next).undefined()
        for value in missing:
            value.replace_uses_with(zero)
    for node in [node for node in graph.all_nodes() if node.kind == "prim::grad_list"]:
        if node.inputs[0].type == UNDEFINED and node.owner is not None:
            replace_node(node, [Builder.in_front_of(node).op("prim::grad_zeros", node.inputs[1])])


def _narrow_carried(graph: Graph) -> None:
    """Let what loops hand on unchanged be of the type that it starts with, as emission finds it: a missing gradient."""
    for node in graph.all_nodes():
        if is_loop(node):
            for place in carried(node):
                if place.result is place.parameter:
                    place.parameter.type = place.output.type = place.initial.type


def _narrow_numbers(graph: Graph) -> None:
    """Make an op on numbers the one for the kinds that they are known to be, as an operator in source is."""
    for node in graph.all_nodes():
        if node.schema is None or not node.inputs or any(a.type != NUMBER for a in node.schema.arguments):
            continue
        types = [value.type for value in node.inputs]
        for op in OPS.overloads(node.schema.base_name):
            if [argument.type for argument in op.schema.arguments] == types and op.schema is not node.schema:
                node.kind, node.schema = op.schema.full_name, op.schema
                node.output.type = op.schema.returns[0].type
                break

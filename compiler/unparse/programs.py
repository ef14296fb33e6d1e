"""What the compiler made of functions, as source: a function with all that it calls, which compiles as it stands.

Graphs of gradients have nodes that no source has. A prim::GradOf is a branch on whether a gradient is there, and a call
of a library formula is the op that it belongs to. What is made of functions has names that no source has, such as
`square.backward`: in the text they are `square_backward`.
"""

from __future__ import annotations

import re

from ..emit.order import drop_unchanged, order_results
from ..ir.builder import Builder
from ..ir.graph import Callee, Graph, with_closure
from ..ir.rewrite import replace_node
from ..link import Linker, reachable
from ..ops.registry import OPS
from ..passes.eliminate_dead_code import eliminate_dead_code
from ..passes.open_grad_of import open_grad_of
from ..types.types import UNDEFINED
from .functions import unparse_unit
from .names import clean

_NOT_IN_NAMES = re.compile(r"\W")


def unparse_program(*callees: Callee) -> str:
    """Functions and, behind them, those that they call."""
    linked: dict[str, Callee] = {}
    linker = Linker(linked, rename=_plain)
    names = [linker.enter(Callee(callee.schema, _with_ops(with_closure(callee)))) for callee in callees]
    found = dict.fromkeys(linked[name] for name in names)
    for name in names:
        found |= reachable(linked[name], name)
    table: dict[str, Callee] = {}
    for callee in found:
        graph = _spelled(with_closure(callee))
        graph.functions = table
        table[callee.schema.name] = Callee(callee.schema, graph)
    return unparse_unit(table)


def _plain(name: str) -> str:
    return clean(_NOT_IN_NAMES.sub("_", name)) or "function"


def _with_ops(graph: Graph) -> Graph:
    """A copy in which calls of formulas of the library are the ops that these are of."""
    copied = graph.copy()
    for node in [node for node in copied.all_nodes() if node.kind == "prim::CallFunction"]:
        kind = node.attr("callee")
        if "::" in kind:
            schema = OPS.named(kind).schema
            made = Builder(node.owner, node, node.span).node(  # type: ignore[arg-type]  # it stands in a block
                kind, node.inputs, [value.type for value in node.outputs], schema=schema
            )
            replace_node(node, made.outputs)
    return copied


def _spelled(graph: Graph) -> Graph:
    """A copy that has nothing but what source can say, in the order in which emission leaves it."""
    copied = graph.copy()
    open_grad_of(copied)
    for i, value in enumerate(copied.outputs):
        if value.type == UNDEFINED:
            copied.body.ret.set_input(i, Builder(copied).constant(None))
    eliminate_dead_code(copied)
    if drop_unchanged(copied):
        eliminate_dead_code(copied)
    order_results(copied)
    return copied

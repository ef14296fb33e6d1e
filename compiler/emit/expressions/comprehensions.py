"""List comprehensions → prim::Loop."""

from __future__ import annotations

from ....lang import ast
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...spelling.overloads import Argued
from ...types.types import INT, ListType
from ..emitter import Emitter
from ..expected import take_type
from ..truth import refine
from .conditions import emit_condition
from .iteration import follow_length, iterate, zipped_as_list
from .targets import emit_target


def emit_list_comprehension(e: Emitter, node: ast.ListComp) -> Walk:
    empty = e.at(node).node("prim::ListConstruct", (), [ListType(INT)]).output
    iteration = yield iterate(e, node.iterable)
    if iteration.items is not None:
        if not iteration.items:
            return empty
        iteration = zipped_as_list(e, node.iterable, iteration)
    trips = iteration.length
    assert trips is not None
    loop = e.at(node).node("prim::Loop", [trips, e.builder.constant(True), empty], blocks=1)
    (block,) = loop.blocks
    block.param.span = node.span
    index, collected = block.add_input(INT), block.add_input(ListType(INT))
    with e.block(block, node.span):
        e.at(node)
        item = iteration.item(index)
        yield emit_target(e, node.target, Argued(item, node.iterable.span))
        if node.condition is None:
            element = yield e.expression(node.element)
            result = _collect(e, node, empty, collected, element)
        else:
            result = yield _collect_if(e, node, empty, collected)
        e.builder.returns(e.builder.constant(True), result)
    follow_length(e, loop, iteration)
    return loop.add_output(collected.type)


def _collect(e: Emitter, node: ast.ListComp, empty: Value, collected: Value, element: Value) -> Value:
    """Append; the element's type is now known, and with it the list's."""
    wanted = e.wanted.get(id(node))
    if wanted is not None:
        take_type(element, wanted)
    empty.type = collected.type = ListType(element.type)
    return e.value("aten::append.t", node, collected, element)


def _collect_if(e: Emitter, node: ast.ListComp, empty: Value, collected: Value) -> Walk:
    assert node.condition is not None
    condition = yield emit_condition(e, node.condition)
    if condition.static is not None:
        if not condition.static:
            return collected
        return _collect(e, node, empty, collected, (yield e.expression(node.element)))
    branch = e.at(node).node("prim::If", [condition.value], blocks=2)
    with e.block(branch.blocks[0], node.span) as frame:
        refine(e, frame, condition.if_true)
        element = yield e.expression(node.element)
        e.builder.returns(_collect(e, node, empty, collected, element))
    branch.blocks[1].ret.add_input(collected)
    return branch.add_output(collected.type)

"""Comprehensions, and generator expressions in what goes through all of them → prim::Loop."""

from __future__ import annotations

from ....lang import ast
from ....lang.light_dataclasses import dataclass, field
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...spelling.overloads import Argued
from ...types.types import BOOL, INT, ListType
from ..emitter import Emitter
from ..expected import take_type
from ..truth import refine
from .conditions import emit_condition
from .iteration import follow_length, iterate, zipped_as_list
from .targets import emit_targets

_DECIDES = {"any": True, "all": False}
"""The element that decides, after which no more are asked for."""


@dataclass(slots=True)
class _Made:
    """What comes of the elements: a list of them, or whether any or all are true; and what its loops carry of it."""

    node: ast.ListComp | ast.GeneratorExp
    decides: bool | None = None
    carried: list[Value] = field(default_factory=list)


def emit_list_comprehension(e: Emitter, node: ast.ListComp) -> Walk:
    empty = e.at(node).node("prim::ListConstruct", (), [ListType(INT)]).output
    return (yield _each(e, _Made(node, carried=[empty]), 0, empty))


def emit_stray_generator(e: Emitter, node: ast.GeneratorExp) -> Walk:
    raise e.fail("E102", "a generator expression here is not supported", node.span, "write a list, in square brackets")
    yield


def emit_decision(e: Emitter, name: str, node: ast.GeneratorExp) -> Walk:
    """`any(x > 0 for x in xs)`: like Python, no further than to the element that decides."""
    decides = _DECIDES[name]
    return (yield _each(e, _Made(node, decides), 0, e.at(node).constant(not decides)))


def _each(e: Emitter, made: _Made, index: int, value: Value) -> Walk:
    """A loop over what one clause runs over, the clauses after it inside."""
    node = made.node
    if index == len(node.clauses):
        return (yield _take(e, made, value))
    clause = node.clauses[index]
    iteration = yield iterate(e, clause.iterable)
    if iteration.items is not None:
        if not iteration.items:
            return value
        iteration = zipped_as_list(e, clause.iterable, iteration)
    trips = iteration.length
    assert trips is not None
    loop = e.at(node).node("prim::Loop", [trips, e.builder.constant(True), value], blocks=1)
    (block,) = loop.blocks
    block.param.span = node.span
    position, carried = block.add_input(INT), block.add_input(value.type)
    made.carried.append(carried)
    with e.block(block, node.span) as frame:
        frame.is_own = True
        e.at(node)
        item = iteration.item(position)
        yield emit_targets(e, (clause.target,), Argued(item, clause.iterable.span))
        result = yield _where(e, made, index, 0, carried)
        e.builder.returns(_goes_on(e, made, result), result)
    follow_length(e, loop, iteration)
    return loop.add_output(carried.type)


def _where(e: Emitter, made: _Made, index: int, at: int, value: Value) -> Walk:
    """What comes after the conditions of a clause, from one of them on."""
    conditions = made.node.clauses[index].conditions
    if at == len(conditions):
        return (yield _each(e, made, index + 1, value))
    condition = yield emit_condition(e, conditions[at])
    if condition.static is not None:
        return (yield _where(e, made, index, at + 1, value)) if condition.static else value
    branch = e.at(made.node).node("prim::If", [condition.value], blocks=2)
    with e.block(branch.blocks[0], made.node.span) as frame:
        refine(e, frame, condition.if_true)
        e.builder.returns((yield _where(e, made, index, at + 1, value)))
    branch.blocks[1].ret.add_input(value)
    return branch.add_output(value.type)


def _take(e: Emitter, made: _Made, value: Value) -> Walk:
    """The list with an element more, whose type is now known, and with it the list's; or its truth."""
    node = made.node
    if made.decides is not None:
        truth = yield emit_condition(e, node.element)
        return truth.value if truth.static is None else e.at(node).constant(truth.static)
    element = yield e.expression(node.element)
    wanted = e.wanted.get(id(node))
    if wanted is not None:
        take_type(element, wanted)
    for carried in made.carried:
        carried.type = ListType(element.type)
    return e.value("aten::append.t", node, value, element)


def _goes_on(e: Emitter, made: _Made, value: Value) -> Value:
    if made.decides is None:
        return e.builder.constant(True)
    assert value.type == BOOL
    return e.builder.op("aten::__not__.bool", value) if made.decides else value

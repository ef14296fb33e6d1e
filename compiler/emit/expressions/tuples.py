"""Tuples: their elements are known one by one, so that parts and sums need no op of their own."""

from __future__ import annotations

from ....lang import ast
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...spelling.overloads import Argued
from ...types.types import INT, TupleType, Type, unify
from ..emitter import Emitter, described, is_constant, known_constant
from ..resolve import as_int, emit_resolved
from .slices import emit_bounds


def emit_item(e: Emitter, node: ast.Subscript, base: Value) -> Walk:
    """`t[0]`, `t[1:]`; an index that is known only when it runs, where all elements are of one type."""
    assert isinstance(base.type, TupleType)
    if isinstance(node.index, ast.Slice):
        return (yield _slice(e, node, base, node.index))
    count = len(base.type.elements)
    index = as_int(e, node, Argued((yield e.expression(node.index)), node.index.span)).value
    if index.type != INT:
        raise e.fail("E301", f"a tuple's index must be an int, not {described(index.type)}", node.index.span)
    if not is_constant(index):
        common = type_of_elements(base.type)
        if common is None:
            note = "its elements differ in type"
            raise e.fail("E301", "the index of this tuple must be a literal int", node.index.span, note)
        values = e.at(node).list(e.elements(base, node), common)
        arguments = [Argued(values, node.value.span), Argued(index, node.index.span)]
        return emit_resolved(e, node, "__getitem__", arguments, "a subscript")
    position = known_constant(index)
    if not -count <= position < count:
        raise e.fail("E301", f"the tuple has {count} elements, there is no [{position}]", node.index.span)
    if base.node.kind == "prim::TupleConstruct":
        return base.node.inputs[position]
    return e.at(node).tuple_index(base, position % count)


def type_of_elements(type: TupleType) -> Type | None:
    """The one type that all elements have."""
    common: Type | None = type.elements[0] if type.elements else None
    for element in type.elements[1:]:
        common = unify(common, element) if common is not None else None
    return common


def _slice(e: Emitter, node: ast.Subscript, base: Value, index: ast.Slice) -> Walk:
    bounds = yield emit_bounds(e, index)
    if not all(is_constant(bound) for bound in bounds):
        note = "how many elements it has must be known; a list may be sliced by any int"
        raise e.fail("E301", "the bounds of a tuple's slice must be literal ints", node.index.span, note)
    start, stop, step = map(known_constant, bounds)
    if step == 0:
        raise e.fail("E301", "the step of a slice is not 0", node.index.span)
    return e.at(node).tuple(list(e.elements(base, node))[start:stop:step])


def joined_tuples(e: Emitter, node: ast.Syntax, left: Value, right: Value) -> Value:
    """`left + right`."""
    return e.checked(e.at(node).tuple([*e.elements(left, node), *e.elements(right, node)]), node)

"""`*value` in displays and among arguments: the elements of a tuple one by one, and those of a list as a list."""

from __future__ import annotations

from collections.abc import Sequence

from ...lang import ast
from ...lang.trampoline import Walk
from ..ir.node import Value
from ..spelling.overloads import Argued
from ..types.types import INT, INT_LIST, ListType, TupleType, Type, unify
from .emitter import Emitter, described
from .expected import take_type

STAR = "*"
"""In the place of a keyword: a list whose elements are meant, of which only a run knows how many there are."""


def emit_elements(e: Emitter, nodes: Sequence[ast.Expr]) -> Walk:
    """The values of expressions in a row."""
    found: list[Argued] = []
    for node in nodes:
        if not isinstance(node, ast.Starred):
            found.append(Argued((yield e.expression(node)), node.span))
            continue
        value = yield e.expression(node.value)
        if isinstance(value.type, TupleType):
            found += [Argued(element, node.span) for element in e.elements(value, node)]
        elif isinstance(value.type, ListType):
            found.append(Argued(value, node.span, STAR))
        else:
            note = "a `*` takes the elements of a tuple or of a list"
            raise e.fail("E301", f"{described(value.type)} is not taken apart by `*`", node.span, note)
    return found


def require_known(e: Emitter, found: Sequence[Argued], what: str) -> None:
    """CompileError where a list is among what has to be known one by one."""
    for argued in found:
        if argued.keyword == STAR:
            note = "pass the list itself, or name its elements: `l[0], l[1]`"
            raise e.fail("E204", f"how many {what} a list gives is known only when it runs", argued.span, note)


def as_sizes(e: Emitter, node: ast.Syntax, found: Sequence[Argued]) -> list[Argued]:
    """Sizes given one by one, lists of them among these, as one list."""
    for argued in found:
        if argued.value.type not in (INT, INT_LIST) or (argued.value.type == INT_LIST) != (argued.keyword == STAR):
            raise e.fail("E204", f"{described(argued.value.type)} is no size", argued.span)
    return [Argued(spread_list(e, node, found), found[0].span)]


def spread_list(e: Emitter, node: ast.Syntax, found: Sequence[Argued]) -> Value:
    """A new list of all elements."""
    type: Type | None = None
    for argued in found:
        given = argued.value.type
        if argued.value in e.untold:
            continue
        element = given.element if argued.keyword == STAR and isinstance(given, ListType) else given
        joined = element if type is None else unify(type, element)
        if joined is None:
            raise e.fail("E301", f"a list of {type} cannot hold {described(element)}", argued.span)
        type = joined
    parts: list[Value] = []
    single: list[Value] = []
    for argued in found:
        if argued.keyword != STAR:
            single.append(argued.value)
            continue
        if single:
            parts.append(e.at(node).list(single, type))
            single = []
        if type is not None:
            take_type(argued.value, ListType(type))
            e.untold.discard(argued.value)
        parts.append(argued.value)
    if single:
        parts.append(e.at(node).list(single, type))
    if len(parts) == 1:
        return e.value("aten::slice.t", node, parts[0])
    result = parts[0]
    for part in parts[1:]:
        if part.type != result.type:
            note = "write a comprehension that converts the elements"
            raise e.fail("E301", f"{described(result.type)} and {described(part.type)} are not joined", node.span, note)
        result = e.value("aten::add.t", node, result, part)
    return result

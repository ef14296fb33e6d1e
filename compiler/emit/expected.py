"""Displays that take their type from where they stand: `x: List[int] = []`, `return [], None`."""

from __future__ import annotations

from ...lang import ast
from ...lang.source import Span
from ..ir.node import Value
from ..types.types import (
    FLOAT,
    INT,
    NUMBER,
    TENSOR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    is_subtype,
    is_tensor,
    strip_optional,
)
from .emitter import Emitter, described


def take_type(value: Value, type: Type, uses: int = 0) -> None:
    """Give a display, if the value is one, the type that is expected there: to empty lists, and to lists of optionals.

    A display that something else than these many uses refers to has its type already.
    """
    inner = strip_optional(type)
    if value.name_hint or value.use_count > uses:
        return
    if _is_empty_list(value) and isinstance(inner, ListType):
        value.type = inner
    parts = value.node.inputs
    if value.node.kind == "prim::ListConstruct" and isinstance(inner, ListType):
        if parts and all(map(_is_empty_list, parts)):
            for part in parts:
                take_type(part, inner.element, 1)
            value.type = ListType(parts[0].type)
        elif isinstance(inner.element, OptionalType) and all(is_subtype(part.type, inner.element) for part in parts):
            value.type = inner
    elif value.node.kind == "prim::TupleConstruct" and isinstance(inner, TupleType):
        for part, element in zip(parts, inner.elements, strict=False):
            take_type(part, element, 1)
        names = value.type.names if isinstance(value.type, TupleType) else ()
        value.type = TupleType(tuple(part.type for part in parts), names)


def take_elements(e: Emitter, value: Value, given: Type) -> None:
    """Give an empty list of which nothing was said, `l = []`, the type of the first element that goes into it."""
    if value not in e.untold or any(use.user.kind not in _LENGTH for use in value.uses):
        return
    e.untold.discard(value)
    value.type = ListType(TENSOR if is_tensor(given) else given)


def want_elements(e: Emitter, node: ast.Expr, type: Type) -> None:
    """Say what a comprehension holds, and one that stands in it: `x: List[List[int]] = [[] for …]`; and what
    `x.tolist()` gives, which only its type tells."""
    inner = strip_optional(type)
    if isinstance(node, ast.Call) and isinstance(node.function, ast.Attribute) and node.function.name == "tolist":
        e.wanted[id(node)] = inner
    while isinstance(node, ast.ListComp) and isinstance(inner, ListType):
        e.wanted[id(node)] = inner.element
        node, inner = node.element, strip_optional(inner.element)


def take_element(value: Value, list: Value) -> None:
    """Give an empty list that goes into a list of lists the type of those: `l.append([])`."""
    if isinstance(list.type, ListType):
        take_type(value, list.type.element)


_LENGTH = ("aten::len.t",)


def _is_empty_list(value: Value) -> bool:
    return value.node.kind == "prim::ListConstruct" and not value.node.inputs


def annotated(e: Emitter, node: ast.Syntax, value: Value, type: Type, span: Span) -> Value:
    """The value as one of the type that the source says it is; another type is reported."""
    take_type(value, type)
    e.untold.discard(value)
    if not is_subtype(value.type, type):
        notes = (f"write `{type}(…)` of it",) if value.type == NUMBER and type in (INT, FLOAT) else ()
        raise e.fail("E301", f"the value is {described(value.type)}, not {described(type)}", span, *notes)
    if isinstance(type, OptionalType) and not isinstance(value.type, OptionalType):
        return e.at(node).cast(value, type)
    return value

"""Displays that take their type from where they stand: `x: List[int] = []`, `return [], None`."""

from __future__ import annotations

from ...lang import ast
from ...lang.source import Span
from ..ir import Value
from ..types import ListType, OptionalType, TupleType, Type, is_subtype, strip_optional
from .emitter import Emitter, described


def as_expected(e: Emitter, node: ast.Syntax, value: Value, type: Type) -> Value:
    """The value, the empty lists in its displays now of the type that is expected; any other value as it is."""
    inner = strip_optional(type)
    if _is_empty_list(value) and isinstance(inner, ListType):
        value.type = inner
    if value.name_hint or value.use_count or not value.node.inputs:
        return value
    parts = value.node.inputs
    if value.node.kind == "prim::ListConstruct" and isinstance(inner, ListType):
        if all(map(_is_empty_list, parts)):
            return e.at(node).list([as_expected(e, node, part, inner.element) for part in _released(value)])
    elif isinstance(inner, TupleType) and _is_display_of(value, len(inner.elements)):
        elements = zip(_released(value), inner.elements, strict=True)
        return e.at(node).tuple([as_expected(e, node, part, element) for part, element in elements])
    return value


def _is_display_of(value: Value, count: int) -> bool:
    return value.node.kind == "prim::TupleConstruct" and len(value.node.inputs) == count


def _is_empty_list(value: Value) -> bool:
    return value.node.kind == "prim::ListConstruct" and not value.node.inputs


def _released(display: Value) -> list[Value]:
    """The parts of a display that is made anew."""
    parts = list(display.node.inputs)
    display.node.destroy()
    return parts


def annotated(e: Emitter, node: ast.Syntax, value: Value, type: Type, span: Span) -> Value:
    """The value as one of the type that the source says it is; another type is reported."""
    value = as_expected(e, node, value, type)
    if not is_subtype(value.type, type):
        raise e.fail("E301", f"the value is {described(value.type)}, not {described(type)}", span)
    if isinstance(type, OptionalType) and not isinstance(value.type, OptionalType):
        return e.at(node).cast(value, type)
    return value

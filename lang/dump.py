"""A syntax tree as text: one node a line, indented by depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..lang import ast
from .light_dataclasses import fields
from .source import Span

_MAX_INDENT = 40
"""Levels shown by indentation; a deeper node gives its depth as a number, so that the text stays linear in size."""


def dump(node: ast.Syntax) -> str:
    """The tree below a node, each node with its place as `line:column-line:column`.

        FunctionDef double 1:1-1:15
          parameters: Parameter x 1:12-1:13
          body: Return 2:5-2:17
            value: BinaryOp + 2:12-2:17
              left: Name x 2:12-2:13
              right: Name x 2:16-2:17

    A field that holds several nodes repeats its name.
    """
    lines: list[str] = []
    pending: list[tuple[str, int, ast.Syntax]] = [("", 0, node)]
    while pending:
        label, depth, current = pending.pop()
        margin = "  " * depth if depth <= _MAX_INDENT else "  " * _MAX_INDENT + f"({depth}) "
        lines.append(f"{margin}{label}: {_describe(current)}" if label else f"{margin}{_describe(current)}")
        children = [(name, depth + 1, child) for name, child in _children(current)]
        pending.extend(reversed(children))
    return "\n".join(lines) + "\n"


def _describe(node: ast.Syntax) -> str:
    return " ".join([type(node).__name__, *filter(None, _scalars(node)), _place(node.span)])


def _place(span: Span) -> str:
    return f"{span.line}:{span.column}-{span.end_line}:{span.end_column}"


def _scalars(node: ast.Syntax) -> Iterator[str]:
    """What a node holds beside nodes."""
    match node:
        case ast.Constant():
            yield "..." if node.value is ... else repr(node.value)
        case ast.Name():
            yield node.id
        case ast.Compare():
            yield ", ".join(node.ops)
        case ast.Parameter():
            yield node.name
            yield "keyword-only" if node.keyword_only else ""
        case ast.FunctionDef():
            yield node.name
            yield repr(node.docstring) if node.docstring is not None else ""
        case ast.FormattedValue():
            yield f"!{node.conversion}" if node.conversion else ""
        case ast.Attribute() | ast.Keyword():
            yield node.name
        case ast.UnaryOp() | ast.BinaryOp() | ast.BoolOp() | ast.AugAssign():
            yield node.op


def _children(node: ast.Syntax) -> Iterator[tuple[str, ast.Syntax]]:
    if isinstance(node, ast.If):
        for test, body in node.clauses:
            yield "test", test
            yield from (("body", statement) for statement in body)
        yield from (("otherwise", statement) for statement in node.otherwise)
        return
    for field in fields(node):
        value: Any = getattr(node, field.name)
        if isinstance(value, ast.Syntax):
            yield field.name, value
        elif isinstance(value, tuple):
            yield from ((field.name, item) for item in value if isinstance(item, ast.Syntax))

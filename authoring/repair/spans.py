"""From IR back to the source: the span of an operand, and of the gradient that a backward returns."""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node, Value
from ...compiler.types.types import CLOSURE
from ...lang import ast
from ...lang.source import Span
from ...runtime.face.function import Function

_NO_EXPRESSION = ("prim::TupleUnpack", "prim::Param", "prim::Constant")


class Spans:
    """The expressions of one function by where they stand."""

    def __init__(self, function: Function) -> None:
        self._definition = function.definition
        self._expressions: dict[tuple[int, int], ast.Syntax] = {}
        if function.definition is not None:
            for node in _everything(function.definition):
                self._expressions.setdefault((node.span.start, node.span.end), node)

    def operand(self, node: Node, value: Value) -> Span:
        """Where a node's operand is written: its own expression, or the name that stands for it."""
        inner = value.node.span
        if value.node.kind not in ("prim::TupleUnpack", "prim::Param") and _inside(inner, node.span):
            return inner
        written = self._expressions.get((node.span.start, node.span.end))
        if written is not None and value.name_hint:
            for child in _everything(written):
                if isinstance(child, ast.Name) and child.id == value.name_hint:
                    return child.span
        if value.node.kind not in _NO_EXPRESSION and inner.end:
            return inner
        return node.span

    def returned(self, graph: Graph, index: int) -> Span:
        """The expression of gradient `index`; the backward's header where nothing better is known."""
        outputs = [value for value in graph.outputs if value.type != CLOSURE]
        node = outputs[index].node if index < len(outputs) else graph.body.ret
        if node.kind not in _NO_EXPRESSION and node.span.end:
            return node.span
        element = self._returned_element(graph, index)
        if element is not None:
            return element.span
        return graph.span

    def _returned_element(self, graph: Graph, index: int) -> ast.Expr | None:
        """Element `index` of the last `return` of the closure."""
        for node in self._expressions.values():
            if isinstance(node, ast.FunctionDef) and node.span == graph.span:
                returns = [s for s in node.body if isinstance(s, ast.Return) and s.value is not None]
                if returns and returns[-1].value is not None:
                    value = returns[-1].value
                    elements = value.elements if isinstance(value, ast.TupleExpr) else (value,)
                    return elements[index] if index < len(elements) else None
        return None


def _everything(root: ast.Syntax) -> Iterator[ast.Syntax]:
    pending: list[ast.Syntax] = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(list(ast.children(node)))


def _inside(inner: Span, outer: Span) -> bool:
    smaller = (inner.start, inner.end) != (outer.start, outer.end)
    return inner.source is outer.source and outer.start <= inner.start and inner.end <= outer.end and smaller

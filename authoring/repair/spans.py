"""From IR back to the source: the span of an operand, and of the gradient that a backward returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
        self._forward: set[tuple[int, int]] = set()
        """Where the expressions of the forward stand."""
        self._assignments: dict[str, list[ast.Assign]] = {}
        """By name, what gives it a value in a backward, in order."""
        if function.definition is not None:
            for node in _everything(function.definition):
                self._expressions.setdefault((node.span.start, node.span.end), node)
            self._forward = {(node.span.start, node.span.end) for node in _everything(function.definition)}
            for node in _inside_functions(function.definition):
                self._forward.discard((node.span.start, node.span.end))
                if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                    self._assignments.setdefault(node.targets[0].id, []).append(node)

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

    def is_forward(self, span: Span) -> bool:
        """Whether a span is an expression of the forward, of which the backward has captured the value."""
        return (span.start, span.end) in self._forward

    def renamed(self, node: Node, position: int, value: Value) -> Span | None:
        """Where a name is given to a value that is computed elsewhere: the right side of the assignment.

        Of an operand that is a name; None where the assignment computes it, as most do.
        """
        written = self._expressions.get((node.span.start, node.span.end))
        operand = _operand_of(written, position) if written is not None else None
        if not isinstance(operand, ast.Name):
            return None
        before = [a for a in self._assignments.get(operand.id, ()) if a.span.end <= operand.span.start]
        if not before:
            return None
        made, given = value.node.span, before[-1].value.span
        is_made_there = given.start <= made.start and made.end <= given.end
        return None if is_made_there and value.node.kind not in _NO_EXPRESSION else given

    def returned(self, graph: Graph, index: int) -> Span:
        """The expression of gradient `index`; the backward's header where nothing better is known."""
        outputs = [value for value in graph.outputs if value.type != CLOSURE]
        node = outputs[index].node if index < len(outputs) else graph.body.ret
        if node.kind not in _NO_EXPRESSION and node.span.end:
            return node.span
        return self.element(graph, index) or graph.span

    def element(self, graph: Graph, index: int) -> Span | None:
        """What the last `return` of a backward says of gradient `index`, which may be a name alone."""
        found = self._returned_element(graph, index)
        return None if found is None else found.span

    def _returned_element(self, graph: Graph, index: int) -> ast.Expr | None:
        """Element `index` of the last `return` of the closure."""
        for node in self._expressions.values():
            if isinstance(node, ast.FunctionDef) and node.span == graph.span:
                returns = [s for s in node.body if isinstance(s, ast.Return) and s.value is not None]
                if returns and returns[-1].value is not None:
                    value = returns[-1].value
                    elements = value.elements if isinstance(value, ast.TupleExpr) else (value,)
                    return _at(elements, index)
        return None


def _operand_of(written: ast.Syntax, position: int) -> ast.Syntax | None:
    """The operand of an expression that stands at a place of the op that it is."""
    if isinstance(written, ast.BinaryOp):
        operands: tuple[ast.Expr, ...] = (written.left, written.right)
    elif isinstance(written, ast.UnaryOp):
        operands = (written.operand,)
    elif isinstance(written, ast.Call) and isinstance(written.function, ast.Attribute):
        owner = written.function.value
        is_module = isinstance(owner, ast.Attribute) or (isinstance(owner, ast.Name) and owner.id in ("torch", "F"))
        operands = written.args if is_module else (owner, *written.args)
    else:
        return None
    return _at(operands, position)


def _at(elements: Sequence[ast.Expr], index: int) -> ast.Expr | None:
    """The element at an index, where each stands for itself."""
    known = index < len(elements) and not any(isinstance(element, ast.Starred) for element in elements)
    return elements[index] if known else None


def _inside_functions(root: ast.FunctionDef) -> Iterator[ast.Syntax]:
    """What stands in the functions inside a function."""
    for node in _everything(root):
        if isinstance(node, ast.FunctionDef) and node is not root:
            yield from _everything(node)


def _everything(root: ast.Syntax) -> Iterator[ast.Syntax]:
    pending: list[ast.Syntax] = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(list(ast.children(node)))


def _inside(inner: Span, outer: Span) -> bool:
    smaller = (inner.start, inner.end) != (outer.start, outer.end)
    return inner.source is outer.source and outer.start <= inner.start and inner.end <= outer.end and smaller

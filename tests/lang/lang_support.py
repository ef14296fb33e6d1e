"""What the tests of the parser share: parsing a text, and comparing a tree with the one that Python makes of it."""

from __future__ import annotations

import ast as python_ast
import warnings
from collections.abc import Sequence
from typing import Any

from gradscript.lang import ast
from gradscript.lang.diagnostics import Diagnostic, Diagnostics
from gradscript.lang.parser import parse
from gradscript.lang.source import Source, Span


def parse_text(text: str) -> tuple[ast.Module, list[Diagnostic]]:
    """The module and the findings, in source order."""
    diagnostics = Diagnostics()
    module = parse(Source(text, "test.grad"), diagnostics)
    return module, sorted(diagnostics.found, key=lambda found: (found.span.start, found.span.end))


def parse_valid(text: str) -> ast.Module:
    module, found = parse_text(text)
    assert not found, "\n".join(map(str, found))
    return module


def parse_with_python(text: str) -> python_ast.Module | None:
    """Python's tree, or None if Python rejects the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return python_ast.parse(text)
        except (SyntaxError, ValueError):
            return None


def place(span: Span) -> tuple[int, int, int, int]:
    return span.line, span.column, span.end_line, span.end_column


class Ours:
    """A tree of ours as nested tuples. Recursive: for small programs only."""

    def module(self, module: ast.Module) -> list[Any]:
        return [self.statement(function) for function in module.functions]

    def body(self, statements: Sequence[ast.Stmt]) -> list[Any]:
        return [self.statement(statement) for statement in statements]

    def statement(self, node: ast.Stmt) -> tuple[Any, ...]:
        start = (node.span.line, node.span.column)
        match node:
            case ast.FunctionDef():
                parameters = [self.parameter(parameter) for parameter in node.parameters]
                returns = self.optional(node.returns)
                return "def", start, node.name, parameters, returns, node.docstring, self.body(node.body)
            case ast.If():
                return self.branch(node.clauses, node.otherwise)
            case ast.For():
                return "for", start, self.expression(node.target), self.expression(node.iterable), self.body(node.body)
            case ast.While():
                return "while", start, self.expression(node.test), self.body(node.body)
            case ast.With():
                return "with", start, self.all(node.contexts), self.body(node.body)
        return place(node.span), *self.simple(node)

    def branch(self, clauses: Sequence[tuple[ast.Expr, Sequence[ast.Stmt]]], otherwise: Sequence[ast.Stmt]) -> Any:
        (test, body), *rest = clauses
        below = [self.branch(rest, otherwise)] if rest else self.body(otherwise)
        return "if", self.expression(test), self.body(body), below

    def simple(self, node: ast.Stmt) -> tuple[Any, ...]:
        match node:
            case ast.Assign():
                targets = [self.expression(target) for target in node.targets]
                return "assign", targets, self.expression(node.value), self.optional(node.annotation)
            case ast.AugAssign():
                return "update", node.op, self.expression(node.target), self.expression(node.value)
            case ast.Return():
                return "return", self.optional(node.value)
            case ast.Raise():
                return "raise", self.optional(node.exception)
            case ast.Assert():
                return "assert", self.expression(node.test), self.optional(node.message)
            case ast.Delete():
                return "delete", [self.expression(target) for target in node.targets]
            case ast.ExprStmt():
                return "expression", self.expression(node.value)
        return (type(node).__name__,)

    def piece(self, node: ast.Expr) -> Any:
        """A piece of an f-string, without its place: Python says it from its version 3.12 on only."""
        match node:
            case ast.FormattedValue():
                format = node.format.values if isinstance(node.format, ast.JoinedStr) else [node.format]
                pieces = [self.piece(part) for part in format if part is not None and getattr(part, "value", True)]
                return node.conversion, without_places(self.expression(node.value)), pieces
            case ast.Constant():
                return node.value
        raise AssertionError(node)

    def parameter(self, node: ast.Parameter) -> tuple[Any, ...]:
        start = (node.span.line, node.span.column)
        return start, node.name, self.optional(node.annotation), self.optional(node.default), node.keyword_only

    def clauses(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        return [[self.all([part.target, part.iterable]), self.all(part.conditions)] for part in node.clauses]

    def optional(self, node: ast.Expr | None) -> Any:
        return None if node is None else self.expression(node)

    def all(self, nodes: Sequence[ast.Expr]) -> list[Any]:
        return [self.expression(node) for node in nodes]

    def expression(self, node: ast.Expr) -> tuple[Any, ...]:
        return place(node.span), *self.shape(node)

    def shape(self, node: ast.Expr) -> tuple[Any, ...]:
        match node:
            case ast.Name():
                return "name", node.id
            case ast.Constant():
                return "constant", type(node.value).__name__, repr(node.value)
            case ast.JoinedStr():
                return "f-string", [self.piece(value) for value in node.values]
            case ast.TupleExpr():
                return "tuple", self.all(node.elements)
            case ast.ListExpr():
                return "list", self.all(node.elements)
            case ast.ListComp():
                return "comprehension", self.expression(node.element), self.clauses(node)
            case ast.GeneratorExp():
                return "generator", self.expression(node.element), self.clauses(node)
            case ast.Attribute():
                assert node.name_span.text == node.name
                assert node.name_span.end == node.span.end
                return "attribute", self.expression(node.value), node.name
            case ast.Subscript():
                return "subscript", self.expression(node.value), self.expression(node.index)
            case ast.Slice():
                return "slice", self.optional(node.lower), self.optional(node.upper), self.optional(node.step)
            case ast.Call():
                keywords = [(place(k.span), k.name, self.expression(k.value)) for k in node.keywords]
                return "call", self.expression(node.function), self.all(node.args), keywords
            case ast.UnaryOp():
                return "unary", node.op, self.expression(node.operand)
            case ast.BinaryOp():
                return "binary", node.op, self.expression(node.left), self.expression(node.right)
            case ast.BoolOp():
                return "bool", node.op, self.all(node.values)
            case ast.Compare():
                return "compare", self.expression(node.first), list(node.ops), self.all(node.rest)
            case ast.Conditional():
                return (
                    "conditional",
                    self.expression(node.test),
                    self.expression(node.then),
                    self.expression(node.otherwise),
                )


def without_places(tree: Any) -> Any:
    """An expression's shape, the places of its parts left out."""
    if isinstance(tree, list):
        return [without_places(part) for part in tree]
    if not isinstance(tree, tuple):
        return tree
    is_expression = len(tree) > 1 and isinstance(tree[0], tuple) and all(isinstance(n, int) for n in tree[0])
    return tuple(without_places(part) for part in (tree[1:] if is_expression else tree))


_OPERATORS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "MatMult": "@",
    "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LShift": "<<", "RShift": ">>", "UAdd": "+", "USub": "-", "Invert": "~",
    "Not": "not", "And": "and", "Or": "or", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=",
    "Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in",
}  # fmt: skip


def _operator(node: python_ast.AST) -> str:
    return _OPERATORS[type(node).__name__]


class Pythons:
    """Python's tree as the same nested tuples. A KeyError or an AssertionError means: we should have reported."""

    def __init__(self, text: str) -> None:
        # Python counts columns in bytes of UTF-8.
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def column(self, line: int, offset: int) -> int:
        return len(self.lines[line - 1].encode()[:offset].decode()) + 1

    def place(self, node: Any) -> tuple[int, int, int, int]:
        start = self.column(node.lineno, node.col_offset)
        return node.lineno, start, node.end_lineno, self.column(node.end_lineno, node.end_col_offset)

    def module(self, module: python_ast.Module) -> list[Any]:
        return [self.statement(node) for node in module.body if isinstance(node, python_ast.FunctionDef)]

    def body(self, statements: list[python_ast.stmt]) -> list[Any]:
        return [self.statement(statement) for statement in statements]

    def statement(self, node: python_ast.stmt) -> tuple[Any, ...]:
        start = self.place(node)[:2]
        match node:
            case python_ast.FunctionDef():
                returns, body, docstring = self.optional(node.returns), node.body, None
                match body[0]:
                    case python_ast.Expr(value=python_ast.Constant(value=str(text))):
                        docstring, body = text, body[1:]
                return "def", start, node.name, self.parameters(node.args), returns, docstring, self.body(body)
            case python_ast.If():
                return "if", self.expression(node.test), self.body(node.body), self.body(node.orelse)
            case python_ast.For():
                assert not node.orelse
                return "for", start, self.expression(node.target), self.expression(node.iter), self.body(node.body)
            case python_ast.While():
                assert not node.orelse
                return "while", start, self.expression(node.test), self.body(node.body)
            case python_ast.With():
                assert all(item.optional_vars is None for item in node.items)
                return "with", start, self.all([item.context_expr for item in node.items]), self.body(node.body)
        return self.place(node), *self.simple(node)

    def simple(self, node: python_ast.stmt) -> tuple[Any, ...]:
        match node:
            case python_ast.Assign():
                return "assign", self.all(node.targets), self.expression(node.value), None
            case python_ast.AnnAssign():
                assert node.value is not None
                return (
                    "assign",
                    [self.expression(node.target)],
                    self.expression(node.value),
                    self.optional(node.annotation),
                )
            case python_ast.AugAssign():
                return "update", _operator(node.op), self.expression(node.target), self.expression(node.value)
            case python_ast.Return():
                return "return", self.optional(node.value)
            case python_ast.Raise():
                assert node.cause is None
                return "raise", self.optional(node.exc)
            case python_ast.Delete():
                return "delete", self.all(node.targets)
            case python_ast.Assert():
                return "assert", self.expression(node.test), self.optional(node.msg)
            case python_ast.Expr():
                return "expression", self.expression(node.value)
        assert isinstance(node, python_ast.Pass | python_ast.Break | python_ast.Continue), node
        return (type(node).__name__,)

    def parameters(self, arguments: python_ast.arguments) -> list[Any]:
        assert not arguments.posonlyargs and arguments.vararg is None and arguments.kwarg is None
        missing: list[python_ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
        positional = zip(arguments.args, [*missing, *arguments.defaults], strict=True)
        keyword_only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return [self.parameter(*pair, False) for pair in positional] + [self.parameter(*p, True) for p in keyword_only]

    def piece(self, node: python_ast.expr) -> Any:
        match node:
            case python_ast.FormattedValue(format_spec=format):
                pieces = format.values if isinstance(format, python_ast.JoinedStr) else []
                conversion = chr(node.conversion) if node.conversion > 0 else ""
                return conversion, without_places(self.expression(node.value)), [self.piece(part) for part in pieces]
            case python_ast.Constant():
                return node.value
        raise AssertionError(node)

    def parameter(self, node: python_ast.arg, default: python_ast.expr | None, keyword_only: bool) -> Any:
        start = self.place(node)[:2]
        return start, node.arg, self.optional(node.annotation), self.optional(default), keyword_only

    def clauses(self, node: python_ast.ListComp | python_ast.GeneratorExp) -> list[Any]:
        assert not any(part.is_async for part in node.generators)
        return [[self.all([part.target, part.iter]), self.all(part.ifs)] for part in node.generators]

    def optional(self, node: python_ast.expr | None) -> Any:
        return None if node is None else self.expression(node)

    def all(self, nodes: list[python_ast.expr]) -> list[Any]:
        return [self.expression(node) for node in nodes]

    def expression(self, node: python_ast.expr) -> tuple[Any, ...]:
        return self.place(node), *self.shape(node)

    def shape(self, node: python_ast.expr) -> tuple[Any, ...]:
        match node:
            case python_ast.Name():
                return "name", node.id
            case python_ast.Constant():
                return "constant", type(node.value).__name__, repr(node.value)
            case python_ast.JoinedStr(values=values):
                texts = [value.value for value in values if isinstance(value, python_ast.Constant)]
                if len(texts) == len(values):
                    return "constant", "str", repr("".join(map(str, texts)))
                return "f-string", [self.piece(value) for value in values]
            case python_ast.Tuple():
                return "tuple", self.all(node.elts)
            case python_ast.List():
                return "list", self.all(node.elts)
            case python_ast.ListComp():
                return "comprehension", self.expression(node.elt), self.clauses(node)
            case python_ast.GeneratorExp():
                return "generator", self.expression(node.elt), self.clauses(node)
            case python_ast.Attribute():
                return "attribute", self.expression(node.value), node.attr
            case python_ast.Subscript():
                return "subscript", self.expression(node.value), self.expression(node.slice)
            case python_ast.Slice():
                return "slice", self.optional(node.lower), self.optional(node.upper), self.optional(node.step)
            case python_ast.Call():
                keywords = [(self.place(k), k.arg, self.expression(k.value)) for k in node.keywords]
                return "call", self.expression(node.func), self.all(node.args), keywords
            case python_ast.UnaryOp():
                return "unary", _operator(node.op), self.expression(node.operand)
            case python_ast.BinOp():
                return "binary", _operator(node.op), self.expression(node.left), self.expression(node.right)
            case python_ast.BoolOp():
                return "bool", _operator(node.op), self.all(node.values)
            case python_ast.Compare():
                return (
                    "compare",
                    self.expression(node.left),
                    [_operator(op) for op in node.ops],
                    self.all(node.comparators),
                )
            case python_ast.IfExp():
                return (
                    "conditional",
                    self.expression(node.test),
                    self.expression(node.body),
                    self.expression(node.orelse),
                )
        raise AssertionError(f"a construct that we should have reported: {node}")


def assert_same_tree(text: str, module: ast.Module) -> None:
    """Check structure and spans of every node against Python's own tree."""
    theirs = parse_with_python(text)
    assert theirs is not None, "Python rejects the text"
    assert Ours().module(module) == Pythons(text).module(theirs)

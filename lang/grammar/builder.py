"""The syntax tree, made while parsing: one method for each named alternative of grammar.lark.

A method takes the values of the alternative's symbols (tokens stand for themselves) and the offsets where it
starts and ends, and returns its value. A simple line is a list of statements, every other statement is itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import ast
from ..diagnostics import Diagnostics
from ..rules.records import record_of_class
from ..rules.signatures import check_arguments, check_parameters
from ..rules.targets import check_target
from ..scanning.tokens import Token
from ..scanning.type_comments import TypeComments
from ..source import Source, Span
from .literals import PAST_INT, BadLiteralError, content, literal_number, string


class TreeBuilder:
    """Makes the nodes of one source."""

    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.modes: Mapping[int, bool] = {}
        """Whether gradients flow from what a function computes whose decorators say so, by where its `def` stands."""
        self.ends: dict[ast.FunctionDef, int] = {}
        """Offset where each function's body ends."""
        self.comments = TypeComments(diagnostics)

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    # Lists

    def list_empty(self, c: list[Any], start: int, end: int) -> list[Any]:
        return []

    def list_whole(self, c: list[Any], start: int, end: int) -> list[Any]:
        return c[0]  # type: ignore[no-any-return]

    def list_first(self, c: list[Any], start: int, end: int) -> list[Any]:
        return [c[0]]

    def list_next(self, c: list[Any], start: int, end: int) -> list[Any]:
        c[0].append(c[1])
        return c[0]  # type: ignore[no-any-return]

    def list_pair(self, c: list[Any], start: int, end: int) -> list[Any]:
        return [c[0], c[-1]]

    def list_more(self, c: list[Any], start: int, end: int) -> list[Any]:
        c[0].append(c[2])
        return c[0]  # type: ignore[no-any-return]

    # Modules, blocks and functions

    def module_empty(self, c: list[Any], start: int, end: int) -> list[ast.Stmt]:
        return []

    def module(self, c: list[Any], start: int, end: int) -> list[ast.Stmt]:
        return c[0]  # type: ignore[no-any-return]

    def statements_first(self, c: list[Any], start: int, end: int) -> list[ast.Stmt]:
        return c[0] if isinstance(c[0], list) else [c[0]]

    def statements_more(self, c: list[Any], start: int, end: int) -> list[ast.Stmt]:
        statements: list[ast.Stmt] = c[0]
        if isinstance(c[1], list):
            statements += c[1]
        else:
            statements.append(c[1])
        return statements

    def simple_line(self, c: list[Any], start: int, end: int) -> list[ast.Stmt]:
        return c[0]  # type: ignore[no-any-return]

    def block_inline(self, c: list[Any], start: int, end: int) -> list[ast.Stmt]:
        return c[0]  # type: ignore[no-any-return]

    def block_indented(self, c: list[Any], start: int, end: int) -> list[ast.Stmt]:
        return c[2]  # type: ignore[no-any-return]

    def def_header(self, c: list[Any], start: int, end: int) -> tuple[Any, ...]:
        return c[1], c[3], None, Span(self.source, start, end)

    def def_header_returns(self, c: list[Any], start: int, end: int) -> tuple[Any, ...]:
        return c[1], c[3], c[6], Span(self.source, start, end)

    def function(self, c: list[Any], start: int, end: int) -> ast.FunctionDef:
        name, parameters, returns, span = c[0]
        body: list[ast.Stmt] = c[1]
        docstring = None
        match body[0]:
            case ast.ExprStmt(value=ast.Constant(value=str(text))):
                docstring, body = text, body[1:]
        checked, returns = self.comments.of_function(span, end, check_parameters(parameters, self.diagnostics), returns)
        function = ast.FunctionDef(
            span, name.text, self.span(name), checked, returns, tuple(body), docstring, self.modes.get(start)
        )
        self.ends[function] = end
        return function

    def parameter_plain(self, c: list[Any], start: int, end: int) -> ast.Parameter:
        return ast.Parameter(Span(self.source, start, end), c[0].text, None, None, False)

    def parameter_annotated(self, c: list[Any], start: int, end: int) -> ast.Parameter:
        return ast.Parameter(Span(self.source, start, end), c[0].text, c[2], None, False)

    def parameter_default(self, c: list[Any], start: int, end: int) -> ast.Parameter:
        return ast.Parameter(Span(self.source, start, end), c[0].text, None, c[2], False)

    def parameter_full(self, c: list[Any], start: int, end: int) -> ast.Parameter:
        return ast.Parameter(Span(self.source, start, end), c[0].text, c[2], c[4], False)

    def keyword_marker(self, c: list[Any], start: int, end: int) -> Span:
        return Span(self.source, start, end)

    # Simple statements

    def expression_statement(self, c: list[Any], start: int, end: int) -> ast.ExprStmt:
        return ast.ExprStmt(Span(self.source, start, end), c[0])

    def assign(self, c: list[Any], start: int, end: int) -> ast.Assign:
        *targets, value = c[0]
        for target in targets:
            check_target(target, self.diagnostics)
        return ast.Assign(Span(self.source, start, end), tuple(targets), value, self.comments.of_assignment(end))

    def assign_annotated(self, c: list[Any], start: int, end: int) -> ast.Assign:
        check_target(c[0], self.diagnostics, "annotated")
        return ast.Assign(Span(self.source, start, end), (c[0],), c[4], c[2])

    def declare(self, c: list[Any], start: int, end: int) -> ast.Declare:
        return ast.Declare(Span(self.source, start, end), c[0], c[2])

    def class_header(self, c: list[Any], start: int, end: int) -> tuple[Any, ...]:
        return c[1], c[3] if len(c) > 3 else None, Span(self.source, start, end)

    def record(self, c: list[Any], start: int, end: int) -> ast.Stmt:
        name, base, span = c[0]
        found = record_of_class(span, name.text, self.span(name), base, c[1], end, self.diagnostics)
        return found if found is not None else ast.Pass(span)

    def assign_augmented(self, c: list[Any], start: int, end: int) -> ast.AugAssign:
        check_target(c[0], self.diagnostics, "augmented")
        return ast.AugAssign(Span(self.source, start, end), c[0], c[1][:-1], c[2])

    def augmented(self, c: list[Any], start: int, end: int) -> str:
        return c[0].text  # type: ignore[no-any-return]

    def return_nothing(self, c: list[Any], start: int, end: int) -> ast.Return:
        return ast.Return(Span(self.source, start, end), None)

    def return_value(self, c: list[Any], start: int, end: int) -> ast.Return:
        return ast.Return(Span(self.source, start, end), c[1])

    def raise_again(self, c: list[Any], start: int, end: int) -> ast.Raise:
        return ast.Raise(Span(self.source, start, end), None)

    def raise_value(self, c: list[Any], start: int, end: int) -> ast.Raise:
        return ast.Raise(Span(self.source, start, end), c[1])

    def assert_plain(self, c: list[Any], start: int, end: int) -> ast.Assert:
        return ast.Assert(Span(self.source, start, end), c[1], None)

    def assert_message(self, c: list[Any], start: int, end: int) -> ast.Assert:
        return ast.Assert(Span(self.source, start, end), c[1], c[3])

    def delete(self, c: list[Any], start: int, end: int) -> ast.Delete:
        targets: tuple[Any, ...] = c[1].elements if isinstance(c[1], ast.TupleExpr) else (c[1],)
        for target in targets:
            check_target(target, self.diagnostics, "deleted")
        return ast.Delete(Span(self.source, start, end), targets)

    def pass_statement(self, c: list[Any], start: int, end: int) -> ast.Pass:
        return ast.Pass(Span(self.source, start, end))

    def break_statement(self, c: list[Any], start: int, end: int) -> ast.Break:
        return ast.Break(Span(self.source, start, end))

    def continue_statement(self, c: list[Any], start: int, end: int) -> ast.Continue:
        return ast.Continue(Span(self.source, start, end))

    # Branches and loops

    def header(self, c: list[Any], start: int, end: int) -> tuple[ast.Expr, Span]:
        return c[1], Span(self.source, start, end)

    def if_more(self, c: list[Any], start: int, end: int) -> list[Any]:
        c[0] += c[1:]
        return c[0]  # type: ignore[no-any-return]

    def if_only(self, c: list[Any], start: int, end: int) -> ast.If:
        return self.if_else([c[0], None, None, ()], start, end)

    def if_else(self, c: list[Any], start: int, end: int) -> ast.If:
        headers, blocks = c[0][::2], c[0][1::2]
        clauses = tuple((test, tuple(block)) for (test, _), block in zip(headers, blocks, strict=True))
        return ast.If(headers[0][1], clauses, tuple(c[3]))

    def while_loop(self, c: list[Any], start: int, end: int) -> ast.While:
        test, span = c[0]
        return ast.While(span, test, tuple(c[1]))

    def while_else(self, c: list[Any], start: int, end: int) -> list[ast.Stmt]:
        return self.with_else(self.while_loop(c, start, end), c)

    def for_header(self, c: list[Any], start: int, end: int) -> tuple[Any, ...]:
        check_target(c[1], self.diagnostics)
        return c[1], c[3], Span(self.source, start, end)

    def for_loop(self, c: list[Any], start: int, end: int) -> ast.For:
        target, iterable, span = c[0]
        return ast.For(span, target, iterable, tuple(c[1]))

    def for_else(self, c: list[Any], start: int, end: int) -> list[ast.Stmt]:
        return self.with_else(self.for_loop(c, start, end), c)

    def with_else(self, loop: ast.For | ast.While, c: list[Any]) -> list[ast.Stmt]:
        token = c[2]
        # One that stands in for a header that did not parse has no place.
        if token.start == token.end:
            return [loop]
        from .loop_else import with_else

        return with_else(loop, tuple(c[4]), self.span(token))

    def with_block(self, c: list[Any], start: int, end: int) -> ast.With:
        contexts, span = c[0]
        return ast.With(span, tuple(contexts), tuple(c[1]), Span(self.source, span.end, end))

    # Operators

    def conditional(self, c: list[Any], start: int, end: int) -> ast.Conditional:
        return ast.Conditional(Span(self.source, start, end), c[2], c[0], c[4])

    def lambda_function(self, c: list[Any], start: int, end: int) -> ast.Lambda:
        return ast.Lambda(Span(self.source, start, end), check_parameters(c[1], self.diagnostics), c[3])

    def chain_first(self, c: list[Any], start: int, end: int) -> tuple[str, list[ast.Expr]]:
        return c[1].text, [c[0], c[2]]

    def chain_more(self, c: list[Any], start: int, end: int) -> tuple[str, list[ast.Expr]]:
        c[0][1].append(c[2])
        return c[0]  # type: ignore[no-any-return]

    def bool_op(self, c: list[Any], start: int, end: int) -> ast.BoolOp:
        op, values = c[0]
        return ast.BoolOp(Span(self.source, start, end), op, tuple(values))

    def operator(self, c: list[Any], start: int, end: int) -> str:
        return " ".join(token.text for token in c)

    def compare_first(self, c: list[Any], start: int, end: int) -> tuple[ast.Expr, list[str], list[ast.Expr]]:
        return c[0], [c[1]], [c[2]]

    def compare_more(self, c: list[Any], start: int, end: int) -> tuple[ast.Expr, list[str], list[ast.Expr]]:
        _, ops, rest = c[0]
        ops.append(c[1])
        rest.append(c[2])
        return c[0]  # type: ignore[no-any-return]

    def compare(self, c: list[Any], start: int, end: int) -> ast.Compare:
        first, ops, rest = c[0]
        return ast.Compare(Span(self.source, start, end), first, tuple(ops), tuple(rest))

    def binary(self, c: list[Any], start: int, end: int) -> ast.BinaryOp:
        return ast.BinaryOp(Span(self.source, start, end), c[1].text, c[0], c[2])

    def unary(self, c: list[Any], start: int, end: int) -> ast.UnaryOp:
        operand, found = c[1], self.diagnostics.found
        is_past = isinstance(operand, ast.Constant) and operand.value == PAST_INT
        if c[0].text == "-" and is_past and found and found[-1].span == operand.span:
            # The least int is written as what is one too large, behind a minus.
            found.pop()
        return ast.UnaryOp(Span(self.source, start, end), c[0].text, c[1])

    # Primaries

    def attribute(self, c: list[Any], start: int, end: int) -> ast.Attribute:
        return ast.Attribute(Span(self.source, start, end), c[0], c[2].text, self.span(c[2]))

    def call(self, c: list[Any], start: int, end: int) -> ast.Call:
        args, keywords = check_arguments(c[2], self.diagnostics)
        return ast.Call(Span(self.source, start, end), c[0], args, keywords)

    def call_generator(self, c: list[Any], start: int, end: int) -> ast.Call:
        span = Span(self.source, c[1].start, end)
        return ast.Call(Span(self.source, start, end), c[0], (ast.GeneratorExp(span, c[2], tuple(c[3])),), ())

    def keyword(self, c: list[Any], start: int, end: int) -> ast.Keyword:
        return ast.Keyword(Span(self.source, start, end), c[0].text, c[2])

    def subscript(self, c: list[Any], start: int, end: int) -> ast.Subscript:
        return ast.Subscript(Span(self.source, start, end), c[0], c[2])

    def bound_empty(self, c: list[Any], start: int, end: int) -> None:
        return None

    def bound_given(self, c: list[Any], start: int, end: int) -> ast.Expr:
        return c[0]  # type: ignore[no-any-return]

    def slice_two(self, c: list[Any], start: int, end: int) -> ast.Slice:
        return ast.Slice(Span(self.source, start, end), c[0], c[2], None)

    def slice_three(self, c: list[Any], start: int, end: int) -> ast.Slice:
        return ast.Slice(Span(self.source, start, end), c[0], c[2], c[4])

    def ellipsis(self, c: list[Any], start: int, end: int) -> ast.Constant:
        return ast.Constant(Span(self.source, start, end), ...)

    # Atoms

    def name(self, c: list[Any], start: int, end: int) -> ast.Name:
        return ast.Name(Span(self.source, start, end), c[0].text)

    def number(self, c: list[Any], start: int, end: int) -> ast.Constant:
        span = Span(self.source, start, end)
        try:
            return ast.Constant(span, literal_number(c[0].text))
        except BadLiteralError as bad:
            code, message, *notes = bad.args
            self.diagnostics.report(code, message, span, *notes)
            # One that is an int behind a minus waits for it.
            return ast.Constant(span, PAST_INT if bad.value == PAST_INT else 0)

    def string(self, c: list[Any], start: int, end: int) -> ast.Constant | ast.JoinedStr:
        """Strings side by side are one; an f-string among them makes it one."""
        parts: list[ast.Expr] = []
        for part in c[0]:
            parts += part if isinstance(part, list) else [ast.Constant(self.span(part), self.text(part, string))]
        return self.joined(parts, Span(self.source, start, end))

    def text(self, token: Token, read: Callable[[str], str]) -> str:
        """What a token of text says."""
        try:
            return read(token.text)
        except BadLiteralError as bad:
            code, message, *notes = bad.args
            self.diagnostics.report(code, message, self.span(token), *notes)
            return ""

    def joined(self, parts: list[ast.Expr], span: Span) -> ast.Constant | ast.JoinedStr:
        """Constants and fields in turn."""
        if all(isinstance(part, ast.Constant) for part in parts):
            return ast.Constant(span, "".join(str(part.value) for part in parts if isinstance(part, ast.Constant)))
        merged: list[ast.Expr] = []
        for part in parts:
            last = merged[-1] if merged else None
            if isinstance(part, ast.Constant) and isinstance(last, ast.Constant):
                both = Span(self.source, last.span.start, part.span.end)
                merged[-1] = ast.Constant(both, f"{last.value}{part.value}")
            elif not isinstance(part, ast.Constant) or part.value:
                merged.append(part)
        return ast.JoinedStr(span, tuple(merged))

    def fstring_empty(self, c: list[Any], start: int, end: int) -> list[ast.Expr]:
        return []

    def fstring(self, c: list[Any], start: int, end: int) -> list[ast.Expr]:
        raw = "r" in c[0].text.lower()
        return [self.of_fstring(part, raw) for part in c[1]]

    def of_fstring(self, part: Any, raw: bool) -> ast.Expr:
        """A piece of an f-string: text, of which it is known only here how it is read, or a field."""
        if isinstance(part, Token):
            text = self.text(part, lambda body: content(body.replace("{{", "{").replace("}}", "}"), raw))
            return ast.Constant(self.span(part), text)
        value, conversion, format, span = part
        made = None
        if format is not None:
            made = self.joined([self.of_fstring(piece, raw) for piece in format], span)
        return ast.FormattedValue(span, value, conversion, made)

    def field(self, c: list[Any], start: int, end: int) -> tuple[Any, ...]:
        """The expression, its conversion, and the pieces of its format."""
        format = c[3] if len(c) == 5 else None
        return c[1], c[2].text, format, Span(self.source, start, end)

    def true(self, c: list[Any], start: int, end: int) -> ast.Constant:
        return ast.Constant(Span(self.source, start, end), True)

    def false(self, c: list[Any], start: int, end: int) -> ast.Constant:
        return ast.Constant(Span(self.source, start, end), False)

    def none(self, c: list[Any], start: int, end: int) -> ast.Constant:
        return ast.Constant(Span(self.source, start, end), None)

    def group(self, c: list[Any], start: int, end: int) -> ast.Expr:
        return c[1]  # type: ignore[no-any-return]

    def tuple_empty(self, c: list[Any], start: int, end: int) -> ast.TupleExpr:
        return ast.TupleExpr(Span(self.source, start, end), ())

    def tuple_bare(self, c: list[Any], start: int, end: int) -> ast.TupleExpr:
        return ast.TupleExpr(Span(self.source, start, end), tuple(c[0]))

    def tuple_grouped(self, c: list[Any], start: int, end: int) -> ast.TupleExpr:
        return ast.TupleExpr(Span(self.source, start, end), tuple(c[1]))

    def starred(self, c: list[Any], start: int, end: int) -> ast.Starred:
        return ast.Starred(Span(self.source, start, end), c[1])

    def list_display_empty(self, c: list[Any], start: int, end: int) -> ast.ListExpr:
        return ast.ListExpr(Span(self.source, start, end), ())

    def list_display_one(self, c: list[Any], start: int, end: int) -> ast.ListExpr:
        return ast.ListExpr(Span(self.source, start, end), (c[1],))

    def list_display(self, c: list[Any], start: int, end: int) -> ast.ListExpr:
        return ast.ListExpr(Span(self.source, start, end), tuple(c[1]))

    def comprehension(self, c: list[Any], start: int, end: int) -> ast.ListComp:
        return ast.ListComp(Span(self.source, start, end), c[1], tuple(c[2]))

    def generator(self, c: list[Any], start: int, end: int) -> ast.GeneratorExp:
        return ast.GeneratorExp(Span(self.source, start, end), c[1], tuple(c[2]))

    def clause(self, c: list[Any], start: int, end: int) -> ast.Clause:
        check_target(c[1], self.diagnostics)
        return ast.Clause(Span(self.source, start, end), c[1], c[3], ())

    def clause_filtered(self, c: list[Any], start: int, end: int) -> ast.Clause:
        clause = c[0]
        return ast.Clause(Span(self.source, start, end), clause.target, clause.iterable, (*clause.conditions, c[2]))

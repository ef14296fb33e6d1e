"""`else` on a loop, in terms of the rest: what a `break` passes by.

for i in range(n):                     $broke = False
    if found(i):                       for i in range(n):
        break               ─▶             if found(i):
else:                                          $broke = True
    y = 0                                      break
                                       if not $broke:
                                           y = 0
"""

from __future__ import annotations

from .. import ast
from ..light_dataclasses import replace
from ..source import Span
from ..trampoline import Walk, run


def with_else(loop: ast.For | ast.While, otherwise: tuple[ast.Stmt, ...], span: Span) -> list[ast.Stmt]:
    """The loop and what follows it where no `break` has left it; `span` is that of `else`."""
    name = f"$broke.{span.start}"
    body = run(_marked(loop.body, _set(name, True, span)))
    if body is None:
        return [loop, *otherwise]
    test = ast.UnaryOp(span, "not", ast.Name(span, name))
    return [_set(name, False, span), replace(loop, body=body), ast.If(span, ((test, otherwise),), ())]


def _set(name: str, value: bool, span: Span) -> ast.Stmt:
    return ast.Assign(span, (ast.Name(span, name),), ast.Constant(span, value), None)


def _marked(body: tuple[ast.Stmt, ...], mark: ast.Stmt) -> Walk:
    """The body with a mark before each `break` of its loop; None where there is none."""
    found, result = False, []
    for statement in body:
        if isinstance(statement, ast.Break):
            found = True
            result.append(mark)
        elif isinstance(statement, ast.With):
            inside = yield _marked(statement.body, mark)
            if inside is not None:
                found, statement = True, replace(statement, body=inside)
        elif isinstance(statement, ast.If):
            clauses = []
            for test, then in statement.clauses:
                inside = yield _marked(then, mark)
                found = found or inside is not None
                clauses.append((test, then if inside is None else inside))
            inside = yield _marked(statement.otherwise, mark)
            found = found or inside is not None
            otherwise = statement.otherwise if inside is None else inside
            statement = replace(statement, clauses=tuple(clauses), otherwise=otherwise)
        result.append(statement)
    return tuple(result) if found else None

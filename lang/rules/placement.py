"""Statements outside their place, and functions defined twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from .. import ast
from ..diagnostics import Diagnostics
from ..light_dataclasses import dataclass, replace


@dataclass(frozen=True)
class _Place:
    """A block to look through, and what it stands in."""

    statements: Sequence[ast.Stmt]
    in_function: bool = False
    in_loop: bool = False
    named: dict[str, ast.FunctionDef | ast.Record] | None = None
    """Functions and named tuples of the scope, by name; None where a branch may define a name once more."""


def check_placement(module: Sequence[ast.Stmt], diagnostics: Diagnostics) -> None:
    """Report what stands outside its place: `module` has the statements of a file's outermost level.

    An empty span marks what stands in for text that did not parse, and is passed over.
    """
    _check_module(module, diagnostics)
    pending = [_Place(module, named={})]
    while pending:
        place = pending.pop()
        for statement in place.statements:
            pending += _check(statement, place, diagnostics)


def _check_module(module: Sequence[ast.Stmt], diagnostics: Diagnostics) -> None:
    for index, statement in enumerate(module):
        match statement:
            case ast.FunctionDef() | ast.Pass() | ast.Return() | ast.Break() | ast.Continue() | ast.Record():
                continue
            case ast.Declare():
                continue
            case ast.ExprStmt(value=ast.Constant(value=str())) if index == 0:
                continue
        if statement.span.start == statement.span.end or names_a_constant(statement):
            continue
        note = "a file holds functions and constants; move this into a function, or pass the value as a parameter"
        if "__name__" in statement.span.text:
            note = 'what runs the functions stands in a file of Python: `gs.load("FILE.grad").f(x)`'
        diagnostics.report("E104", "only functions and constants can stand outside a function", statement.span, note)


def names_a_constant(statement: ast.Stmt) -> TypeGuard[ast.Assign]:
    """Whether a statement of the outermost level gives a name to a value."""
    return (
        isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)
    )


def _check(statement: ast.Stmt, place: _Place, diagnostics: Diagnostics) -> list[_Place]:
    """Check one statement; returns the blocks it has."""
    match statement:
        case ast.FunctionDef():
            _check_name(statement, place, diagnostics)
            return [_Place(statement.body, in_function=True, named={})]
        case ast.If():
            # A header that did not parse may have been a 'def' or a loop.
            unknown = statement.span.start == statement.span.end
            inner = replace(
                place, in_function=place.in_function or unknown, in_loop=place.in_loop or unknown, named=None
            )
            return [replace(inner, statements=block) for _, block in statement.clauses] + [
                replace(inner, statements=statement.otherwise)
            ]
        case ast.With():
            return [replace(place, statements=statement.body, named=None)]
        case ast.For() | ast.While():
            return [replace(place, statements=statement.body, in_loop=True, named=None)]
        case ast.Return() if not place.in_function:
            note = "indent it, so that it stands in the function's body"
            diagnostics.report("E104", "'return' outside a function", statement.span, note)
        case ast.Break() | ast.Continue() if not place.in_loop:
            word = "break" if isinstance(statement, ast.Break) else "continue"
            note = "it belongs into the body of a 'for' or a 'while'"
            diagnostics.report("E104", f"'{word}' outside a loop", statement.span, note)
        case ast.Declare(span=span):
            text = span.text if span.end - span.start < 60 else "name: type"
            note = f"give the name its first value here: {text} = …"
            diagnostics.report("E102", "a declaration without a value is not supported", span, note)
        case ast.Record() if place.in_function:
            note = "move it out of the function"
            diagnostics.report("E104", "a named tuple is defined at the outermost level", statement.name_span, note)
        case ast.Record():
            _check_name(statement, place, diagnostics)
    return []


def _check_name(found: ast.FunctionDef | ast.Record, place: _Place, diagnostics: Diagnostics) -> None:
    if place.named is None or found.span.start == found.span.end:
        return
    first = place.named.setdefault(found.name, found)
    if first is not found:
        both_functions = isinstance(found, ast.FunctionDef) and isinstance(first, ast.FunctionDef)
        note = f"the first definition is on line {first.name_span.line}; rename or remove one of the two"
        what = f"function '{found.name}'" if both_functions else f"'{found.name}'"
        diagnostics.report("E105", f"{what} is defined twice", found.name_span, note)

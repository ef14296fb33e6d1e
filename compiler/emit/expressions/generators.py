"""Generator expressions, `range(…)` and its like, where all of them is gone through at once: they are lists there."""

from __future__ import annotations

from typing import cast

from ....lang import ast
from ....lang.light_dataclasses import replace
from ...ops.registry import OPS
from ...spelling.overloads import Argued
from ...types.types import INT_LIST, strip_optional
from ..annotations import dotted_name
from ..emitter import Emitter, Evaluated
from .iteration import iterates

_FUNCTIONS = frozenset(("sum", "max", "min", "sorted", "tuple", "list", "math.prod"))
_METHODS = frozenset(("join", "extend"))
_LISTS = frozenset(("list", "tuple"))
"""What itself makes a list of a range."""


def with_lists(e: Emitter, node: ast.Call) -> ast.Call:
    """The call with lists for what Python would go through before anything else runs."""
    name = dotted_name(node.function)
    is_method = isinstance(node.function, ast.Attribute) and node.function.name in _METHODS
    takes_all = is_method or (name in _FUNCTIONS and e.is_free(name.partition(".")[0]))

    def given(argument: ast.Expr) -> ast.Expr:
        if isinstance(argument, ast.GeneratorExp) and takes_all:
            return _listed(argument)
        goes_over = iterates(e, argument) and name not in _LISTS
        return _listed(argument) if goes_over and takes_all else argument

    args = tuple(map(given, with_starred_lists(e, node.args)))
    if all(a is b for a, b in zip(args, node.args, strict=True)):
        return node
    made = replace(node, args=args)
    if id(node) in e.listed:
        e.listed[id(made)] = made
    return made


def with_starred_lists(e: Emitter, elements: tuple[ast.Expr, ...]) -> tuple[ast.Expr, ...]:
    """Expressions in a row, with a list where a star takes the elements of what is none."""

    return tuple(
        replace(element, value=given_as_list(e, element.value)) if isinstance(element, ast.Starred) else element
        for element in elements
    )


def given_as_list(e: Emitter, node: ast.Expr) -> ast.Expr:
    """A list of what a generator expression, or a range or the like, gives; any other expression itself."""
    return _listed(node) if isinstance(node, ast.GeneratorExp) or iterates(e, node) else node


def _listed(node: ast.Expr) -> ast.ListComp:
    through = node if isinstance(node, ast.GeneratorExp) else _going_through(node)
    return ast.ListComp(node.span, through.element, through.clauses)


def _going_through(node: ast.Expr) -> ast.GeneratorExp:
    item = ast.Name(node.span, "$item")
    return ast.GeneratorExp(node.span, item, (ast.Clause(node.span, item, node, ()),))


def take_tuples_for_lists(e: Emitter, node: ast.Call, name: str) -> None:
    """Let tuples and lists be the same in a call of torch, as they are to that: `tuple(…)` is a list, for of how many
    only a run may know, and `[n, 2]` a tuple where an op takes ints and `n` may be a tensor."""
    takes_ints = any(strip_optional(a.type) == INT_LIST for op in OPS.overloads(name) for a in op.schema.arguments)
    for value in (*node.args, *(keyword.value for keyword in node.keywords)):
        is_tuple = isinstance(value, ast.Call) and dotted_name(value.function) == "tuple"
        if is_tuple or (takes_ints and isinstance(value, ast.ListExpr)):
            e.listed[id(value)] = value


def through_elements(argued: Argued) -> ast.GeneratorExp:
    """`(item for item in value)`."""
    return _going_through(cast(ast.Expr, Evaluated(argued.span, argued.value)))

"""Names from outside of the source text, where they are used: see `emit.outside`."""

from __future__ import annotations

from typing import Any

from ....lang import ast
from ....lang.diagnostics import Abort
from ....lang.trampoline import Walk
from ...ir.graph import Callee
from ...ir.node import Value
from ..emitter import Emitter
from ..outside import Alias, BrokenFunction, OutsideConstant, RecordType, Recursion


def called_outside(e: Emitter, node: ast.Call, dotted: str) -> Callee | ast.Call | None:
    """What a call is of: a function from outside, or what the language has under another name; None for neither."""
    found = e.outside(dotted)
    match found:
        case None:
            return None
        case Callee():
            return e.unit.import_function(found)
        case Alias():
            return ast.Call(node.span, with_dotted_name(node.function, found.name), node.args, node.keywords)
        case OutsideConstant():
            raise e.fail("E204", f"'{dotted}' is {found.value!r}, not a function", node.function.span)
    raise outside_failure(e, node.function, dotted, found)


def emit_outside(e: Emitter, node: ast.Expr, dotted: str) -> Walk:
    """The value of a name from outside; None for one that nothing is known of."""
    yield from ()
    found = e.outside(dotted)
    match found:
        case None:
            return None
        case OutsideConstant():
            return outside_constant(e, node, found.value)
        case Alias():
            return (yield e.expression(with_dotted_name(node, found.name)))
        case Callee():
            raise e.fail("E202", f"'{dotted}' is a function and is not called", node.span, f"write `{dotted}(…)`")
        case RecordType():
            raise e.fail("E202", f"'{dotted}' is a named tuple and is not made", node.span, f"write `{dotted}(…)`")
    raise outside_failure(e, node, dotted, found)


def outside_constant(e: Emitter, node: ast.Syntax, value: Any) -> Value:
    """A constant where it is used. Tuples in it are no deeper than Python's source writes them, so this recurses."""
    if isinstance(value, tuple):
        return e.at(node).tuple([outside_constant(e, node, item) for item in value])
    return e.at(node).constant(value)


def outside_failure(e: Emitter, node: ast.Expr, dotted: str, found: Any) -> Abort:
    """The failure to use what a name stands for outside."""
    if isinstance(found, BrokenFunction):
        e.diagnostics.found += [d for d in found.diagnostics if d not in e.diagnostics.found]
        return Abort(dotted)
    if isinstance(found, Recursion):
        return e.fail("E407", f"recursion: {' → '.join(found.chain)}", node.span, "write a loop instead")
    return e.fail("E201", f"'{dotted}' is {found.message}", node.span, *found.notes)


def with_dotted_name(node: ast.Expr, dotted: str) -> ast.Expr:
    """A dotted name in the place of another."""
    first, *rest = dotted.split(".")
    made: ast.Expr = ast.Name(node.span, first)
    span = node.name_span if isinstance(node, ast.Attribute) else node.span
    for name in rest:
        made = ast.Attribute(node.span, made, name, span)
    return made

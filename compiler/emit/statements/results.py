"""What stands behind `return`."""

from __future__ import annotations

from collections.abc import Sequence

from ....lang import ast
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...types.types import CLOSURE, TupleType, Type, is_subtype
from ..emitter import Emitter, described
from ..expected import take_type, want_elements
from ..expressions.simple import emit_name
from ..stars import emit_elements, require_known


def emit_result(e: Emitter, node: ast.Expr) -> Walk:
    """The value of a `return`: the one place where a closure may stand, as the last element of a tuple."""
    if isinstance(node, ast.Name):
        value = yield emit_name(e, node)
        if value.type == CLOSURE:
            raise e.fail(
                "E402", "only a closure is returned", node.span, f"return the outputs before it: `return y, {node.id}`"
            )
        return value
    if e.returns is not None:
        want_elements(e, node, e.returns)
    if not isinstance(node, ast.TupleExpr) or not node.elements:
        return _as_returned(e, (yield e.expression(node)))
    values: list[Value] = []
    for element, type in zip(
        node.elements, e.returns.elements if isinstance(e.returns, TupleType) else (), strict=False
    ):
        want_elements(e, element, type)
    last = node.elements[-1]
    is_name = isinstance(last, ast.Name) and len(node.elements) > 1
    found = yield emit_elements(e, node.elements[:-1] if is_name else node.elements)
    require_known(e, found, "elements")
    values += [element.value for element in found]
    if isinstance(last, ast.Name) and is_name:
        values.append((yield _last_element(e, last)))
    return _as_returned(e, e.at(node).tuple(values))


def _as_returned(e: Emitter, value: Value) -> Value:
    if e.returns is not None:
        take_type(value, e.returns)
    return value


def _last_element(e: Emitter, node: ast.Name) -> Walk:
    value = yield emit_name(e, node)
    if value.type == CLOSURE and e.depth:
        raise e.fail(
            "E403",
            f"closure '{node.id}' is returned from inside a branch or a loop",
            node.span,
            f"return once, at the end, and put the `if` inside '{node.id}'",
            "code after an early `return` counts as its `else` branch",
        )
    return value


def check_annotation(e: Emitter, node: ast.FunctionDef, types: Sequence[Type]) -> None:
    """`-> T`: what is returned, the closure left out."""
    declared = e.returns
    if node.returns is None or declared is None:
        return
    actual: Type = types[0] if len(types) == 1 else TupleType(tuple(types))
    if not is_subtype(actual, declared):
        raise e.fail("E301", f"'{node.name}' returns {described(actual)}, not {described(declared)}", node.returns.span)


def report_falling_off(e: Emitter, node: ast.FunctionDef) -> None:
    """Report a function that comes to its end on some path, and returns a value on others."""
    if e.falls_off:
        message, note = f"'{node.name}' returns a value on some paths only", "end the function with a `return`"
        e.diagnostics.report("E306", message, node.name_span, note)

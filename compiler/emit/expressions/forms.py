"""Calls that are no op: an argument is a type, or the result is made of others."""

from __future__ import annotations

from ....lang import ast
from ....lang.trampoline import Walk
from ...analysis.python_tuples import is_shape
from ...spelling.names import LIMITS
from ...spelling.overloads import Argued
from ...types.types import INT, NUMBERS, ListType, TupleType, is_tensor, unify
from ..annotations import dotted_name, resolve_type
from ..emitter import Emitter, described
from ..expected import annotated, want_elements
from ..resolve import emit_arguments, emit_resolved
from .iteration import iterates
from .operators import emit_binary


def emit_annotate(e: Emitter, node: ast.Call) -> Walk:
    """`torch.jit.annotate(List[int], [])` is the value under that type."""
    if len(node.args) != 2 or node.keywords:
        raise e.fail("E204", "torch.jit.annotate() takes a type and a value", node.span)
    type = resolve_type(node.args[0], e.diagnostics, e.unit.environment)
    want_elements(e, node.args[1], type)
    value = yield e.expression(node.args[1])
    return annotated(e, node, value, type, node.args[1].span)


def emit_unwrap_optional(e: Emitter, node: ast.Call) -> Walk:
    arguments = yield emit_arguments(e, node)
    return emit_resolved(e, node, "_unwrap_optional", arguments, "torch.jit._unwrap_optional")


def emit_divmod(e: Emitter, node: ast.Call) -> Walk:
    """`divmod(a, b)` is `(a // b, a % b)`."""
    arguments: list[Argued] = yield emit_arguments(e, node)
    if len(arguments) != 2 or node.keywords:
        raise e.fail("E204", "divmod() takes two numbers", node.span)
    for argument in arguments:
        if argument.value.type not in NUMBERS:
            note = "write `a // b` and `a % b`"
            raise e.fail("E204", f"divmod() takes numbers, not {described(argument.value.type)}", argument.span, note)
    return e.at(node).tuple([emit_binary(e, node, op, *arguments) for op in ("//", "%")])


def emit_limits(e: Emitter, node: ast.Call) -> Walk:
    """`torch.finfo(dtype)` is a tuple of its numbers, of which those that nobody asks for are computed by nobody."""
    arguments: list[Argued] = yield emit_arguments(e, node)
    name = dotted_name(node.function).removeprefix("torch.")
    if len(arguments) != 1:
        raise e.fail("E204", f"torch.{name}() takes a dtype", node.span, f"write `torch.{name}(x.dtype)`")
    given = [Argued(arguments[0].value, arguments[0].span)]
    found = [emit_resolved(e, node, f"{name}_{limit}", given, f"torch.{name}") for limit in LIMITS[name]]
    type = TupleType(tuple(value.type for value in found), LIMITS[name])
    return e.at(node).node("prim::TupleConstruct", found, [type]).output


def emit_len(e: Emitter, node: ast.Call) -> Walk:
    """That of a tuple is known."""
    arguments: list[Argued] = yield emit_arguments(e, node)
    if len(arguments) == 1 and isinstance(arguments[0].value.type, TupleType):
        return e.at(node).constant(len(arguments[0].value.type.elements))
    return emit_resolved(e, node, "len", arguments, "len()")


def emit_list_call(e: Emitter, node: ast.Call) -> Walk:
    """`list(range(n))` and the like are a comprehension; of a tuple and of a tensor, a list of their elements."""
    if len(node.args) == 1 and not node.keywords and iterates(e, node.args[0]):
        item = ast.Name(node.span, "$item")
        return (yield e.expression(ast.ListComp(node.span, item, (ast.Clause(node.span, item, node.args[0], ()),))))
    arguments: list[Argued] = yield emit_arguments(e, node)
    if not arguments and not node.keywords:
        return (yield e.expression(ast.ListExpr(node.span, ())))
    value = arguments[0].value
    if len(arguments) == 1 and is_tensor(value.type):
        return emit_resolved(e, node, "unbind", arguments, "list()")
    if len(arguments) == 1 and isinstance(value.type, TupleType) and value.type.elements:
        type = value.type.elements[0]
        for element in value.type.elements[1:]:
            joined = unify(type, element)
            if joined is None:
                raise e.fail("E301", f"a list of {type} cannot hold {described(element)}", node.span)
            type = joined
        return e.at(node).list(e.elements(value, node), type)
    return emit_resolved(e, node, "list", arguments, "list()")


def emit_tuple_call(e: Emitter, node: ast.Call) -> Walk:
    """`tuple(x.shape)`, `tuple(range(n))`: sizes are lists. How many elements any other has is not known, but of a list
    that is written there."""
    given = node.args[0] if len(node.args) == 1 else None
    if isinstance(given, ast.Call) and isinstance(given.function, ast.Name) and given.function.id == "range":
        return (yield emit_list_call(e, node))
    if isinstance(given, ast.ListExpr):
        return (yield e.expression(ast.TupleExpr(node.span, given.elements)))
    arguments: list[Argued] = yield emit_arguments(e, node)
    if len(arguments) != 1 or node.keywords:
        raise e.fail("E204", "tuple() takes one value", node.span)
    value = arguments[0].value
    if isinstance(value.type, TupleType):
        return value
    if value.type == ListType(INT):
        # No list, which would be none in Python either: a copy of whatever it is.
        return value if is_shape(value) else e.value("aten::slice.t", node, value)
    if id(node) in e.listed and is_tensor(value.type):
        return emit_resolved(e, node, "unbind", arguments, "tuple()")
    if id(node) in e.listed and isinstance(value.type, ListType):
        return value
    note = "write its elements, `(l[0], l[1])`, or take the list as it is"
    raise e.fail("E204", f"tuple() takes sizes or a tuple, not {described(value.type)}", node.span, note)

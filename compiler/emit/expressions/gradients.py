"""What gradients are made of, in the text of functions that were made from others: `gs.autograd_zero()` and such."""

from __future__ import annotations

from ....lang import ast
from ....lang.trampoline import Walk
from ...types.types import (
    INT,
    INT_LIST,
    TENSOR,
    UNDEFINED,
    ListType,
    is_differentiable,
    is_subtype,
    is_tensor,
    unify,
)
from ..annotations import dotted_name
from ..emitter import Emitter, described
from ..resolve import emit_arguments


def emit_autograd_zero(e: Emitter, node: ast.Call) -> Walk:
    """A gradient that nobody computes."""
    yield _parts(e, node, 0)
    return e.at(node).undefined()


def emit_autograd_add(e: Emitter, node: ast.Call) -> Walk:
    """The sum of two gradients, or the one that is there."""
    left, right = yield _parts(e, node, 2)
    type = unify(left.type, right.type)
    if type is None or not (is_tensor(type) or type == UNDEFINED or is_differentiable(type)):
        raise e.fail("E204", f"gs.autograd_add() does not take ({left.type}, {right.type})", node.span)
    made = type if isinstance(type, ListType) else TENSOR
    return e.at(node).node("prim::AutogradAdd", [left, right], [made]).output


def emit_materialize_grad(e: Emitter, node: ast.Call) -> Walk:
    """A gradient, or zeros of a size and dtype in its place."""
    values = yield _parts(e, node, 3)
    for value, type in zip(values, (TENSOR, INT_LIST, INT), strict=True):
        if not is_subtype(value.type, type):
            message = f"gs.materialize_grad() takes {described(type)}, not {described(value.type)}"
            raise e.fail("E204", message, node.span)
    return e.at(node).node("prim::MaterializeGrad", values, [TENSOR]).output


def _parts(e: Emitter, node: ast.Call, count: int) -> Walk:
    """The values of so many arguments."""
    arguments = yield emit_arguments(e, node)
    if len(arguments) != count or node.keywords:
        raise e.fail("E204", f"{dotted_name(node.function)}() takes {count} arguments", node.span)
    return [argument.value for argument in arguments]

"""What a subscript may hold beside the syntax of slices: `slice(1, 3)`, `Ellipsis`, a name for such or for several."""

from __future__ import annotations

from typing import cast

from ....lang import ast
from ....lang.light_dataclasses import replace
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...spelling.overloads import Argued
from ...types.types import INT, NONE, ListType, OptionalType, is_subtype
from ..annotations import dotted_name
from ..emitter import Emitter, Evaluated, described
from ..expected import take_type
from ..resolve import as_int, emit_resolved
from ..scopes import Sliced
from ..stores import emit_write


def plain_subscript(e: Emitter, node: ast.Subscript) -> ast.Subscript:
    """The subscript with slices and `...` in the place of what stands for them."""
    if isinstance(node.index, ast.TupleExpr):
        return replace(node, index=_plain_items(e, node.index))
    item = _plain_item(e, node.index)
    return node if item is node.index else replace(node, index=item)


def _plain_items(e: Emitter, node: ast.TupleExpr) -> ast.TupleExpr:
    plain = ((item, _plain_item(e, item)) for item in node.elements)
    # A tuple inside the tuple is none of its items.
    return replace(node, elements=tuple(old if isinstance(new, ast.TupleExpr) else new for old, new in plain))


def _plain_item(e: Emitter, item: ast.Expr) -> ast.Expr:
    match item:
        case ast.Call() if is_slice(e, item):
            return _of_call(e, item)
        case ast.Name(id="Ellipsis") if e.is_free("Ellipsis"):
            return ast.Constant(item.span, ...)
        case ast.Name():
            binding = e.frame.lookup(item.id)
            if isinstance(binding, Sliced):
                return replace(binding.index, span=item.span)
    return item


def is_slice(e: Emitter, node: ast.Expr) -> bool:
    """Whether the expression is a call of Python's slice()."""
    return isinstance(node, ast.Call) and dotted_name(node.function) == "slice" and e.is_free("slice")


def stands_in_subscripts(e: Emitter, node: ast.Expr) -> bool:
    """Whether the expression is a slice, `...`, or a tuple with such."""
    items = _plain_items(e, node).elements if isinstance(node, ast.TupleExpr) else (_plain_item(e, node),)
    return any(isinstance(i, ast.Slice) or (isinstance(i, ast.Constant) and i.value is ...) for i in items)


def bind_slice(e: Emitter, name: str, node: ast.Expr) -> Walk:
    """`s = slice(…)`: the name stands for the slice in subscripts, and nowhere else."""
    if isinstance(node, ast.TupleExpr):
        items: list[ast.Expr] = []
        for item in _plain_items(e, node).elements:
            items.append((yield _emitted(e, item)))
        index: ast.Expr = replace(node, elements=tuple(items))
    else:
        index = yield _emitted(e, _plain_item(e, node))
    e.frame.bind(name, Sliced("E301", "is a slice", ("a slice stands in a subscript: `x[s]`",), index=index))


def _emitted(e: Emitter, item: ast.Expr) -> Walk:
    """What an item of a subscript stands for, its expressions emitted."""
    if isinstance(item, ast.Slice):
        bounds = yield emit_bounds(e, item)
        lower, upper, step = (cast(ast.Expr, Evaluated(item.span, bound)) for bound in bounds)
        return ast.Slice(item.span, lower, upper, step)
    if isinstance(item, ast.Constant) and item.value is ...:
        return item
    return Evaluated(item.span, (yield e.expression(item)))


def _of_call(e: Emitter, node: ast.Call) -> ast.Slice:
    if not 1 <= len(node.args) <= 3 or node.keywords:
        raise e.fail("E204", "slice() takes one to three bounds", node.span)
    bounds = [None if isinstance(a, ast.Constant) and a.value is None else a for a in node.args]
    lower, upper, step = (None, *bounds, None) if len(bounds) == 1 else (*bounds, None, None)[:3]
    return ast.Slice(node.span, lower, upper, step)


def emit_slice_call(e: Emitter, node: ast.Call) -> Walk:
    yield from ()
    raise e.fail("E301", "a slice stands outside a subscript", node.span, "write `x[slice(1, 3)]`, or `x[1:3]`")


def emit_list_slice(e: Emitter, target: ast.Subscript, base: Value, source: Argued | None) -> Walk:
    """`l[a:b] = items`, and `del l[a:b]` without any: what stands in front, the items, and what stands behind."""
    node = target.index
    assert isinstance(node, ast.Slice)
    what = "an assignment to" if source is not None else "deleting"
    if node.step is not None:
        note = "write into the elements one by one, or build a new list"
        raise e.fail("E102", f"{what} a slice of a list with a step", target.span, note)
    if source is not None and not isinstance(source.value.type, ListType):
        note = "a slice takes the elements of a list: `l[1:2] = [x]`"
        raise e.fail("E301", f"a slice of a list becomes {described(source.value.type)}", source.span, note)
    lower, upper, _ = yield emit_bounds(e, node)
    if isinstance(lower.type, OptionalType) or isinstance(upper.type, OptionalType):
        raise e.fail("E301", f"{what} a slice whose bounds may be None", target.span, "test them with `is not None`")
    first = e.builder.constant(0) if lower.type == NONE else lower
    nothing, one = e.builder.constant(None), e.builder.constant(1)
    front = e.value("aten::slice.t", target, base, nothing, first, one)
    replaced = e.value("aten::slice.t", target, base, nothing, upper, one)
    lengths = [e.value("aten::len.t", target, part) for part in (front, replaced)]
    behind = e.value("aten::slice.t", target, base, e.value("prim::max.int", target, *lengths), nothing, one)
    if source is not None:
        take_type(source.value, base.type)
        arguments = [Argued(front, target.span), source]
        front = emit_resolved(e, target, "add", arguments, "an assignment to a slice")
    new = e.value("aten::add.t", target, front, behind)
    if not is_subtype(new.type, base.type):
        raise e.fail("E301", f"a slice of {described(base.type)} becomes one of {new.type}", target.span)
    emit_write(e, target.span, base, new, "an assignment to a slice" if source is not None else "`del`")


def emit_bounds(e: Emitter, node: ast.Slice) -> Walk:
    """Start, end and step of a slice; None where left out, 1 for the step."""
    bounds: list[Value] = []
    for bound in (node.lower, node.upper, node.step):
        if bound is None:
            bounds.append(e.at(node).constant(1 if len(bounds) == 2 else None))
            continue
        value = as_int(e, bound, Argued((yield e.expression(bound)), bound.span)).value
        if value.type not in (INT, NONE, OptionalType(INT)):
            raise e.fail("E301", f"a slice's bound must be int, not {described(value.type)}", bound.span)
        if len(bounds) == 2 and value.type == NONE:
            value = e.builder.constant(1)
        bounds.append(value)
    return bounds

"""Subscripts: reading and storing elements, slices and index tensors.

`x[i, 1:, None, ..., idx]` becomes one view op per item, from the left up to `...` and from the right back to it,
so that no rank needs to be known; index tensors come last, in one aten::index. A store makes the same views and
scatters the new value back through them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....lang import ast
from ....lang.light_dataclasses import dataclass
from ....lang.trampoline import Walk
from ...ir.node import Value
from ...spelling.overloads import Argued
from ...types.dtypes import BOOL as BOOL_DTYPE
from ...types.dtypes import UINT8
from ...types.types import (
    BOOL,
    INT,
    INT_LIST,
    NONE,
    NUMBER,
    NUMBERS,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    is_tensor,
    leaf_of,
)
from ...types.types import TENSOR as TENSOR_TYPE
from ..emitter import Emitter, Evaluated, described
from ..expected import take_element
from ..resolve import emit_resolved
from ..stores import emit_overwrite, emit_update, emit_write
from .slices import emit_bounds, emit_list_slice, plain_subscript
from .tuples import emit_item

_TENSOR_SLICE = "aten::slice.Tensor"


Update = Callable[[Value], Walk]


@dataclass(slots=True)
class Part:
    """What a subscript selects: the part that its views took, and the index tensors still to apply, if any."""

    value: Value
    indices: Value | None = None


def emit_subscript(e: Emitter, node: ast.Subscript) -> Walk:
    base = yield e.expression(node.value)
    node = plain_subscript(e, node)
    if is_tensor(base.type):
        part = yield _select(e, node, base)
        if part.value is base and part.indices is None:
            # `x[...]` is another object than x.
            return e.value("aten::view_as", node, base, base)
        if part.indices is None:
            return part.value
        return e.value("aten::index.Tensor", node, part.value, part.indices)
    if isinstance(base.type, TupleType):
        return (yield emit_item(e, node, base))
    return (yield _list_item(e, node, base))


def _list_item(e: Emitter, node: ast.Subscript, base: Value) -> Walk:
    subject = Argued(base, node.value.span)
    if isinstance(node.index, ast.Slice):
        bounds = yield emit_bounds(e, node.index)
        arguments = [Argued(b, node.index.span) for b in bounds]
        return emit_resolved(e, node, "slice", [subject, *arguments], "a slice")
    index = yield e.expression(node.index)
    return emit_resolved(e, node, "__getitem__", [subject, Argued(index, node.index.span)], "a subscript")


def _select(e: Emitter, node: ast.Subscript, base: Value) -> Walk:
    """Apply every item of a tensor's subscript but the index tensors."""
    items, is_alone = yield _items(e, node.index)
    if is_alone and isinstance(items[0], Evaluated) and _is_of_tensors(items[0].value.type):
        # As in torch an index for each dimension, as `torch.where(mask)` gives them.
        return Part(base, items[0].value)
    ellipses = [i for i, item in enumerate(items) if isinstance(item, ast.Constant) and item.value is ...]
    if len(ellipses) > 1:
        raise e.fail("E101", "a subscript has one '...' at most", items[ellipses[1]].span)
    split = ellipses[0] if ellipses else len(items)
    part = Part(base)
    left: list[Value | None] = []
    right: list[Value | None] = []
    for item in items[:split]:
        yield _apply(e, item, part, left, from_right=False, is_alone=is_alone)
    for item in reversed(items[split + 1 :]):
        yield _apply(e, item, part, right, from_right=True)
    if any(v is not None for v in (*left, *right)):
        part.indices = _index_list(e, node, part.value, left, right, bool(ellipses))
    return part


def _items(e: Emitter, index: ast.Expr) -> Walk:
    """What a subscript is made of, and whether that is one thing: a tuple by any name is its elements."""
    if isinstance(index, ast.TupleExpr):
        return index.elements, False
    if isinstance(index, ast.Slice | ast.Constant):
        return (index,), True
    value = yield e.expression(index)
    if isinstance(value.type, TupleType):
        return tuple(Evaluated(index.span, element) for element in e.elements(value, index)), False
    return (Evaluated(index.span, value),), True


def _apply(
    e: Emitter, item: ast.Expr, part: Part, dims: list[Value | None], *, from_right: bool, is_alone: bool = False
) -> Walk:
    """Apply one item after those that `dims` stands for; `dims` gains an entry for each dimension that it leaves."""
    if isinstance(item, ast.Slice):
        bounds = yield emit_bounds(e, item)
        full = item.lower is None and item.upper is None and item.step is None
        if not full:
            _add_view(e, part, _TENSOR_SLICE, (_place(e, dims, from_right), *bounds))
        dims.append(None)
        return None
    value = yield e.expression(item)
    builder = e.at(item)
    if value.type == NONE:
        _add_view(e, part, "aten::unsqueeze", (_place(e, dims, from_right),))
        dims.append(None)
    elif value.type == INT:
        _add_view(e, part, "aten::select.int", (_place(e, dims, from_right), value))
    elif _is_one_integer(value.type):
        # As in torch: a view, where an index tensor makes a copy.
        number = builder.op("aten::Int.Tensor", value)
        _add_view(e, part, "aten::select.int", (_place(e, dims, from_right), number))
    elif value.type == BOOL:
        dims.append(builder.op("aten::tensor.bool", value))
    elif is_tensor(value.type) or value.type == OptionalType(TENSOR_TYPE):
        dims.append(value)
    elif value.type == INT_LIST:
        dims.append(builder.op("aten::_index_tensor", value))
    elif isinstance(value.type, ListType) and leaf_of(value.type) in (INT, BOOL):
        if is_alone and isinstance(value.type.element, ListType):
            note = "write its lists side by side, `x[[0, 1], [2, 3]]`, or `x[torch.tensor(l)]` for one index"
            raise e.fail("E301", "torch takes a list of lists for an index of each dimension", item.span, note)
        dims.append(emit_resolved(e, item, "tensor", [Argued(value, item.span)], "a subscript"))
    else:
        note = "write `int(…)` of it" if value.type == NUMBER else "use ints, slices, None or tensors"
        raise e.fail("E301", f"a tensor cannot be indexed by {described(value.type)}", item.span, note)
    return None


def _is_of_tensors(type: Type) -> bool:
    return isinstance(type, ListType) and isinstance(type.element, TensorType)


def _is_one_integer(type: Type) -> bool:
    """Whether it is surely a tensor that stands for an int in a subscript."""
    if not isinstance(type, TensorType) or type.rank != 0 or type.dtype is None:
        return False
    return not type.dtype.is_floating and type.dtype not in (BOOL_DTYPE, UINT8)


def _place(e: Emitter, dims: Sequence[Value | None], from_right: bool) -> Value:
    """The dimension after those that `dims` stands for, or before them from the right."""
    taken = _taken(e, dims)
    if isinstance(taken, int):
        return e.builder.constant(-1 - taken if from_right else taken)
    return e.builder.op("aten::sub.int", -1, taken) if from_right else taken


def _taken(e: Emitter, dims: Sequence[Value | None]) -> int | Value:
    """How many dimensions these entries stand for: a mask for as many as it has, which may be known when it runs."""
    masks = [value for value in dims if value is not None and _may_be_mask(value)]
    total: int | Value = len(dims) - len(masks)
    for mask in masks:
        total = e.builder.op("aten::add.int", e.builder.op("aten::_index_rank", mask), total)
    return total


def _may_be_mask(value: Value) -> bool:
    dtype = value.type.dtype if isinstance(value.type, TensorType) else None
    return dtype is None or dtype in (BOOL_DTYPE, UINT8)


def _add_view(e: Emitter, part: Part, op: str, arguments: tuple[Value, ...]) -> None:
    part.value = e.builder.op(op, part.value, *arguments)


def _index_list(
    e: Emitter, node: ast.Syntax, value: Value, left: Sequence[Value | None], right: list[Value | None], split: bool
) -> Value:
    """The argument of aten::index: a tensor or None for each dimension, as many Nones for `...` as it stands for."""
    builder = e.at(node)

    def listed(dims: Sequence[Value | None]) -> Value:
        return builder.list([v or builder.constant(None) for v in dims], OptionalType(TENSOR_TYPE))

    if not split or not any(v is not None for v in right):
        return listed(left)
    rank = builder.op("aten::dim", value)
    between = builder.op("aten::sub.int", rank, _taken(e, [*left, *right]))
    gap = builder.op("aten::mul.left_t", listed([None]), between)
    front = builder.op("aten::add.t", listed(left), gap) if left else gap
    return builder.op("aten::add.t", front, listed(list(reversed(right))))


# Stores

_ASSIGNMENT = "an item assignment"


def emit_subscript_store(e: Emitter, target: ast.Subscript, source: Argued) -> Walk:
    """`x[…] = value`: a write into the part."""
    base = yield e.expression(target.value)
    target = plain_subscript(e, target)
    if is_tensor(base.type):
        part = yield _select(e, target, base)
        _store_tensor(e, target, part, source, is_whole=part.value is base)
        return None
    if isinstance(base.type, TupleType):
        raise e.fail("E305", "a tuple cannot be changed", target.span, "build a new tuple")
    yield from _store_list(e, target, base, source)
    return None


def emit_subscript_update(e: Emitter, target: ast.Subscript, update: Update, in_place: bool) -> Walk:
    """`x[…] op= value`: the index is evaluated once. `update` makes the new part from the old one.

    Without `in_place` the operator makes an object of its own, which is stored.
    """
    base = yield e.expression(target.value)
    target = plain_subscript(e, target)
    if isinstance(base.type, TupleType):
        raise e.fail("E305", "a tuple cannot be changed", target.span, "build a new tuple")
    if not is_tensor(base.type):
        yield _update_list(e, target, base, update, in_place)
        return None
    part = yield _select(e, target, base)
    if part.indices is None and in_place:
        emit_update(e, target, part.value, (yield update(part.value)), _ASSIGNMENT)
        return None
    old = part.value if part.indices is None else e.value("aten::index.Tensor", target, part.value, part.indices)
    new = yield update(old)
    if in_place:
        new = e.value("aten::_updated", target, new, old)
    _store_tensor(e, target, part, Argued(new, target.span))
    return None


def _update_list(e: Emitter, target: ast.Subscript, base: Value, update: Update, in_place: bool) -> Walk:
    """`l[i] op= value`: a tensor among the elements is written into; any other is replaced."""
    index = yield e.expression(target.index)
    arguments = [Argued(base, target.value.span), Argued(index, target.index.span)]
    old = emit_resolved(e, target, "__getitem__", arguments, "a subscript")
    new = yield update(old)
    if in_place and is_tensor(old.type):
        emit_update(e, target, old, new, _ASSIGNMENT)
        return
    if isinstance(old.type, ListType):
        emit_write(e, target.span, old, new, _ASSIGNMENT)
        return
    stored = emit_resolved(e, target, "_set_item", [*arguments, Argued(new, target.span)], _ASSIGNMENT)
    emit_write(e, target.span, base, stored, _ASSIGNMENT)


def _store_list(e: Emitter, target: ast.Subscript, base: Value, source: Argued) -> Walk:
    if isinstance(target.index, ast.Slice):
        yield emit_list_slice(e, target, base, source)
        return
    index = yield e.expression(target.index)
    take_element(source.value, base)
    arguments = [Argued(base, target.value.span), Argued(index, target.index.span), source]
    new = emit_resolved(e, target, "_set_item", arguments, _ASSIGNMENT)
    emit_write(e, target.span, base, new, _ASSIGNMENT)


def _store_tensor(e: Emitter, target: ast.Subscript, part: Part, source: Argued, *, is_whole: bool = False) -> None:
    if part.indices is not None:
        value = _source(e, target, part.value, source)
        new = e.value("aten::index_put", target, part.value, part.indices, value)
    else:
        new = _filled(e, target, part.value, source)
    if is_whole and part.indices is None:
        emit_overwrite(e, target, part.value, new, _ASSIGNMENT)
        return
    emit_write(e, target.span, part.value, new, _ASSIGNMENT)


def _source(e: Emitter, node: ast.Syntax, like: Value, source: Argued) -> Value:
    """What goes to indices: a tensor, which must have the dtype already, or a number, which is given it."""
    if source.value.type in NUMBERS:
        return e.value("aten::new_full", node, like, e.builder.constant([], INT_LIST), source.value)
    if not is_tensor(source.value.type):
        raise e.fail("E301", f"a tensor cannot store {described(source.value.type)}", source.span)
    return source.value


def _filled(e: Emitter, node: ast.Syntax, part: Value, source: Argued) -> Value:
    """The source in the shape and dtype of the part that it replaces."""
    if source.value.type in NUMBERS:
        return e.value("aten::full_like", node, part, source.value)
    if not is_tensor(source.value.type):
        raise e.fail("E301", f"a tensor cannot store {described(source.value.type)}", source.span)
    cast = e.value("aten::type_as", node, source.value, part)
    return e.value("aten::clone", node, e.value("aten::_expand_into", node, cast, part))

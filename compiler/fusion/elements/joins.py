"""Elements of what is put together: of several tensors, of one and what lies around it, of a triangle."""

from __future__ import annotations

from ....lang.trampoline import Walk
from ...ir.node import PARAM, Node, Value
from ...kernel_ir.index import Index, constant
from ...kernel_ir.kernel import Condition, KernelConstant, Operand
from ...ops.dims import slice_bounds, wrap_dim
from ...types.dtypes import BOOL, DType
from .body import register_dtype
from .rule import ElementPlace, Elements, Incompatible, KnownFacts, LoadGuards, as_dtype
from .views import of_list

MOST_JOINED = 16
"""Tensors that are put together where their elements are needed: each is looked for in each position, so that work and
text grow with the square of their number. More are put together in memory."""


def cat(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """The first tensor whose part has not ended yet; each is read within its own part only. Many are stored, and read
    by the kernels that follow."""
    if group.joins_in_memory(node):
        raise Incompatible
    rank = group.known[node.output].rank
    dim = wrap_dim(group.known[node.inputs[1]], rank)
    wanted = group.known[node.output].dtype
    parts, start = [], 0
    for number, found in enumerate(group.known[node.inputs[0]]):
        if found.shape == (0,) and rank != 1:
            continue
        end = start + found.shape[dim]
        if end > start:
            inner = (*place[:dim], place[dim] - start, *place[dim + 1 :])
            within = group.within(guards, Condition(place[dim], start, end))
            if within is not None:
                operand = yield of_list(group, node.inputs[0], number, inner, within)
                parts.append((end, as_dtype(group, operand, register_dtype(found.dtype), wanted)))
        start = end
    return _chosen(group, place[dim], parts, wanted)


def stack(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    dim = wrap_dim(group.known[node.inputs[1]], group.known[node.output].rank)
    wanted = group.known[node.output].dtype
    inner, parts = (*place[:dim], *place[dim + 1 :]), []
    for number, found in enumerate(group.known[node.inputs[0]]):
        within = group.within(guards, Condition(place[dim], number, number + 1))
        if within is not None:
            operand = yield of_list(group, node.inputs[0], number, inner, within)
            parts.append((number + 1, as_dtype(group, operand, register_dtype(found.dtype), wanted)))
    return _chosen(group, place[dim], parts, wanted)


def joins_many(node: Node, known: KnownFacts, most: int = MOST_JOINED) -> bool:
    return len(known[node.inputs[0]]) > most


def stacks_few(node: Node, known: KnownFacts) -> bool:
    return not joins_many(node, known)


def joins_few_or_computed(node: Node, known: KnownFacts) -> bool:
    return stacks_few(node, known) or joins_computed(node, known)


def joins_computed(node: Node, known: KnownFacts) -> bool:
    """Whether it is put together of what kernels compute: they store it where it belongs, however much it is."""
    parts = node.inputs[0].node
    return (
        parts.kind == "prim::ListConstruct"
        and all(part.node.kind != PARAM for part in parts.inputs)
        and len({found.dtype for found in known[node.inputs[0]]}) == 1
    )


def _chosen(group: Elements, index: Index, parts: list[tuple[int, Operand]], dtype: DType) -> Operand:
    if not parts:
        return group.body.cast(KernelConstant(0), register_dtype(dtype))
    (_, result) = parts[-1]
    for end, operand in reversed(parts[:-1]):
        result = group.body.where(group.body.within(index, None, end), operand, result, register_dtype(dtype))
    return result


def add_n(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """The elements of a list's tensors, which are broadcast, added up from the left."""
    dtype = register_dtype(group.known[node.output].dtype)
    total: Operand | None = None
    for number, found in enumerate(group.known[node.inputs[0]]):
        own = place[len(place) - found.rank :]
        inner = tuple(constant(0) if size == 1 else index for index, size in zip(own, found.shape, strict=True))
        term = yield of_list(group, node.inputs[0], number, inner, guards)
        total = term if total is None else group.body.compute(node.output.name_hint, "add", dtype, [total, term])
    return total


def adds_one_dtype(node: Node, known: KnownFacts) -> bool:
    """Sums of unlike dtypes are promoted one by one; each of bools is one of its own."""
    dtypes = {found.dtype for found in known[node.inputs[0]]}
    return len(dtypes) == 1 and BOOL not in dtypes


def slice_scatter(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """The source within the slice, the tensor around it."""
    tensor, source, *rest = node.inputs
    dim, start, end, step = (group.known[value] for value in rest)
    shape = group.known[tensor].shape
    dim = wrap_dim(dim, len(shape))
    first, last = slice_bounds(start, end, shape[dim])
    count = max(0, -(-(last - first) // step))
    if not count:
        return (yield group.element(tensor, place, guards))
    part = Condition(place[dim], first, first + (count - 1) * step + 1)
    offset = place[dim] - first
    # Before the first and behind the last position of the step there may be none that fits the step.
    low = first if first >= step else None
    inside = group.inside(place[dim], low, part.high if first + count * step < shape[dim] else None, guards)
    within = group.within(guards, part)
    if step > 1 and within is not None:
        remainder = offset.modulo(step, group.sizes)
        fits = group.body.compute("", "eq", BOOL, [group.body.position(remainder), KernelConstant(0)])
        inside = group.body.both(inside, fits)
        within = group.within(within, Condition(remainder, 0, 1))
    inner = (*place[:dim], offset.divided(step, group.ranges(within or ())), *place[dim + 1 :])
    return (yield _inside_or(group, node, inside, (source, inner), within, place, guards))


def select_scatter(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    tensor, source, *rest = node.inputs
    dim, index = (group.known[value] for value in rest)
    shape = group.known[tensor].shape
    dim = wrap_dim(dim, len(shape))
    at = index % shape[dim]
    inside = group.inside(place[dim], at or None, at + 1 if at + 1 < shape[dim] else None, guards)
    inner = (*place[:dim], *place[dim + 1 :])
    within = group.within(guards, Condition(place[dim], at, at + 1))
    return (yield _inside_or(group, node, inside, (source, inner), within, place, guards))


def _inside_or(
    group: Elements,
    node: Node,
    inside: Operand,
    source: tuple[Value, ElementPlace],
    within: LoadGuards | None,
    place: ElementPlace,
    guards: LoadGuards,
) -> Walk:
    dtype = register_dtype(group.known[node.output].dtype)
    if within is None:
        return (yield group.element(node.inputs[0], place, guards))
    around = yield group.element(node.inputs[0], place, guards)
    value, inner = source
    operand = yield group.element(value, inner, within)
    operand = as_dtype(group, operand, register_dtype(group.known[value].dtype), dtype)
    return group.body.where(inside, operand, around, dtype)


def padded_element(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """Padding counts from the last dimension, two numbers for each."""
    arguments = {a.name: group.known.get(v) for a, v in zip(node.schema.arguments, node.inputs, strict=True)}  # type: ignore[union-attr]
    shape, widths = group.known[node.inputs[0]].shape, arguments["pad"] or []
    value = arguments["value"]
    dtype = register_dtype(group.known[node.output].dtype)
    fill = group.body.cast(KernelConstant(value or 0), dtype)
    inner, within = list(place), guards
    inside: Operand = KernelConstant(True)
    for number in range(len(widths) // 2):
        dim = len(shape) - 1 - number
        before, after = widths[2 * number], widths[2 * number + 1]
        inner[dim] = place[dim] - before
        if before > 0 or after > 0:
            left = group.within(within, Condition(inner[dim], 0, shape[dim]))
            if left is None:
                return fill
            found = group.inside(inner[dim], 0 if before > 0 else None, shape[dim] if after > 0 else None, guards)
            within, inside = left, group.body.both(inside, found)
    operand = yield group.element(node.inputs[0], tuple(inner), within)
    return group.body.where(inside, operand, fill, dtype)


def pads_with_constant(node: Node, known: KnownFacts) -> bool:
    return node.kind != "aten::pad" or known.get(node.inputs[2]) == "constant"


def triangle(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """tril keeps j - i <= diagonal, triu j - i >= diagonal."""
    diagonal = group.known[node.inputs[1]]
    distance = place[-1] - place[-2]
    lower = node.kind.startswith("aten::tril")
    keeps = group.inside(distance, None if lower else diagonal, diagonal + 1 if lower else None, guards)
    dtype = register_dtype(group.known[node.output].dtype)
    operand = yield group.element(node.inputs[0], place, guards)
    return group.body.where(keeps, operand, group.body.cast(KernelConstant(0), dtype), dtype)

"""Elements that are read by index, and those that are made of nothing: numbers, positions, random ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from ....lang.trampoline import Walk
from ...ir.node import Node, Value
from ...kernel_ir.index import Index, constant
from ...kernel_ir.index import value as index_value
from ...kernel_ir.kernel import Condition, KernelConstant, Operand
from ...kernel_ir.layout import contiguous_strides
from ...ops.arrays import can_fill, numpy_dtype
from ...ops.dims import wrap_dim
from ...ops.families.creation import in_steps_of
from ...ops.meta import UNKNOWN, Meta
from ...types.dtypes import BOOL, INT32, INT64, DType, Number
from ...types.open_sizes import is_open
from .body import register_dtype
from .rule import ElementPlace, Elements, Incompatible, KnownFacts, LoadGuards, as_dtype
from .views import of_list

MOST_SCATTERED = 8
"""Slices that each element of a tensor asks whether they are meant for it, as of the few experts of a token."""


def _found(
    group: Elements,
    source: Value,
    reads: Mapping[int, Callable[[LoadGuards], Walk]],
    around: ElementPlace,
    guards: LoadGuards,
) -> Walk:
    """The element of a tensor at `around`, but along the dimensions of `reads` where their indices say.

    Outside of the tensor nothing is read, and the element is 0: a device tells of a bad index no other way. Where the
    tensor is made of nothing, as zeros are, it is the index that is read again within those bounds.
    """
    shape, rest, place, found = group.known[source].shape, iter(around), list[Index](), dict[Condition, Operand]()
    again: dict[Condition, Callable[[LoadGuards], Walk]] = {}
    for number, size in enumerate(shape):
        if number not in reads:
            place.append(next(rest))
            continue
        operand = yield reads[number](guards)
        if isinstance(operand, KernelConstant):
            if not 0 <= operand.value < size:
                raise Incompatible
            place.append(constant(int(operand.value)))
            continue
        place.append(index_value(operand))
        inside = Condition(place[-1], 0, size)
        found[inside], again[inside] = operand, reads[number]
    element = yield group.element(source, tuple(place), (*guards, *found))
    same: Operand = KernelConstant(True)
    for inside, operand in found.items():
        if group.body.loads_within(inside):
            continue
        repeated = yield again[inside]((*guards, inside))
        if not group.body.loads_within(inside):
            raise Incompatible
        same = group.body.both(same, group.body.compute("", "eq", BOOL, [repeated, operand]))
    return group.body.where(same, element, KernelConstant(0), register_dtype(group.known[source].dtype))


def _read(group: Elements, index: Value, at: ElementPlace) -> Callable[[LoadGuards], Walk]:
    """An element of an index tensor, within guards."""

    def read(guards: LoadGuards) -> Walk:
        return group.body.cast((yield group.element(index, at, guards)), INT64)

    return read


def one_hot(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """1 where the position along the last dimension is the class, which is read again within its bounds: what lies
    outside is refused where kernels can tell, and a row of zeros where they cannot."""
    classes, at = node.inputs[0], place[:-1]
    dtype = register_dtype(group.known[node.output].dtype)
    wanted = group.body.cast((yield group.element(classes, at, guards)), INT64)
    size = group.known[node.output].shape[-1]
    if isinstance(wanted, KernelConstant):
        if not 0 <= wanted.value < size:
            raise Incompatible
        return group.body.cast(group.body.within(place[-1], int(wanted.value), int(wanted.value) + 1), dtype)
    position = group.body.position(place[-1])
    if group.body.is_place_of(wanted, size, group.sizes):
        return group.body.cast(group.body.compute("", "eq", BOOL, [position, wanted]), dtype)
    inside = Condition(index_value(wanted), 0, size)
    again = group.body.cast((yield group.element(classes, at, (*guards, inside))), INT64)
    if not group.body.loads_within(inside):
        raise Incompatible
    hit = group.body.compute("", "eq", BOOL, [position, again])
    return group.body.cast(group.body.both(hit, group.body.compute("", "eq", BOOL, [again, wanted])), dtype)


def counts_classes(node: Node, known: KnownFacts) -> bool:
    """Whether it is said how many there are; the largest class is known when the op has run."""
    given = known.get(node.inputs[0])
    return isinstance(given, Meta) and given.dtype == INT64 and known[node.inputs[1]] > 0


def gathered_element(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    source, dim, index = node.inputs[:3]
    number = wrap_dim(group.known[dim], group.known[source].rank)
    around = (*place[:number], *place[number + 1 :])
    return (yield _found(group, source, {number: _read(group, index, place)}, around, guards))


def index_select(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    source, dim, index = node.inputs
    number = wrap_dim(group.known[dim], group.known[source].rank)
    at = place[number : number + group.known[index].rank]
    around = (*place[:number], *place[number + 1 :])
    return (yield _found(group, source, {number: _read(group, index, at)}, around, guards))


def embedding(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    weight, indices = node.inputs[:2]
    rank = group.known[indices].rank
    return (yield _found(group, weight, {0: _read(group, indices, place[:rank])}, place[rank:], guards))


def subscripted(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """`x[i, :, j]`: where several indices say, each repeated to the shape of all, and counted from the end below 0."""
    source, indices = node.inputs
    given = {d: index for d, index in enumerate(group.known[indices]) if index is not None}
    rank, last = max(index.rank for index in given.values()), max(given)
    first = min(given) if last - min(given) + 1 == len(given) else 0
    at, around = place[first : first + rank], (*place[:first], *place[first + rank :])
    reads = {d: _counted(group, indices, d, at, group.known[source].shape[d]) for d in given}
    return (yield _found(group, source, reads, around, guards))


def _counted(group: Elements, indices: Value, which: int, at: ElementPlace, size: int) -> Callable[[LoadGuards], Walk]:
    """An element of one of several index tensors, from the beginning of a dimension of so many elements."""
    shape = group.known[indices][which].shape
    own = tuple(constant(0) if n == 1 else p for n, p in zip(shape, at[len(at) - len(shape) :], strict=True))

    def read(guards: LoadGuards) -> Walk:
        body, wanted = group.body, (yield of_list(group, indices, which, own, guards))
        wanted = body.cast(wanted, INT64)
        from_end = body.compute("", "add", INT64, [wanted, KernelConstant(size)])
        return body.where(body.compute("", "lt", BOOL, [wanted, KernelConstant(0)]), from_end, wanted, INT64)

    return read


def subscripts_integers(node: Node, known: KnownFacts) -> bool:
    """Whether all indices are tensors of integers that have dimensions: a mask chooses as many as it will, and a number
    selects a view. A list that has places without is in memory nowhere: what is in it has to be seen."""
    found, source = known.get(node.inputs[1]), known.get(node.inputs[0])
    if not isinstance(found, list) or not isinstance(source, Meta):
        return False
    given = [index for index in found if index is not None]
    if len(given) < len(found) and node.inputs[1].node.kind != "prim::ListConstruct":
        return False
    return bool(given) and all(isinstance(i, Meta) and i.dtype in (INT32, INT64) and i.rank > 0 for i in given)


def reads_by_integers(node: Node, known: KnownFacts) -> bool:
    """Whether the index is one: what is none, torch refuses. A tensor of no dimensions has none to read along."""
    assert node.schema is not None
    named = {a.name: known.get(v) for a, v in zip(node.schema.arguments, node.inputs, strict=True)}
    index, source = named.get("index", named.get("indices")), known.get(node.inputs[0])
    reads = isinstance(index, Meta) and index.dtype in (INT32, INT64)
    return reads and isinstance(source, Meta) and source.rank > 0


def scattered(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """What a few slices write, the last of them where several meet, or add to what was there."""
    tensor, dim, index, source = node.inputs[:4]
    number = wrap_dim(group.known[dim], group.known[tensor].rank)
    dtype = register_dtype(group.known[node.output].dtype)
    is_added = node.kind == "aten::scatter_add"
    element = yield group.element(tensor, place, guards)
    for which_slice in range(group.known[index].shape[number]):
        at = (*place[:number], constant(which_slice), *place[number + 1 :])
        wanted = yield _place_within(group, index, at, group.known[tensor].shape[number], guards)
        written = yield _written(group, source, at, dtype, guards)
        if is_added and not (isinstance(element, KernelConstant) and element.value == 0):
            written = group.body.compute("", "add", dtype, [element, written])
        hit = group.body.compute("", "eq", BOOL, [group.body.position(place[number]), wanted])
        element = group.body.where(hit, written, element, dtype)
    return element


def _place_within(group: Elements, index: Value, at: ElementPlace, size: int, guards: LoadGuards) -> Walk:
    """What an index says, read again within the bounds of a dimension, where it is read: what lies outside is refused
    where kernels can tell, and no place where they cannot."""
    read = _read(group, index, at)
    wanted = yield read(guards)
    if isinstance(wanted, KernelConstant):
        if not 0 <= wanted.value < size:
            raise Incompatible
        return wanted
    inside = Condition(index_value(wanted), 0, size)
    again = yield read((*guards, inside))
    if not group.body.loads_within(inside):
        return wanted
    same = group.body.compute("", "eq", BOOL, [again, wanted])
    return group.body.where(same, wanted, KernelConstant(-1), INT64)


def _written(group: Elements, source: Value, at: ElementPlace, dtype: DType, guards: LoadGuards) -> Walk:
    """An element of what is scattered, or the number that is everywhere."""
    found = group.known[source]
    if not isinstance(found, Meta):
        return group.body.cast(KernelConstant(found), dtype)
    return as_dtype(group, (yield group.element(source, at, guards)), register_dtype(found.dtype), dtype)


def scatters_few(node: Node, known: KnownFacts) -> bool:
    """Whether so few slices are scattered that each element can ask all of them, and each has a place everywhere."""
    tensor, dim, index, source = node.inputs[:4]
    found, whole, given = known.get(index), known.get(tensor), known.get(source)
    if not isinstance(found, Meta) or not isinstance(whole, Meta) or not found.rank == whole.rank > 0:
        return False
    number = wrap_dim(known[dim], found.rank)
    count, others = found.shape[number], [d for d in range(found.rank) if d != number]
    if type(count) is not int or not 1 <= count <= MOST_SCATTERED or found.dtype != INT64:
        return False
    covers = all(found.shape[d] == whole.shape[d] for d in others)
    fits = given.shape == found.shape and given.dtype == whole.dtype if isinstance(given, Meta) else True
    return covers and fits


# --- making ---


def filled_element(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    yield from ()
    arguments = dict(zip([a.name for a in node.schema.arguments], node.inputs, strict=True))  # type: ignore[union-attr]
    result = group.known[node.output].dtype
    dtype = register_dtype(result)
    name = node.schema.base_name  # type: ignore[union-attr]
    if "fill_value" in arguments or "s" in arguments:
        value = arguments.get("fill_value") or arguments["s"]
        number = group.known.get(value, UNKNOWN)
        if number is UNKNOWN:
            return group.body.cast(group.number(value), dtype)
        if not can_fill(group.known[node.output].shape, number, result):
            # The op says what is wrong.
            raise Incompatible
        if result.is_floating and not is_open(number):
            # In its own dtype it may be another one, which shows where it is computed with in a wider one.
            number = np.asarray(number).astype(numpy_dtype(result)).item()
        return group.body.cast(KernelConstant(number), dtype)
    return group.body.cast(KernelConstant(1 if "ones" in name else 0), dtype)


def one(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """What a gradient begins with, where the output is one number."""
    yield from ()
    return group.body.cast(KernelConstant(1), register_dtype(group.known[node.output].dtype))


def is_one_number(node: Node, known: KnownFacts) -> bool:
    """Whether a tensor has one element. Of any other, the op says what is wrong."""
    return bool(prod(known[node.output].shape) == 1)


def arange(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    yield from ()
    arguments = {a.name: group.known.get(v) for a, v in zip(node.schema.arguments, node.inputs, strict=True)}  # type: ignore[union-attr]
    given: Number = 1 if arguments.get("step") is None else arguments["step"] or 0
    start, step = in_steps_of(arguments["dtype"], arguments.get("start") or 0, given)
    dtype = register_dtype(group.known[node.output].dtype)
    if isinstance(start, int) and isinstance(step, int):
        return group.body.cast(group.body.position(place[0] * step + start), dtype)
    position = group.body.cast(group.body.position(place[0]), dtype)
    return group.body.compute(
        "",
        "add",
        dtype,
        [group.body.compute("", "mul", dtype, [position, KernelConstant(step)]), KernelConstant(start)],
    )


def eye(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    yield from ()
    row, column = (group.body.position(index) for index in place)
    hit = group.body.compute("", "eq", BOOL, [row, column])
    return group.body.cast(hit, register_dtype(group.known[node.output].dtype))


def is_no_less_than_empty(node: Node, known: KnownFacts) -> bool:
    """Whether no size is negative: the op says what is wrong."""
    return all(size >= 0 for size in known[node.output].shape)


def uniform(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    yield from ()
    meta = group.known[node.output]
    seed = group.known.get(node.inputs[0])
    operand = KernelConstant(seed) if isinstance(seed, int) else group.number(node.inputs[0])
    counter = constant(0)
    for index, stride in zip(place, contiguous_strides(meta.shape), strict=True):
        counter += index * stride
    drawn = group.body.uniform(node.output.name_hint or "uniform", operand, counter)
    return group.body.cast(drawn, register_dtype(meta.dtype))

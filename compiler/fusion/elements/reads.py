"""Elements that are read by index, and those that are made of nothing: numbers, positions, random ones."""

from __future__ import annotations

from math import prod

import numpy as np

from ....lang.trampoline import Walk
from ...ir.node import Node, Value
from ...kernel_ir.index import constant
from ...kernel_ir.index import value as index_value
from ...kernel_ir.kernel import Condition, KernelConstant
from ...kernel_ir.layout import contiguous_strides
from ...ops.arrays import can_fill, numpy_dtype
from ...ops.dims import wrap_dim
from ...ops.families.creation import in_steps_of
from ...ops.meta import UNKNOWN, Meta
from ...types.dtypes import BOOL, INT32, INT64, Number
from ...types.open_sizes import is_open
from .body import register_dtype
from .rule import ElementPlace, Elements, Incompatible, KnownFacts, LoadGuards, as_dtype


def _found(
    group: Elements,
    source: Value,
    number: int,
    index: Value,
    places: tuple[ElementPlace, ElementPlace],
    guards: LoadGuards,
) -> Walk:
    """The element of a tensor at `places[1]`, but along dimension `number` where `places[0]` of an index tensor says.

    Outside of the tensor nothing is read, and the element is 0: a device tells of a bad index no other way. Where the
    tensor is made of nothing, as zeros are, it is the index that is read again within those bounds.
    """
    at, around = places
    operand = group.body.cast((yield group.element(index, at, guards)), INT64)
    size = group.known[source].shape[number]
    if isinstance(operand, KernelConstant) and not 0 <= operand.value < size:
        raise Incompatible
    found = constant(int(operand.value)) if isinstance(operand, KernelConstant) else index_value(operand)
    inside = Condition(found, 0, size)
    element = yield group.element(source, (*around[:number], found, *around[number:]), (*guards, inside))
    if not found.values or group.body.loads_within(inside):
        return element
    again = group.body.cast((yield group.element(index, at, (*guards, inside))), INT64)
    if not group.body.loads_within(inside):
        raise Incompatible
    same = group.body.compute("", "eq", BOOL, [again, operand])
    return group.body.where(same, element, KernelConstant(0), register_dtype(group.known[source].dtype))


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
    return (yield _found(group, source, number, index, (place, around), guards))


def index_select(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    source, dim, index = node.inputs
    number = wrap_dim(group.known[dim], group.known[source].rank)
    at = place[number : number + group.known[index].rank]
    around = (*place[:number], *place[number + 1 :])
    return (yield _found(group, source, number, index, (at, around), guards))


def embedding(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    weight, indices = node.inputs[:2]
    rank = group.known[indices].rank
    return (yield _found(group, weight, 0, indices, (place[:rank], place[rank:]), guards))


def reads_by_integers(node: Node, known: KnownFacts) -> bool:
    """Whether the index is one: what is none, torch refuses. A tensor of no dimensions has none to read along."""
    assert node.schema is not None
    named = {a.name: known.get(v) for a, v in zip(node.schema.arguments, node.inputs, strict=True)}
    index, source = named.get("index", named.get("indices")), known.get(node.inputs[0])
    reads = isinstance(index, Meta) and index.dtype in (INT32, INT64)
    return reads and isinstance(source, Meta) and source.rank > 0


def scatter_one(group: Elements, node: Node, which: int, place: ElementPlace, guards: LoadGuards) -> Walk:
    """scatter_add of a single slice: the source where the index says so, added to what was there."""
    tensor, dim, index, source = node.inputs[:4]
    number = wrap_dim(group.known[dim], group.known[tensor].rank)
    dtype = register_dtype(group.known[node.output].dtype)
    single = (*place[:number], constant(0), *place[number + 1 :])
    wanted = group.body.cast((yield group.element(index, single, guards)), INT64)
    hit = group.body.compute("", "eq", BOOL, [group.body.position(place[number]), wanted])
    base = yield group.element(tensor, place, guards)
    added = yield group.element(source, single, guards)
    added = as_dtype(group, added, register_dtype(group.known[source].dtype), dtype)
    if isinstance(base, KernelConstant) and base.value == 0:
        return group.body.where(hit, added, base, dtype)
    return group.body.where(hit, group.body.compute("", "add", dtype, [base, added]), base, dtype)


def scatters_one(node: Node, known: KnownFacts) -> bool:
    tensor, dim, index, source = node.inputs[:4]
    found, whole = known.get(index), known.get(tensor)
    if not isinstance(found, Meta) or not isinstance(whole, Meta) or not found.rank == whole.rank > 0:
        return False
    number = wrap_dim(known[dim], found.rank)
    others = [d for d in range(found.rank) if d != number]
    covers = all(found.shape[d] == whole.shape[d] for d in others)
    return found.shape[number] == 1 and known[source].shape == found.shape and covers


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

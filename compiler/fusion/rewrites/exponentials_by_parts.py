"""Sums of exponentials over columns in one pass: part by part beside the part's own largest, and rescaled.

Where programs share out what is summed, the largest of a column is known when all are through, and what is summed
beside it is another pass over memory. Of parts that a program holds, both are found at once:

    Σ exp(x - s) = Σ over parts of exp(z - s) · Σ within the part of exp(x - z)         for any s and z

Within parts whose largest is infinite z = 0, and they are rescaled by what is largest all the same: of -∞ alone they
add nothing, however far below zero s is, and what ∞ makes of a sum it makes of it so too. Where the same elements are
summed along rows as well, as similarities of a contrastive loss are, parts are blocks of both, which one program holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from ....lang.light_dataclasses import dataclass
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node
from ...ops.arguments import Shape
from ...ops.meta import Meta
from ...scheduling.limits import LIMITS
from ...types.dtypes import FLOAT32
from ..planning.reductions import is_of_columns, reduction_of
from ..statistics import in_halves
from .drawn import Supported, waits_for_reductions

PART = 128
"""Elements of a column, and of a row, that a part has."""
PROGRAMS = 512
"""That reduce columns side by side, `LIMITS.lanes` each: of parts half as high there are as many again."""
LEAST = 2 * PART
"""Elements of a column at least that is summed by parts."""
MOST_FOLLOWED = 6
"""Values from the largest to what is taken off."""
_LOWEST = float("-inf")


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum along `dim` of exponentials of `difference`, x - shift; and the nodes that look for the largest of x."""

    node: Node
    difference: Node
    dim: int
    largest: tuple[Node, ...]

    @property
    def x(self) -> Value:
        return self.difference.inputs[0]

    @property
    def shift(self) -> Value:
        """What is taken off, as it is found by now."""
        return self.difference.inputs[1]


def sum_exponentials_by_parts(
    graph: Graph, known: Mapping[Value, Any], supports: Supported, whole_columns: int
) -> bool:
    """Replace sums of exponentials along dimensions that programs share out, where the largest is taken off. `known` is
    what `settle_shapes` gives for the graph; of `whole_columns` side by side, programs take some from top to bottom.

    Before:
        graph f(%x : Tensor):
          %1 : List[int] = prim::Constant[value=[0]]()
          %2 : bool = prim::Constant[value=True]()
          %3 : None = prim::Constant[value=None]()
          %4 : int = prim::Constant[value=1]()
          %largest : Tensor = aten::amax(%x, %1, %2)
          %5 : Tensor = aten::sub.Tensor(%x, %largest, %4)
          %6 : Tensor = aten::exp(%5)
          %7 : Tensor = aten::sum.dim_IntList(%6, %1, %2, %3)
          return (%7)
    After:
        graph f(%x : Tensor):
          %1 : List[int] = prim::Constant[value=[625, 64, 3]]()
          %2 : Tensor = aten::reshape(%x, %1)
          %3 : List[int] = prim::Constant[value=[1]]()
          %4 : bool = prim::Constant[value=True]()
          %5 : Tensor = aten::amax(%2, %3, %4)
          %6 : Tensor[bool] = aten::isinf(%5)
          %7 : float = prim::Constant[value=0.0]()
          %8 : Tensor = aten::where.ScalarSelf(%6, %7, %5)
          %9 : int = prim::Constant[value=1]()
          %10 : Tensor = aten::sub.Tensor(%2, %8, %9)
          %11 : Tensor = aten::exp(%10)
          %12 : List[int] = prim::Constant[value=[1]]()
          %13 : bool = prim::Constant[value=True]()
          %14 : None = prim::Constant[value=None]()
          %15 : Tensor = aten::sum.dim_IntList(%11, %12, %13, %14)
          %16 : int = prim::Constant[value=1]()
          %17 : Tensor = aten::squeeze.dim(%5, %16)
          %18 : List[int] = prim::Constant[value=[625, 3]]()
          %19 : Tensor = aten::reshape(%17, %18)
          %20 : int = prim::Constant[value=0]()
          %21 : int = prim::Constant[value=1]()
          %22 : Tensor = aten::movedim.int(%19, %20, %21)
          %23 : int = prim::Constant[value=1]()
          %24 : Tensor = aten::squeeze.dim(%15, %23)
          %25 : List[int] = prim::Constant[value=[625, 3]]()
          %26 : Tensor = aten::reshape(%24, %25)
          %27 : int = prim::Constant[value=0]()
          %28 : int = prim::Constant[value=1]()
          %29 : Tensor = aten::movedim.int(%26, %27, %28)
          %30 : List[int] = prim::Constant[value=[1]]()
          %31 : bool = prim::Constant[value=False]()
          %32 : Tensor = aten::amax(%22, %30, %31)
          %33 : List[int] = prim::Constant[value=[1, 3]]()
          %largest : Tensor = aten::reshape(%32, %33)
          %34 : int = prim::Constant[value=0]()
          %35 : int = prim::Constant[value=1]()
          %36 : Tensor = aten::movedim.int(%largest, %34, %35)
          %37 : int = prim::Constant[value=1]()
          %38 : Tensor = aten::sub.Tensor(%22, %36, %37)
          %39 : Tensor = aten::exp(%38)
          %40 : Tensor = aten::mul.Tensor(%29, %39)
          %41 : List[int] = prim::Constant[value=[1]]()
          %42 : bool = prim::Constant[value=False]()
          %43 : None = prim::Constant[value=None]()
          %44 : Tensor = aten::sum.dim_IntList(%40, %41, %42, %43)
          %45 : List[int] = prim::Constant[value=[1, 3]]()
          %46 : Tensor = aten::reshape(%44, %45)
          return (%46)
    """
    if not whole_columns:
        return False
    sums = [found for node in graph.nodes if (found := _sum(node, known)) is not None]
    of_each: dict[Value, list[_Sum]] = {}
    for found in sums:
        of_each.setdefault(found.x, []).append(found)
    changed = False
    for x, alike in of_each.items():
        taken = _taken(alike, known[x].shape, whole_columns)
        if taken and not waits_for_reductions(x, known, supports):
            _by_parts(graph, x, taken, known)
            changed = True
    return changed


def _sum(node: Node, known: Mapping[Value, Any]) -> _Sum | None:
    """What a node sums up, where that is exponentials along one dimension, less what follows from the largest."""
    powers = node.inputs[0].node if node.inputs else node
    if powers.kind != "aten::exp":
        return None
    found, difference = reduction_of(node, known), powers.inputs[0].node
    if found is None or found.combine != "sum" or len(found.dims) != 1 or found.divisor is not None:
        return None
    if difference.kind != "aten::sub.Tensor" or known.get(difference.inputs[2]) != 1:
        return None
    (x, shift), (dim,) = difference.inputs[:2], found.dims
    meta, taken_off = known[x], known[shift]
    if not isinstance(meta, Meta) or not isinstance(taken_off, Meta) or not meta.dtype.is_floating:
        return None
    along = [size if d != dim else 1 for d, size in enumerate(meta.shape)]
    largest = tuple(_largest(x, dim, known))
    if list(taken_off.shape) != along or not _follows(shift, largest):
        return None
    return _Sum(node, difference, dim, largest)


def _largest(x: Value, dim: int, known: Mapping[Value, Any]) -> Iterator[Node]:
    for user in dict.fromkeys(use.user for use in x.uses):
        found = reduction_of(user, known)
        if found is not None and found.combine == "max" and found.operand is x and found.dims == (dim,):
            yield user


def _follows(value: Value, nodes: Sequence[Node]) -> bool:
    """Whether a value is made of what one of some nodes gives."""
    pending = [value]
    for found in pending:
        if found.node in nodes:
            return True
        if len(pending) <= MOST_FOLLOWED:
            pending += found.node.inputs
    return False


def _taken(alike: Sequence[_Sum], shape: Shape, whole_columns: int) -> list[_Sum]:
    """Which sums of the same elements go by parts: those along columns, where rows are not summed besides only those
    that no program takes whole; and with them those along rows longer than a part."""
    last = max((d for d, size in enumerate(shape) if size != 1), default=0)
    rows = [found for found in alike if found.dim == last]
    columns = [found for found in alike if found.dim != last and shape[found.dim] >= LEAST]
    if len({found.dim for found in columns}) != 1:
        return []
    if not rows:
        return [found for found in columns if not is_of_columns(shape, (found.dim,), whole_columns)]
    return columns + [found for found in rows if shape[last] > PART]


def _by_parts(graph: Graph, x: Value, sums: Sequence[_Sum], known: Mapping[Value, Any]) -> None:
    """Have parts give their largest and their sums, and all else follow from these."""
    meta, dims = known[x], sorted({found.dim for found in sums})
    size = _size_of_part(meta, dims)
    largest = {node for found in sums for node in found.largest}
    builder = Builder.in_front_of(next(node for node in graph.nodes if node in largest))
    parts = _Parts(builder, meta.shape, dims, size)
    # Sums of parts are not rounded to halves.
    elements = parts.cut(builder.op("aten::to.dtype", x, FLOAT32.code) if meta.dtype.is_half else x)
    gave = {dim: _of_parts(builder, parts, elements, dim) for dim in dims}
    for node in dict.fromkeys(node for found in sums for node in found.largest):
        dim = _dim_of(node, sums)
        builder, (highest, _) = Builder.in_front_of(node), gave[dim]
        _replace(builder, node, builder.op("aten::amax", highest, [parts.place(dim)], False), known)
    for found in sums:
        builder, (highest, total) = Builder.in_front_of(found.node), gave[found.dim]
        place = parts.place(found.dim)
        own_shift = builder.op("aten::movedim.int", found.shift, found.dim, place)
        rescaled = builder.op("aten::exp", builder.op("aten::sub.Tensor", highest, own_shift, 1))
        weighed = builder.op("aten::mul.Tensor", total, rescaled)
        _replace(builder, found.node, builder.op("aten::sum.dim_IntList", weighed, [place], False, None), known)


def _size_of_part(meta: Meta, dims: Sequence[int]) -> int:
    """Such that a program holds a block, and of columns alone there are programs enough."""
    if len(dims) > 1:
        return PART if meta.dtype.itemsize <= FLOAT32.itemsize else PART // 2
    return PART if prod(meta.shape) // PART >= PROGRAMS * LIMITS.lanes else PART // 2


def _dim_of(node: Node, sums: Sequence[_Sum]) -> int:
    return next(found.dim for found in sums if node in found.largest)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Tensors of a shape of which some dimensions are cut into parts of one size."""

    builder: Builder
    shape: Shape
    dims: Sequence[int]
    size: int

    def inner(self, dim: int) -> int:
        """The dimension along which the elements of a part lie."""
        return dim + self.dims.index(dim) + 1

    def count(self, dim: int) -> int:
        return -(-self.shape[dim] // self.size)

    def cut(self, whole: Value) -> Value:
        """The elements in their parts; beyond the last, what adds nothing."""
        missing = [self.count(d) * self.size - n if d in self.dims else 0 for d, n in enumerate(self.shape)]
        if any(missing):
            pads = [n for more in reversed(missing) for n in (0, more)]
            whole = self.builder.op("aten::constant_pad_nd", whole, pads, _LOWEST)
        sizes = [(self.count(d), self.size) if d in self.dims else (n,) for d, n in enumerate(self.shape)]
        return self.builder.op("aten::reshape", whole, [n for both in sizes for n in both])

    def over_parts(self, value: Value, dim: int) -> Value:
        """What each part of a dimension gave, with the parts as first or last dimension: not in the order in which
        programs that have parts could go over all of them besides, for these programs are many."""
        b, place = self.builder, self.place(dim)
        padded = [self.count(d) * self.size if d in self.dims else n for d, n in enumerate(self.shape)]
        value = b.op("aten::squeeze.dim", value, self.inner(dim))
        value = b.op("aten::reshape", value, [self.count(d) if d == dim else n for d, n in enumerate(padded)])
        for d, size in enumerate(self.shape):
            if d != dim and padded[d] != size:
                value = b.op("aten::slice.Tensor", value, d, 0, size, 1)
        return b.op("aten::movedim.int", value, dim, place)

    def place(self, dim: int) -> int:
        """Where what was found of a dimension's parts has them."""
        is_last = all(size == 1 for size in self.shape[dim + 1 :])
        return 0 if is_last else len(self.shape) - 1


def _of_parts(builder: Builder, parts: _Parts, elements: Value, dim: int) -> list[Value]:
    """Of each part of a dimension the largest, and the sum of exponentials beside it, or beside 0."""
    highest = builder.op("aten::amax", elements, [parts.inner(dim)], True)
    shift = builder.op("aten::where.ScalarSelf", builder.op("aten::isinf", highest), 0.0, highest)
    powers = builder.op("aten::exp", builder.op("aten::sub.Tensor", elements, shift, 1))
    total = builder.op("aten::sum.dim_IntList", powers, [parts.inner(dim)], True, None)
    return [parts.over_parts(value, dim) for value in (highest, total)]


def _replace(builder: Builder, node: Node, result: Value, known: Mapping[Value, Any]) -> None:
    meta = known[node.output]
    if meta.dtype.is_half:
        result = in_halves(builder, result, node, meta.dtype)
    result = builder.op("aten::reshape", result, [*meta.shape])
    result.type, result.name_hint = node.output.type, node.output.name_hint
    replace_node(node, [result])

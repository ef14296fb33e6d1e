"""Variances of columns in one pass: of the sums of squares, and of what is left, beside an element of each column.

Over outer dimensions programs share out the rows, and what follows from a sum of all of them is known when all are
through. So deviations from the mean are a second pass over memory, where deviations from an element are none:

    Σ (x - mean)² = Σ (x - s)² - (Σ (x - s))² / n         for any s

The middle one of the first three elements is seldom far off. Digits are lost as (s - mean)² is larger than the
variance, which it is at most n times for an element s of n. Columns that are equal throughout have none, to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node
from ...ops.meta import Meta
from ..planning.reductions import Reduction, is_of_rows, reduction_of
from .drawn import Supported, is_drawn

_MEANS = {"aten::sum.dim_IntList": "aten::mean.dim", "aten::sum": "aten::mean"}
_MEANS |= {kind: kind for kind in _MEANS.values()}
"""What is the mean of the same dimensions as a sum, or a mean."""
_PRODUCT = "aten::mul.Tensor"
_SQUARES = ("aten::square", "aten::pow.Tensor_Scalar")


def sum_variances_at_once(graph: Graph, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Replace sums of squares of deviations from the mean of leading dimensions. `known` is what `settle_shapes` gives
    for the graph.

    Before:
        graph f(%x : Tensor):
          %1 : List[int] = prim::Constant[value=[0]]()
          %2 : bool = prim::Constant[value=False]()
          %3 : None = prim::Constant[value=None]()
          %4 : int = prim::Constant[value=1]()
          %mean : Tensor = aten::mean.dim(%x, %1, %2, %3)
          %5 : Tensor = aten::sub.Tensor(%x, %mean, %4)
          %6 : Tensor = aten::mul.Tensor(%5, %5)
          %7 : Tensor = aten::sum.dim_IntList(%6, %1, %2, %3)
          return (%7)
    After:
        graph f(%x : Tensor):
          %1 : List[int] = prim::Constant[value=[0]]()
          %2 : bool = prim::Constant[value=False]()
          %3 : None = prim::Constant[value=None]()
          %4 : int = prim::Constant[value=0]()
          %5 : int = prim::Constant[value=0]()
          %6 : int = prim::Constant[value=1]()
          %7 : int = prim::Constant[value=1]()
          %8 : Tensor = aten::slice.Tensor(%x, %4, %5, %6, %7)
          %9 : int = prim::Constant[value=0]()
          %10 : int = prim::Constant[value=1]()
          %11 : int = prim::Constant[value=2]()
          %12 : int = prim::Constant[value=1]()
          %13 : Tensor = aten::slice.Tensor(%x, %9, %10, %11, %12)
          %14 : int = prim::Constant[value=0]()
          %15 : int = prim::Constant[value=2]()
          %16 : int = prim::Constant[value=3]()
          %17 : int = prim::Constant[value=1]()
          %18 : Tensor = aten::slice.Tensor(%x, %14, %15, %16, %17)
          %19 : Tensor = aten::minimum(%8, %13)
          %20 : Tensor = aten::maximum(%8, %13)
          %21 : Tensor = aten::minimum(%20, %18)
          %22 : Tensor = aten::maximum(%19, %21)
          %23 : int = prim::Constant[value=1]()
          %24 : Tensor = aten::sub.Tensor(%x, %22, %23)
          %25 : Tensor = aten::mul.Tensor(%24, %24)
          %26 : Tensor = aten::sum.dim_IntList(%25, %1, %2, %3)
          %27 : Tensor = aten::sum.dim_IntList(%24, %1, %2, %3)
          %28 : Tensor = aten::mean.dim(%24, %1, %2, %3)
          %29 : Tensor = aten::mul.Tensor(%27, %28)
          %30 : int = prim::Constant[value=1]()
          %31 : Tensor = aten::sub.Tensor(%26, %29, %30)
          %32 : int = prim::Constant[value=0]()
          %33 : None = prim::Constant[value=None]()
          %34 : Tensor = aten::clamp(%31, %32, %33)
          return (%34)
    """
    changed = False
    for node in list(graph.nodes):
        found = _deviations(node, known, supports)
        if found is not None:
            _sum_at_once(node, *found, known)
            changed = True
    return changed


def _deviations(node: Node, known: Mapping[Value, Any], supports: Supported) -> tuple[Value, Reduction] | None:
    """The tensor of whose deviations from their mean a node adds up the squares, and how it is reduced."""
    if node.kind not in _MEANS:
        return None
    squares = reduction_of(node, known)
    if squares is None or not is_of_all_rows(squares, known):
        return None
    deviation = _squared(squares.operand.node, known)
    if deviation is None or deviation.node.kind != "aten::sub.Tensor" or known.get(deviation.node.inputs[2]) != 1:
        return None
    x, mean = deviation.node.inputs[:2]
    mean_of = reduction_of(mean.node, known) if mean.node.outputs else None
    if mean_of is None or mean_of.operand is not x or mean_of.dims != squares.dims or mean_of.divisor is None:
        return None
    # Where the mean has fewer dimensions, it goes along the last ones.
    place = [*range(known[x].rank)][known[x].rank - len(mean_of.kept) :]
    if any(dim not in (None, own) for dim, own in zip(mean_of.kept, place, strict=True)):
        return None
    return (x, squares) if _has_first(x, squares, known, supports) else None


def is_of_all_rows(reduction: Reduction, known: Mapping[Value, Any]) -> bool:
    """Whether programs share out what is summed: over leading dimensions, and no rows that one program has."""
    shape = known[reduction.operand].shape
    real = [d for d, size in enumerate(shape) if size != 1]
    dims = list(reduction.dims)
    return reduction.combine == "sum" and bool(dims) and dims == real[: len(dims)] and not is_of_rows(shape, dims)


def _squared(node: Node, known: Mapping[Value, Any]) -> Value | None:
    """What a node is the square of."""
    if node.kind == _PRODUCT and node.inputs[0] is node.inputs[1]:
        return node.inputs[0]
    if node.kind in _SQUARES and all(known.get(value) == 2 for value in node.inputs[1:]):
        return node.inputs[0]
    return None


def _has_first(x: Value, reduction: Reduction, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Whether each program has the first element of its columns: none that follows from rows which others reduce."""
    if not known[x].dtype.is_floating:
        return False
    pending, seen = [x], {x}
    for value in pending:
        if not isinstance(known.get(value), Meta):
            continue
        found = reduction_of(value.node, known) if value.node.outputs else None
        if found is not None and found.dims:
            return False
        if value.node.outputs and value.node.schema is not None and is_drawn(value.node, known, supports):
            new = [v for v in value.node.inputs if v not in seen]
            seen.update(new)
            pending += new
    return True


def _sum_at_once(node: Node, x: Value, squares: Reduction, known: Mapping[Value, Any]) -> None:
    builder = Builder.in_front_of(node)
    beside = builder.op("aten::sub.Tensor", x, _one_of_each(builder, x, squares, known), 1)
    arguments = node.inputs[1:]
    total = builder.op(node.kind, builder.op(_PRODUCT, beside, beside), *arguments)
    rest = builder.op(node.kind, beside, *arguments)
    mean = builder.op(_MEANS[node.kind], beside, *arguments)
    lost = builder.op(_PRODUCT, rest, mean)
    result = builder.op("aten::clamp", builder.op("aten::sub.Tensor", total, lost, 1), 0)
    result.type, result.name_hint = node.output.type, node.output.name_hint
    replace_node(node, [result])


def _one_of_each(builder: Builder, x: Value, squares: Reduction, known: Mapping[Value, Any]) -> Value:
    """An element of each column: the middle one of three, for the first may be like no other."""
    longest, *others = squares.dims
    for dim in others:
        x = builder.op("aten::slice.Tensor", x, dim, 0, 1, 1)
    count = 3 if known[squares.operand].shape[longest] >= 3 else 1
    first, *rest = [builder.op("aten::slice.Tensor", x, longest, i, i + 1, 1) for i in range(count)]
    if not rest:
        return first
    second, third = rest
    low, high = builder.op("aten::minimum", first, second), builder.op("aten::maximum", first, second)
    return builder.op("aten::maximum", low, builder.op("aten::minimum", high, third))

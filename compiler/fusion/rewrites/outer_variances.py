"""Variances of columns in one pass: of the sums of squares, and of what is left, beside an element of each column.

Over outer dimensions programs share out the rows, and what follows from a sum of all of them is known when all are
through. So deviations from the mean are a second pass over memory, where deviations from an element are none:

    Σ (x - mean)² = Σ (x - s)² - (Σ (x - s))² / n         for any s

Digits are lost as (s - mean)² is larger than the variance, which it is at most n times for an element s of n. So the
sums are in float64: of a million elements ten digits are left whatever they are, and float32 has seven. Columns that
are equal throughout have no variance, to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node
from ...types.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from ..planning.reductions import Reduction, is_of_rows, reduction_of
from ..statistics import in_halves
from .drawn import Supported, waits_for_reductions

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
          %9 : int = prim::Constant[value=7]()
          %10 : bool = prim::Constant[value=False]()
          %11 : bool = prim::Constant[value=False]()
          %12 : None = prim::Constant[value=None]()
          %13 : Tensor = aten::to.dtype(%x, %9, %10, %11, %12)
          %14 : int = prim::Constant[value=7]()
          %15 : bool = prim::Constant[value=False]()
          %16 : bool = prim::Constant[value=False]()
          %17 : None = prim::Constant[value=None]()
          %18 : Tensor = aten::to.dtype(%8, %14, %15, %16, %17)
          %19 : int = prim::Constant[value=1]()
          %20 : Tensor = aten::sub.Tensor(%13, %18, %19)
          %21 : Tensor = aten::mul.Tensor(%20, %20)
          %22 : Tensor = aten::sum.dim_IntList(%21, %1, %2, %3)
          %23 : Tensor = aten::sum.dim_IntList(%20, %1, %2, %3)
          %24 : Tensor = aten::mean.dim(%20, %1, %2, %3)
          %25 : Tensor = aten::mul.Tensor(%23, %24)
          %26 : int = prim::Constant[value=1]()
          %27 : Tensor = aten::sub.Tensor(%22, %25, %26)
          %28 : int = prim::Constant[value=0]()
          %29 : None = prim::Constant[value=None]()
          %30 : Tensor = aten::clamp(%27, %28, %29)
          %31 : int = prim::Constant[value=6]()
          %32 : bool = prim::Constant[value=False]()
          %33 : bool = prim::Constant[value=False]()
          %34 : None = prim::Constant[value=None]()
          %35 : Tensor = aten::to.dtype(%30, %31, %32, %33, %34)
          return (%35)
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
    deviation = square_of(squares.operand.node, known)
    mean_of = mean_of_deviation(deviation.node, known) if deviation is not None else None
    if mean_of is None or mean_of.dims != squares.dims:
        return None
    x = mean_of.operand
    return (x, squares) if _has_first(node, x, known, supports) else None


def mean_of_deviation(node: Node, known: Mapping[Value, Any]) -> Reduction | None:
    """The mean from which a node takes the deviations of what it is of; None for any other node."""
    if node.kind != "aten::sub.Tensor" or known.get(node.inputs[2]) != 1:
        return None
    x, mean = node.inputs[:2]
    mean_of = reduction_of(mean.node, known) if mean.node.outputs else None
    if mean_of is None or mean_of.operand is not x or mean_of.divisor is None:
        return None
    # Where the mean has fewer dimensions, it goes along the last ones.
    place = [*range(known[x].rank)][known[x].rank - len(mean_of.kept) :]
    is_along = all(dim in (None, own) for dim, own in zip(mean_of.kept, place, strict=True))
    return mean_of if is_along else None


def is_of_all_rows(reduction: Reduction, known: Mapping[Value, Any]) -> bool:
    """Whether programs share out what is summed: over leading dimensions, and no rows that one program has."""
    shape = known[reduction.operand].shape
    real = [d for d, size in enumerate(shape) if size != 1]
    dims = list(reduction.dims)
    return reduction.combine == "sum" and bool(dims) and dims == real[: len(dims)] and not is_of_rows(shape, dims)


def square_of(node: Node, known: Mapping[Value, Any]) -> Value | None:
    """What a node is the square of."""
    if node.kind == _PRODUCT and node.inputs[0] is node.inputs[1]:
        return node.inputs[0]
    if node.kind in _SQUARES and all(known.get(value) == 2 for value in node.inputs[1:]):
        return node.inputs[0]
    return None


def _has_first(node: Node, x: Value, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Whether each program has the first element of its columns: none that follows from rows which others reduce."""
    if known[x].dtype not in (FLOAT16, BFLOAT16, FLOAT32) or known.get(node.inputs[-1]) is not None:
        return False
    return not waits_for_reductions(x, known, supports)


def _sum_at_once(node: Node, x: Value, squares: Reduction, known: Mapping[Value, Any]) -> None:
    builder = Builder.in_front_of(node)
    first = x
    for dim in squares.dims:
        first = builder.op("aten::slice.Tensor", first, dim, 0, 1, 1)
    wide, wide_first = (builder.op("aten::to.dtype", value, FLOAT64.code) for value in (x, first))
    beside = builder.op("aten::sub.Tensor", wide, wide_first, 1)
    arguments = node.inputs[1:]
    total = builder.op(node.kind, builder.op(_PRODUCT, beside, beside), *arguments)
    rest = builder.op(node.kind, beside, *arguments)
    lost = builder.op(_PRODUCT, rest, builder.op(_MEANS[node.kind], beside, *arguments))
    result = builder.op("aten::clamp", builder.op("aten::sub.Tensor", total, lost, 1), 0)
    dtype = known[node.output].dtype
    result = builder.op("aten::to.dtype", result, FLOAT32.code if dtype.is_half else dtype.code)
    if dtype.is_half:
        result = in_halves(builder, result, node, dtype)
    result.type, result.name_hint = node.output.type, node.output.name_hint
    replace_node(node, [result])

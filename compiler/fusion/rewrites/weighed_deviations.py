"""Sums of products of two deviations, each from what follows from sums of all rows, in the pass of these sums.

    Σ w (x - m) (y - n) = Σ w x y - n Σ w x - m Σ w y + m n Σ w        for any m and n

So variances of what is masked, and covariances, wait for no mean. What is left is far less than what it is taken from
where a mean is large beside the deviations, so the sums are in float64: 16 digits, of which a mean of a thousand
deviations takes six. Of a square less than nothing may be left by rounding, or by weights that are negative: what
rounding can be is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node
from ...ops.meta import Meta
from ...types.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from ..planning.reductions import Reduction, reduction_of
from ..statistics import in_halves
from .drawn import Supported, waits_for_reductions
from .factors_of_sums import is_alike_along
from .outer_variances import is_of_all_rows, square_of

_PRODUCT = "aten::mul.Tensor"
_ROUNDING = 1e-12
"""Of a sum of squares, how much of it differences of such sums are off by at most."""


class _Deviation(NamedTuple):
    """What deviates, and from what."""

    of: Value
    middle: Value


class _Product(NamedTuple):
    """Two deviations and what their product is weighed by."""

    deviations: tuple[_Deviation, _Deviation]
    weights: tuple[Value, ...]


def sum_deviations_at_once(graph: Graph, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Replace sums over leading dimensions of products of two deviations from what is reduced over them. `known` is
    what `settle_shapes` gives for the graph.

    Before:
        graph f(%x : Tensor, %w : Tensor):
          %1 : List[int] = prim::Constant[value=[0]]()
          %2 : bool = prim::Constant[value=False]()
          %3 : None = prim::Constant[value=None]()
          %4 : int = prim::Constant[value=1]()
          %5 : Tensor = aten::mul.Tensor(%x, %w)
          %m : Tensor = aten::mean.dim(%5, %1, %2, %3)
          %6 : Tensor = aten::sub.Tensor(%x, %m, %4)
          %7 : Tensor = aten::square(%6)
          %8 : Tensor = aten::mul.Tensor(%7, %w)
          %9 : Tensor = aten::sum.dim_IntList(%8, %1, %2, %3)
          return (%9)
    After:
        graph f(%x : Tensor, %w : Tensor):
          %1 : List[int] = prim::Constant[value=[0]]()
          %2 : bool = prim::Constant[value=False]()
          %3 : None = prim::Constant[value=None]()
          %4 : Tensor = aten::mul.Tensor(%x, %w)
          %m : Tensor = aten::mean.dim(%4, %1, %2, %3)
          %5 : int = prim::Constant[value=7]()
          %6 : bool = prim::Constant[value=False]()
          %7 : bool = prim::Constant[value=False]()
          %8 : None = prim::Constant[value=None]()
          %9 : Tensor = aten::to.dtype(%w, %5, %6, %7, %8)
          %10 : int = prim::Constant[value=7]()
          %11 : bool = prim::Constant[value=False]()
          %12 : bool = prim::Constant[value=False]()
          %13 : None = prim::Constant[value=None]()
          %14 : Tensor = aten::to.dtype(%x, %10, %11, %12, %13)
          %15 : int = prim::Constant[value=7]()
          %16 : bool = prim::Constant[value=False]()
          %17 : bool = prim::Constant[value=False]()
          %18 : None = prim::Constant[value=None]()
          %19 : Tensor = aten::to.dtype(%m, %15, %16, %17, %18)
          %20 : Tensor = aten::mul.Tensor(%14, %14)
          %21 : Tensor = aten::mul.Tensor(%20, %9)
          %22 : List[int] = prim::Constant[value=[0]]()
          %23 : bool = prim::Constant[value=True]()
          %24 : None = prim::Constant[value=None]()
          %25 : Tensor = aten::sum.dim_IntList(%21, %22, %23, %24)
          %26 : Tensor = aten::mul.Tensor(%14, %9)
          %27 : List[int] = prim::Constant[value=[0]]()
          %28 : bool = prim::Constant[value=True]()
          %29 : None = prim::Constant[value=None]()
          %30 : Tensor = aten::sum.dim_IntList(%26, %27, %28, %29)
          %31 : Tensor = aten::mul.Tensor(%19, %30)
          %32 : int = prim::Constant[value=1]()
          %33 : Tensor = aten::add.Tensor(%31, %31, %32)
          %34 : int = prim::Constant[value=1]()
          %35 : Tensor = aten::sub.Tensor(%25, %33, %34)
          %36 : Tensor = aten::mul.Tensor(%19, %19)
          %37 : List[int] = prim::Constant[value=[0]]()
          %38 : bool = prim::Constant[value=True]()
          %39 : None = prim::Constant[value=None]()
          %40 : Tensor = aten::sum.dim_IntList(%9, %37, %38, %39)
          %41 : Tensor = aten::mul.Tensor(%36, %40)
          %42 : int = prim::Constant[value=1]()
          %43 : Tensor = aten::add.Tensor(%35, %41, %42)
          %44 : Tensor = aten::abs(%25)
          %45 : float = prim::Constant[value=-1e-12]()
          %46 : Tensor = aten::mul.Scalar(%44, %45)
          %47 : Tensor[bool] = aten::lt.Tensor(%43, %46)
          %48 : int = prim::Constant[value=0]()
          %49 : None = prim::Constant[value=None]()
          %50 : Tensor = aten::clamp(%43, %48, %49)
          %51 : Tensor = aten::where.self(%47, %43, %50)
          %52 : int = prim::Constant[value=6]()
          %53 : bool = prim::Constant[value=False]()
          %54 : bool = prim::Constant[value=False]()
          %55 : None = prim::Constant[value=None]()
          %56 : Tensor = aten::to.dtype(%51, %52, %53, %54, %55)
          %57 : List[int] = prim::Constant[value=[3]]()
          %58 : Tensor = aten::reshape(%56, %57)
          return (%58)
    """
    changed = False
    for node in list(graph.nodes):
        reduction = reduction_of(node, known)
        if reduction is None or not is_of_all_rows(reduction, known) or known.get(node.inputs[-1]) is not None:
            continue
        found = _product(reduction, known, supports)
        if found is not None:
            _take_apart(node, reduction, found, known)
            changed = True
    return changed


def _product(reduction: Reduction, known: Mapping[Value, Any], supports: Supported) -> _Product | None:
    """The deviations that a sum is of, where each is from what waits for reductions, and nothing else does."""
    whole: Meta = known[reduction.operand]
    if whole.dtype not in (FLOAT16, BFLOAT16, FLOAT32):
        return None
    deviations, weights = list[_Deviation](), list[Value]()
    for factor in _factors(reduction.operand, known):
        deviation = _deviation(factor, reduction, known)
        if deviation is not None and waits_for_reductions(deviation.middle, known, supports):
            deviations.append(deviation)
        else:
            weights.append(factor)
    if len(deviations) != 2:
        return None
    early = {*weights, *[deviation.of for deviation in deviations]}
    if any(known[v].dtype != whole.dtype or waits_for_reductions(v, known, supports) for v in early):
        return None
    return _Product((deviations[0], deviations[1]), tuple(weights))


def _factors(value: Value, known: Mapping[Value, Any]) -> list[Value]:
    """What a value is the product of, itself where it is none."""
    pending, found = [value], list[Value]()
    while pending:
        value = pending.pop()
        base = square_of(value.node, known) if value.node.outputs else None
        if base is not None:
            pending += [base, base]
        elif value.node.kind == _PRODUCT:
            pending += value.node.inputs
        else:
            found.append(value)
    return found


def _deviation(value: Value, reduction: Reduction, known: Mapping[Value, Any]) -> _Deviation | None:
    node = value.node
    if node.kind != "aten::sub.Tensor" or known.get(node.inputs[2]) != 1:
        return None
    x, middle = node.inputs[:2]
    shape = known[reduction.operand].shape
    is_along = known[x].shape == shape and is_alike_along(middle, shape, reduction.dims, known)
    return _Deviation(x, middle) if is_along and _follows_from(middle, x) else None


def _follows_from(value: Value, source: Value) -> bool:
    """Where it does, one is infinite or no number as the other is, and so are deviations."""
    pending, seen = [value], {value}
    for found in pending:
        new = [v for v in found.node.inputs if v not in seen]
        seen.update(new)
        pending += new
    return source in seen


def _take_apart(node: Node, reduction: Reduction, product: _Product, known: Mapping[Value, Any]) -> None:
    builder, shape = Builder.in_front_of(node), known[reduction.operand].shape
    kind = "aten::sum.dim_IntList" if reduction.divisor is None else "aten::mean.dim"

    def wide(value: Value) -> Value:
        return builder.op("aten::to.dtype", value, FLOAT64.code)

    def times(first: Value, second: Value) -> Value:
        return builder.op(_PRODUCT, first, second)

    def total(found: Value, *factors: Value) -> Value:
        for factor in factors:
            found = times(found, factor)
        return builder.op(kind, found, [*reduction.dims], True, None)

    (x, m), (y, n) = product.deviations
    weights = [wide(value) for value in product.weights]
    if weights and all(known[value].shape != shape for value in product.weights):
        weights[0] = builder.op("aten::expand", weights[0], [*shape])
    is_square = x is y and m is n
    wide_x, wide_m = wide(x), wide(m)
    wide_y, wide_n = (wide_x, wide_m) if is_square else (wide(y), wide(n))
    both, of_x = total(wide_x, wide_y, *weights), times(wide_n, total(wide_x, *weights))
    of_y = of_x if is_square else times(wide_m, total(wide_y, *weights))
    rest = builder.op("aten::add.Tensor", of_x, of_y, 1)
    found = builder.op("aten::sub.Tensor", both, rest, 1)
    alone = times(wide_m, wide_n)
    if weights:
        alone = times(alone, total(*weights))
    elif reduction.divisor is None:
        alone = builder.op("aten::mul.Scalar", alone, prod(shape[d] for d in reduction.dims))
    found = builder.op("aten::add.Tensor", found, alone, 1)
    if is_square:
        least = builder.op("aten::mul.Scalar", builder.op("aten::abs", both), -_ROUNDING)
        is_less = builder.op("aten::lt.Tensor", found, least)
        found = builder.op("aten::where.self", is_less, found, builder.op("aten::clamp", found, 0))
    meta: Meta = known[node.output]
    dtype = meta.dtype
    found = builder.op("aten::to.dtype", found, FLOAT32.code if dtype.is_half else dtype.code)
    result = builder.op("aten::reshape", found, [*meta.shape])
    if dtype.is_half:
        result = in_halves(builder, result, node, dtype)
    result.type, result.name_hint = node.output.type, node.output.name_hint
    replace_node(node, [result])

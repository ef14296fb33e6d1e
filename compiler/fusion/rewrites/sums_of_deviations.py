"""Sums of deviations from a mean over what the mean is of, which are zero, whatever they are multiplied by that is the
same along it.

    %m = mean of %x over the rows                              in the forward
    %d = %x - %m
    %t = sum of (%g * %d + %g * %d) over the rows              in the backward, for one %g of each column
         →    %t = 0 * (%g * %d + %g * %d) of the first row

So of the gradient of a variance nothing goes through the mean, and no pass over memory has to find that out. Where a
number is infinite or none, every deviation of its column is, and so is what takes the place of their sum. A backward
takes the deviations, and only its forward knows what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...autodiff.gradient import Gradient
from ...ir.builder import Builder
from ...ir.node import Value
from ...ir.rewrite import replace_node
from ...ops.meta import Meta
from ...types.dtypes import FLOAT32, FLOAT64
from ..planning.reductions import Reduction, reduction_of
from .factors_of_sums import linear_terms
from .outer_variances import mean_of_deviation


def drop_sums_of_deviations(
    gradient: Gradient, known: Mapping[Value, Any], known_in_backward: Mapping[Value, Any]
) -> bool:
    """Have sums in `df` of what deviates in `f` from its mean be zero. Both graphs are settled, and `known` is what is
    known of their values.

    Before:
        graph f(%x : Tensor):
          %1 : List[int] = prim::Constant[value=[0]]()
          %2 : bool = prim::Constant[value=False]()
          %3 : None = prim::Constant[value=None]()
          %4 : int = prim::Constant[value=1]()
          %m : Tensor = aten::mean.dim(%x, %1, %2, %3)
          %d : Tensor = aten::sub.Tensor(%x, %m, %4)
          %y : Tensor = aten::mul.Tensor(%d, %d)
          return (%y, %d)
        graph df(%g : Tensor, %d : Tensor):
          %1 : List[int] = prim::Constant[value=[0]]()
          %2 : bool = prim::Constant[value=False]()
          %3 : None = prim::Constant[value=None]()
          %4 : Tensor = aten::mul.Tensor(%d, %g)
          %5 : Tensor = aten::sum.dim_IntList(%4, %1, %2, %3)
          return (%5)
    After:
        graph df(%g : Tensor, %d : Tensor):
          %1 : Tensor = aten::mul.Tensor(%d, %g)
          %2 : int = prim::Constant[value=0]()
          %3 : int = prim::Constant[value=0]()
          %4 : int = prim::Constant[value=1]()
          %5 : int = prim::Constant[value=1]()
          %6 : Tensor = aten::slice.Tensor(%1, %2, %3, %4, %5)
          %7 : List[int] = prim::Constant[value=[3]]()
          %8 : Tensor = aten::reshape(%6, %7)
          %9 : int = prim::Constant[value=0]()
          %10 : Tensor = aten::mul.Scalar(%8, %9)
          return (%10)
    """
    outputs = gradient.f.outputs
    taken = gradient.df.inputs[len(gradient.input_vjps) + len(gradient.captured_inputs) :]
    deviations = {
        value: mean.dims
        for value, index in zip(taken, gradient.captured_outputs, strict=True)
        if (mean := mean_of_deviation(outputs[index].node, known)) is not None
        and known[outputs[index]].dtype in (FLOAT32, FLOAT64)
    }
    changed = False
    for node in list(gradient.df.all_nodes()) if deviations else ():
        reduction = reduction_of(node, known_in_backward)
        if reduction is not None and _is_of_deviations(reduction, deviations, known_in_backward):
            meta: Meta = known_in_backward[node.output]
            builder, first = Builder.in_front_of(node), reduction.operand
            for dim in sorted(reduction.dims):
                first = builder.op("aten::slice.Tensor", first, dim, 0, 1, 1)
            zeros = builder.op("aten::mul.Scalar", builder.op("aten::reshape", first, [*meta.shape]), 0)
            zeros.type, zeros.name_hint = node.output.type, node.output.name_hint
            replace_node(node, [zeros])
            changed = True
    return changed


def _is_of_deviations(
    reduction: Reduction, deviations: Mapping[Value, Iterable[int]], known: Mapping[Value, Any]
) -> bool:
    """Whether what is added up is made of deviations alone, each from a mean along what is added up."""
    if reduction.combine != "sum" or not reduction.dims or 0 in known[reduction.operand].shape:
        return False
    shape, dims = known[reduction.operand].shape, frozenset(reduction.dims)
    found = linear_terms(reduction.operand, shape, reduction.dims, known, lambda value: value not in deviations)
    return found is not None and all(
        value not in deviations or (not times and dims.issuperset(deviations[value])) for value, times in found
    )

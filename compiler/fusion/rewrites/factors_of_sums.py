"""What is the same along what is summed is multiplied by the sum, where it would be waited for.

Over leading dimensions programs share out the rows, and what follows from a sum of all of them is known when all are
through: a sum of what was multiplied by such a factor is another pass over memory.

    %s = sum of %g over the rows              %s = sum of %g over the rows
    %t = sum of %x * %s over the rows    →    %u = sum of %x over the rows         in the same pass
                                              %t = %u * %s

So the gradient of a mean that goes through a variance is found beside that of the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ops.arguments import Shape
from ...ops.meta import Meta
from ..planning.reductions import Reduction, reduction_of
from .outer_variances import is_of_all_rows

_ADDS = ("aten::add.Tensor", "prim::AutogradAdd", "aten::sub.Tensor")
_SCALED = ("aten::mul.Scalar", "aten::div.Scalar", "aten::neg")
_PRODUCT, _QUOTIENT, _EXPAND = "aten::mul.Tensor", "aten::div.Tensor", "aten::expand"
MOST_TERMS = 4
"""Sums in place of one."""
Term: TypeAlias = tuple[Value, tuple[Value, ...]]
"""A value, and what it is multiplied by, element by element, before it is summed."""


def take_factors_out(graph: Graph, known: Mapping[Value, Any]) -> bool:
    """Have sums over leading dimensions that would wait for others multiplied by what these give. `known` is what
    `settle_shapes` gives for the graph.

    Before:
        graph f(%g : Tensor, %x : Tensor):
          %1 : List[int] = prim::Constant[value=[0]]()
          %2 : bool = prim::Constant[value=True]()
          %3 : None = prim::Constant[value=None]()
          %s : Tensor = aten::sum.dim_IntList(%g, %1, %2, %3)
          %4 : Tensor = aten::mul.Tensor(%x, %s)
          %5 : Tensor = aten::sum.dim_IntList(%4, %1, %2, %3)
          return (%5)
    After:
        graph f(%g : Tensor, %x : Tensor):
          %1 : List[int] = prim::Constant[value=[0]]()
          %2 : bool = prim::Constant[value=True]()
          %3 : None = prim::Constant[value=None]()
          %s : Tensor = aten::sum.dim_IntList(%g, %1, %2, %3)
          %4 : List[int] = prim::Constant[value=[0]]()
          %5 : bool = prim::Constant[value=True]()
          %6 : None = prim::Constant[value=None]()
          %7 : Tensor = aten::sum.dim_IntList(%x, %4, %5, %6)
          %8 : Tensor = aten::mul.Tensor(%7, %s)
          %9 : Tensor = aten::sum.dim_IntList(%8, %1, %2, %3)
          return (%9)
    """
    columns = {
        node: found for node in graph.nodes if (found := reduction_of(node, known)) and is_of_all_rows(found, known)
    }
    late, changed = set[Value](), False
    for node in list(graph.nodes) if len(columns) > 1 else ():
        is_late = any(value in late for value in node.inputs)
        if node in columns and is_late and _is_rewritten(node, columns[node], known, late):
            changed = True
        if node in columns or is_late:
            late.update(node.outputs)
    return changed


def _is_rewritten(node: Node, reduction: Reduction, known: Mapping[Value, Any], late: AbstractSet[Value]) -> bool:
    """Have a sum take what follows from sums that wait for nothing, where that can be."""
    shape, dims = known[reduction.operand].shape, reduction.dims
    order = linear_terms(reduction.operand, shape, dims, known, late.__contains__)
    if order is None:
        return False
    builder = Builder.in_front_of(node)
    kind = "aten::sum.dim_IntList" if reduction.divisor is None else "aten::mean.dim"
    summed: dict[Term, Value] = {}
    for term in order:
        value, times = term
        parts = [summed.get((v, times)) for v in value.node.inputs]
        if value not in late:
            for factor in times:
                value = builder.op(_PRODUCT, value, factor)
            summed[term] = builder.op(kind, value, [*dims], True, None)
        elif not any(parts):
            (beside,) = _multiplied(term, shape, known, late.__contains__)
            summed[term] = summed[beside]
        elif parts[0] is not None and reduction_of(value.node, known) is not None:
            summed[term] = parts[0]
        else:
            factors = [
                _narrow(v, shape, dims, known) if part is None else part
                for v, part in zip(value.node.inputs, parts, strict=True)
            ]
            summed[term] = builder.op(value.node.kind, *factors)
    node.set_input(0, summed[reduction.operand, ()])
    return True


def linear_terms(
    whole: Value, shape: Shape, dims: Sequence[int], known: Mapping[Value, Any], is_made: Callable[[Value], bool]
) -> list[Term] | None:
    """The terms from which a value follows by sums and by factors that are the same along dimensions, each behind what
    it is made of, down to those that are not to be looked into; None where it does not follow so."""
    first: Term = (whole, ())
    pending, found = [first], dict[Term, None]()
    count = 0
    while pending:
        term = pending.pop()
        value, times = term
        found.pop(term, None)
        found[term] = None
        if not is_made(value):
            count += 1
        else:
            terms = [(v, times) for v in _terms(value, shape, dims, known)] or _multiplied(term, shape, known, is_made)
            if not terms:
                return None
            pending += terms
        if count > MOST_TERMS:
            return None
    return list(found)[::-1]


def _multiplied(term: Term, shape: Shape, known: Mapping[Value, Any], is_made: Callable[[Value], bool]) -> list[Term]:
    """The factor of a product that is looked into, beside one that is not; none where it is no such product."""
    value, times = term
    factors = value.node.inputs if value.node.kind == _PRODUCT else ()
    made = [v for v in factors if is_made(v)]
    alone = [v for v in factors if not is_made(v)]
    if len(made) != 1 or any(known[v].shape != shape or known[v].dtype != known[value].dtype for v in factors):
        return []
    return [(made[0], (*times, *alone))]


def _terms(value: Value, shape: Shape, dims: Sequence[int], known: Mapping[Value, Any]) -> list[Value]:
    """The operands of which a value is a sum, or the one of which it is a multiple; none where it is no such thing."""
    node = value.node
    tensors = [v for v in node.inputs if isinstance(known.get(v), Meta)]
    if len(node.outputs) != 1 or any(known[v].dtype != known[value].dtype for v in tensors):
        return []
    whole = [v for v in tensors if known[v].shape == shape and _narrow(v, shape, dims, known) is v]
    if node.kind in _ADDS:
        is_plain = all(known.get(v) == 1 for v in node.inputs[2:])
        return whole if is_plain and len(whole) == 2 else []
    if node.kind in _SCALED:
        return whole
    reduction = reduction_of(node, known)
    if reduction is not None:
        return whole if reduction.is_copy and reduction.copies else []
    if node.kind == _QUOTIENT or node.kind == _PRODUCT:
        others = [v for v in tensors if v not in whole]
        is_factor = all(
            is_alike_along(v, shape, dims, known) for v in (_narrow(other, shape, dims, known) for other in others)
        )
        is_scaled = (
            len(whole) == len(others) == 1 and is_factor and (node.kind == _PRODUCT or node.inputs[0] is whole[0])
        )
        return whole if is_scaled else []
    return []


def _narrow(value: Value, shape: Shape, dims: Sequence[int], known: Mapping[Value, Any]) -> Value:
    """What was expanded along dimensions, before it was; else the value."""
    if value.node.kind == _EXPAND and is_alike_along(value.node.inputs[0], shape, dims, known):
        return value.node.inputs[0]
    return value


def is_alike_along(value: Value, shape: Shape, dims: Sequence[int], known: Mapping[Value, Any]) -> bool:
    """Whether a tensor beside one of a shape is the same along dimensions of it."""
    own = known[value].shape
    lacks = len(shape) - len(own)
    return all(d < lacks or own[d - lacks] == 1 for d in dims)

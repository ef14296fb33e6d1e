"""Reductions over what was stacked: a kernel that has the parts at hand combines them where it needs the result.

    %1 : float32[2, n, d] = aten::stack([%a, %b], 0)
    %2 : float32[2, n, d] = aten::exp(%1)                →       exp of %a + exp of %b
    %3 : float32[n, d] = aten::sum(%2, [0])

As a reduction of programs' own it would be a kernel that reads each part from memory, and what rows are reduced to
besides would be in another. So it is with a short product of matrices of which a part is needed beside the whole:

    %2 : float32[n, 4, d] = aten::sum(%1, [1])
    %3 : float32[n, 1, d] = aten::slice(%2, 1, 0, 1)           each element of %4 adds up two sums of products
    %4 : float32[n, 4, d] = aten::sub(%2, %3)

And so with streams that are weighed for each token, and whose sum is reduced along with what is added to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from ....lang.light_dataclasses import replace
from ...ir.node import Node, Value
from ...ops.dims import wrap_dim
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from ...scheduling.row_parts import COMBINED
from ...types.open_sizes import next_power
from ..elements.joins import stack
from ..elements.pointwise import cast_element, pointwise_element, same_element
from ..elements.reads import one_hot
from ..elements.rule import ElementReader
from .reductions import Reduction, reduction_of
from .tiles import most_points

MOST_FOLLOWED = 8
"""Values that are looked at to find out whether one is needed elsewhere."""
_CASTS = ("aten::to.dtype",)
_PARTS = ("aten::slice.Tensor", "aten::select.int")
MOST_STACKED = 8
"""That are stacked: each is computed in the text of the kernel."""


def part_by_part(
    value: Value, reduction: Reduction, known: Mapping[Value, Any], rules: Mapping[Node, ElementReader]
) -> Reduction:
    """The reduction over what is left where the only dimension that it goes over is one of few parts: that are stacked
    in the same kernel, or of products whose sum is needed along with that of another place."""
    if len(reduction.dims) != 1 or reduction.combine not in COMBINED:
        return reduction
    (dim,) = reduction.dims
    size = known[reduction.operand].shape[dim]
    if type(size) is not int or size > MOST_STACKED:
        return reduction
    is_written_out = _is_stacked(reduction.operand, dim, known, rules)
    if is_short_product(reduction, known):
        is_written_out |= _is_needed_elsewhere(value, known) or _is_reduced_in_turn(reduction, value, known)
    elif is_short_sum(reduction, known):
        is_written_out |= _is_reduced_in_turn(reduction, value, known) and not _waits_for_whole(reduction, known)
    return replace(reduction, dims=(), stacked=(dim,)) if is_written_out else reduction


def is_short_product(reduction: Reduction, known: Mapping[Value, Any]) -> bool:
    """Whether few products of elements are added up, each of what lacks a dimension of the other: a product of small
    matrices."""
    value = reduction.operand
    node, shape = value.node, known[value].shape
    if node.kind != "aten::mul.Tensor" or reduction.combine != "sum" or len(reduction.dims) != 1:
        return False
    (dim,) = reduction.dims
    factors = [meta for v in node.inputs if isinstance(meta := known.get(v), Meta) and meta.rank == len(shape)]
    if type(shape[dim]) is not int or shape[dim] > MOST_STACKED or len(factors) != 2:
        return False
    return all(meta.shape != shape and meta.shape[dim] != 1 for meta in factors)


def is_short_sum(reduction: Reduction, known: Mapping[Value, Any]) -> bool:
    """Whether few elements are added up that lie far apart: of streams that are weighed for each token, say."""
    shape = known[reduction.operand].shape
    if reduction.combine != "sum" or len(reduction.dims) != 1:
        return False
    (dim,) = reduction.dims
    last = max(d for d, size in enumerate(shape) if size != 1)
    return type(shape[dim]) is int and shape[dim] <= MOST_STACKED and 0 < dim < last


def is_weighed(reduction: Reduction, known: Mapping[Value, Any]) -> bool:
    """Whether the few elements are products, whose factors the gradients of both need anyway."""
    if reduction.operand.node.kind != "aten::mul.Tensor" or not is_short_sum(reduction, known):
        return False
    return _points_of_matrix(reduction, known) <= most_points(known[reduction.operand].dtype)


def _is_needed_elsewhere(value: Value, known: Mapping[Value, Any]) -> bool:
    """Whether elements of a value, or of what follows from it element by element, are needed at another place."""
    pending = [value]
    for found in pending:
        for use in found.uses if len(pending) <= MOST_FOLLOWED else ():
            if use.user.kind in _PARTS:
                return True
            if OPS.has(use.user.schema, Trait.POINTWISE) and known.get(use.user.output) == known[value]:
                pending.append(use.user.output)
    return False


def _is_reduced_in_turn(reduction: Reduction, value: Value, known: Mapping[Value, Any]) -> bool:
    """Whether a sum of products, or what follows from it element by element, is reduced, and no tile will hold both:
    it does where elements of all products follow from it, and a program can hold these."""
    whole = known[reduction.operand].shape
    is_held = _points_of_matrix(reduction, known) <= most_points(known[reduction.operand].dtype)
    pending, seen, is_reduced = [(value, True)], {value}, False
    while pending:
        found, is_alike = pending.pop()
        for node in {use.user: None for use in found.uses}:
            is_reduced |= is_alike and reduction_of(node, known) is not None
            is_pointwise = OPS.has(node.schema, Trait.POINTWISE) or node.kind in _CASTS
            for output in node.outputs:
                shape = getattr(known.get(output), "shape", None)
                if is_held and shape == whole:
                    return False
                if shape is not None and output not in seen:
                    seen.add(output)
                    pending.append((output, is_alike and is_pointwise and shape == known[value].shape))
    return is_reduced


def _waits_for_whole(reduction: Reduction, known: Mapping[Value, Any]) -> bool:
    """Whether what is added up follows from a reduction of as many elements, so that a tile holds them all: of rows
    that are weighed by what each gave."""
    whole = known[reduction.operand].shape
    pending, seen = [reduction.operand], {reduction.operand}
    for found in pending:
        inner = reduction_of(found.node, known)
        if inner is not None and inner.dims and known[inner.operand].shape == whole:
            return True
        new = [v for v in found.node.inputs if v not in seen and isinstance(known.get(v), Meta)]
        seen.update(new)
        pending += new
    return False


def _points_of_matrix(reduction: Reduction, known: Mapping[Value, Any]) -> int:
    """Products that are there of each two matrices, padded as a tile is."""
    shape = known[reduction.operand].shape
    if not is_short_product(reduction, known):
        (dim,) = reduction.dims
        return prod(map(next_power, shape[dim:]))
    factors = [known[v].shape for v in reduction.operand.node.inputs]
    alone = [size for d, size in enumerate(shape) if d in reduction.dims or any(f[d] != size for f in factors)]
    return prod(map(next_power, alone))


def _is_stacked(value: Value, dim: int, known: Mapping[Value, Any], rules: Mapping[Node, ElementReader]) -> bool:
    """Whether elements follow, element by element, from what was stacked along a dimension, and from nothing else that
    varies along it; classes may have one of their own behind it."""
    pending, seen, found = [(value, known[value].rank - dim)], {value}, False
    while pending:
        value, back = pending.pop()
        meta, rule = known.get(value), rules.get(value.node)
        if not isinstance(meta, Meta) or meta.rank < back or meta.shape[meta.rank - back] == 1:
            continue
        if rule is stack and wrap_dim(known[value.node.inputs[1]], meta.rank) == meta.rank - back:
            found = True
        elif rule in (pointwise_element, cast_element, same_element) or (rule is one_hot and back > 1):
            new = [v for v in value.node.inputs if v not in seen]
            seen.update(new)
            pending += [(v, back - 1 if rule is one_hot else back) for v in new]
        else:
            return False
    return found

"""Reductions over what was stacked: a kernel that has the parts at hand combines them where it needs the result.

    %1 : float32[2, n, d] = aten::stack([%a, %b], 0)
    %2 : float32[2, n, d] = aten::exp(%1)                →       exp of %a + exp of %b
    %3 : float32[n, d] = aten::sum(%2, [0])

As a reduction of programs' own it would be a kernel that reads each part from memory, and what rows are reduced to
besides would be in another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....lang.light_dataclasses import replace
from ...ir.node import Node, Value
from ...ops.dims import wrap_dim
from ...ops.meta import Meta
from ...scheduling.row_parts import COMBINED
from ..elements.joins import stack
from ..elements.pointwise import cast_element, pointwise_element, same_element
from ..elements.rule import ElementReader
from .reductions import Reduction

MOST_STACKED = 8
"""That are stacked: each is computed in the text of the kernel."""


def part_by_part(reduction: Reduction, known: Mapping[Value, Any], rules: Mapping[Node, ElementReader]) -> Reduction:
    """The reduction over what is left where the only dimension that it goes over is one of few parts that are stacked
    in the same kernel."""
    if len(reduction.dims) != 1 or reduction.combine not in COMBINED:
        return reduction
    (dim,) = reduction.dims
    size = known[reduction.operand].shape[dim]
    if type(size) is not int or size > MOST_STACKED or not _is_stacked(reduction.operand, dim, known, rules):
        return reduction
    return replace(reduction, dims=(), stacked=(dim,))


def _is_stacked(value: Value, dim: int, known: Mapping[Value, Any], rules: Mapping[Node, ElementReader]) -> bool:
    """Whether elements follow, element by element, from what was stacked along a dimension, and from nothing else that
    varies along it."""
    rank = known[value].rank
    pending, seen, found = [value], {value}, False
    while pending:
        value = pending.pop()
        meta, rule = known.get(value), rules.get(value.node)
        if not isinstance(meta, Meta) or meta.rank - rank + dim < 0 or meta.shape[meta.rank - rank + dim] == 1:
            continue
        if rule is stack and wrap_dim(known[value.node.inputs[1]], meta.rank) == meta.rank - rank + dim:
            found = True
        elif rule in (pointwise_element, cast_element, same_element):
            new = [v for v in value.node.inputs if v not in seen]
            seen.update(new)
            pending += new
        else:
            return False
    return found

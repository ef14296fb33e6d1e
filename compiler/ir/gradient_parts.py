"""Gradients that are zeros but for a part, and what adds that part alone to a sum.

%zeros : Tensor = aten::new_zeros(%g, %size, …)
%1 : Tensor = aten::select_scatter(%zeros, %g, %dim, %i)        prim::grad_add_select(…, %g, %size, %dim, %i)
%1 : Tensor = aten::slice_scatter(%zeros, %g, %dim, …)          prim::grad_add_slice(…, %g, %size, %dim, …)
%missing : List[Tensor] = prim::no_grads(%like, %count)
%2 : List[Tensor] = aten::_set_item.t(%missing, %i, %g)         prim::grad_add_item(…, %g, %i, %count)
"""

from __future__ import annotations

from typing import NamedTuple

from .node import Node, Value
from .rewrite import constant_of

GRAD_OF = "prim::GradOf"
_TENSORS = {"aten::select_scatter": "prim::grad_add_select", "aten::slice_scatter": "prim::grad_add_slice"}


class GradientPart(NamedTuple):
    """The op that adds a part to a sum, with what it takes behind the sum: the gradient, and what says where."""

    kind: str
    gradient: Value
    where: list[Value]


def part_of(value: Value) -> GradientPart | None:
    """What a value is a part of, where nothing else uses what it is made by."""
    node = value.node
    if value.use_count != 1:
        return None
    if node.kind in _TENSORS:
        zeros, gradient, *at = node.inputs
        return (
            GradientPart(_TENSORS[node.kind], gradient, [zeros.node.inputs[1], *at])
            if _are_zeros(zeros, gradient)
            else None
        )
    if node.kind == "aten::_set_item.t" and node.inputs[0].node.kind == "prim::no_grads":
        missing, index, gradient = node.inputs
        is_own = missing.use_count == 1
        return GradientPart("prim::grad_add_item", gradient, [index, missing.node.inputs[1]]) if is_own else None
    return _wanted_part(value) if node.kind == GRAD_OF else None


def _are_zeros(zeros: Value, gradient: Value) -> bool:
    """Whether an array is zeros of the dtype of a gradient, made for it alone."""
    if zeros.node.kind != "aten::new_zeros" or zeros.use_count != 1:
        return False
    like, _, *options = zeros.node.inputs
    return like is gradient and all(constant_of(option) is None for option in options)


def _wanted_part(value: Value) -> GradientPart | None:
    """The part that is computed where a gradient is there; where it is told outside already."""
    node = value.node
    (block,) = node.blocks
    result = block.outputs[value.index]
    inner = part_of(result) if result.node.owner is block and result.node.kind != GRAD_OF else None
    if inner is None or not all(_is_outside(given, node) for given in inner.where):
        return None
    return GradientPart(inner.kind, value, inner.where)


def _is_outside(value: Value, holder: Node) -> bool:
    return value.node.owner is not holder.blocks[0]


def uncover(value: Value) -> None:
    """Have what computes a gradient where it is wanted give the part itself, in the place of zeros around it."""
    if value.node.kind != GRAD_OF:
        return
    (block,) = value.node.blocks
    inner = block.outputs[value.index]
    found = part_of(inner)
    assert found is not None
    block.ret.set_input(value.index, found.gradient)
    value.type = found.gradient.type

"""Products of matrices that are no more than a product of elements, or one sum for each row, are written as such.

A kernel computes them with what comes before and after, where the library would read a matrix from memory that a kernel
has written for it: of `torch.tanh(x + q) @ score` no element is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node
from ...ops.meta import Meta
from .drawn import Supported, behind_views, is_drawn

_PRODUCTS = ("aten::matmul", "aten::mm", "aten::bmm", "aten::mv")


def thin_products(graph: Graph, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Replace products over one element, and those of a matrix that a kernel computes with a vector. `known` is what
    `settle_shapes` gives for the graph.

    Before:
        graph f(%x : Tensor, %score : Tensor, %left : Tensor, %right : Tensor):
          %1 : Tensor = aten::tanh(%x)
          %2 : Tensor = aten::matmul(%1, %score)
          %3 : Tensor = aten::mm(%left, %right)
          return (%2, %3)
    After:
        graph f(%x : Tensor, %score : Tensor, %left : Tensor, %right : Tensor):
          %1 : Tensor = aten::tanh(%x)
          %2 : Tensor = aten::mul.Tensor(%1, %score)
          %3 : List[int] = prim::Constant[value=[-1]]()
          %4 : bool = prim::Constant[value=False]()
          %5 : None = prim::Constant[value=None]()
          %6 : Tensor = aten::sum.dim_IntList(%2, %3, %4, %5)
          %7 : Tensor = aten::mul.Tensor(%left, %right)
          return (%6, %7)
    """
    changed = False
    for node in list(graph.nodes):
        if node.kind not in _PRODUCTS or not _are_alike(node, known):
            continue
        if _is_outer(node, known):
            _replace_by(node, Builder.in_front_of(node).op("aten::mul.Tensor", *node.inputs))
        elif _is_with_vector(node, known, supports):
            _replace_by(node, _sum_of_products(node, known))
        else:
            continue
        changed = True
    return changed


def _are_alike(node: Node, known: Mapping[Value, Any]) -> bool:
    """Whether two floating tensors of one dtype are multiplied."""
    left, right = (known.get(value) for value in node.inputs)
    if not isinstance(left, Meta) or not isinstance(right, Meta):
        return False
    return left.dtype.is_floating and left.dtype == right.dtype


def _is_outer(node: Node, known: Mapping[Value, Any]) -> bool:
    """Whether nothing is summed up: columns times rows."""
    left, right = (known[value] for value in node.inputs)
    return left.rank > 1 and right.rank > 1 and _is_one(left.shape[-1])


def _is_one(size: int) -> bool:
    """Whether a size is 1 whatever open sizes are; these are asked nothing, for what holds for one may hold for all."""
    return type(size) is int and size == 1


def _is_with_vector(node: Node, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Whether a kernel computes a matrix, and the other factor is a vector. The library adds up products of halves
    without rounding them first."""
    left, right = node.inputs
    if known[left].dtype.is_half:
        return False
    if known[left].rank == 1:
        return known[right].rank > 1 and _is_computed(right, known, supports)
    if not _is_computed(left, known, supports):
        return False
    return known[right].rank == 1 or _is_one(known[right].shape[-1])


def _is_computed(matrix: Value, known: Mapping[Value, Any], supports: Supported) -> bool:
    whole = behind_views(matrix)
    return isinstance(known.get(whole), Meta) and is_drawn(whole.node, known, supports)


def _sum_of_products(node: Node, known: Mapping[Value, Any]) -> Value:
    builder = Builder.in_front_of(node)
    left, right = node.inputs
    dim, is_kept = -1, False
    if known[left].rank == 1:
        left, dim = builder.op("aten::unsqueeze", left, -1), -2
    elif known[right].rank > 1:
        right, is_kept = builder.op("aten::transpose.int", right, -2, -1), True
    return builder.op("aten::sum.dim_IntList", builder.op("aten::mul.Tensor", left, right), [dim], is_kept, None)


def _replace_by(node: Node, value: Value) -> None:
    value.type, value.name_hint = node.output.type, node.output.name_hint
    replace_node(node, [value])

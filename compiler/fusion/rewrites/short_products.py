"""Products of many small matrices are sums of products of elements, which a kernel has in registers.

Of streams that are mixed by a matrix for each token, `einsum("nij,njd->nid", mixing, streams)`, the library reads and
writes all that it multiplies, and so does whoever computes with it. A kernel goes over the long dimension and adds up
what is short:

    (mixing[:, :, :, None] * streams[:, None, :, :]).sum(2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from ....lang.light_dataclasses import dataclass
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node
from ...ops.families.linalg.product_shapes import dimension_labels
from ...ops.meta import Meta
from ...types.dtypes import FLOAT32
from ...types.open_sizes import is_open

MOST_SHORT = 8
"""Points along the short dimensions of each side at most."""
LEAST_LONG = 16
"""Points along the long one at least: less than that is a small matrix in all."""
LEAST_MANY = 64
"""Matrices at least: of few the library's product takes no longer than a launch."""
_PRODUCTS = ("aten::matmul", "aten::bmm")
_EINSUM, _ADJOINT = "aten::einsum", "gs::einsum_adjoint"


@dataclass(frozen=True, slots=True)
class _Product:
    """Two tensors of one dtype, the labels of their dimensions, and those of the result's."""

    left: Value
    left_labels: Sequence[str]
    right: Value
    right_labels: Sequence[str]
    result: Sequence[str]


def write_short_products(graph: Graph, known: Mapping[Value, Any]) -> bool:
    """Replace products of many small matrices. `known` is what `settle_shapes` gives for the graph.

    Before:
        graph f(%mixing : Tensor, %streams : Tensor):
          %1 : Tensor = aten::matmul(%mixing, %streams)
          return (%1)
    After:
        graph f(%mixing : Tensor, %streams : Tensor):
          %1 : int = prim::Constant[value=3]()
          %2 : Tensor = aten::unsqueeze(%mixing, %1)
          %3 : int = prim::Constant[value=1]()
          %4 : Tensor = aten::unsqueeze(%streams, %3)
          %5 : Tensor = aten::mul.Tensor(%2, %4)
          %6 : List[int] = prim::Constant[value=[2]]()
          %7 : bool = prim::Constant[value=False]()
          %8 : None = prim::Constant[value=None]()
          %9 : Tensor = aten::sum.dim_IntList(%5, %6, %7, %8)
          return (%9)
    """
    changed = False
    for node in list(graph.nodes):
        product = _product(node, known)
        order = _order(product, known) if product is not None else None
        if product is not None and order is not None:
            result = _written(Builder.in_front_of(node), product, order, known)
            result.type, result.name_hint = node.output.type, node.output.name_hint
            replace_node(node, [result])
            changed = True
    return changed


def _product(node: Node, known: Mapping[Value, Any]) -> _Product | None:
    """A node as a product of two tensors, where it is one."""
    found = None
    if node.kind in _PRODUCTS:
        found = _of_matrices(node, known)
    elif node.kind == _EINSUM:
        found = _of_einsum(known.get(node.inputs[0]), _items(node.inputs[1]), known)
    elif node.kind == _ADJOINT:
        found = _of_adjoint(node, known)
    if found is None:
        return None
    left, right = known.get(found.left), known.get(found.right)
    is_alike = isinstance(left, Meta) and isinstance(right, Meta) and left.dtype == right.dtype
    is_plain = all(len(set(labels)) == len(labels) for labels in (found.left_labels, found.right_labels))
    return found if is_alike and is_plain and known[found.left].dtype.is_floating else None


def _of_matrices(node: Node, known: Mapping[Value, Any]) -> _Product | None:
    left, right = (known.get(value) for value in node.inputs)
    if not isinstance(left, Meta) or not isinstance(right, Meta) or left.rank != right.rank or left.rank < 3:
        return None
    batch = [str(d) for d in range(left.rank - 2)]
    return _Product(node.inputs[0], [*batch, "m", "k"], node.inputs[1], [*batch, "k", "n"], [*batch, "m", "n"])


def _items(value: Value) -> list[Value]:
    return value.node.inputs if value.node.kind == "prim::ListConstruct" else []


def _of_einsum(equation: Any, tensors: Sequence[Value], known: Mapping[Value, Any]) -> _Product | None:
    metas = [meta for tensor in tensors if isinstance(meta := known.get(tensor), Meta)]
    if not isinstance(equation, str) or len(tensors) != 2 or len(metas) != 2:
        return None
    (left, right), result = dimension_labels(equation, [meta.rank for meta in metas])
    return _Product(tensors[0], left, tensors[1], right, result)


def _of_adjoint(node: Node, known: Mapping[Value, Any]) -> _Product | None:
    """The gradient of an operand: that of the result by the other operand."""
    gradient, equation, _, which = node.inputs
    tensors = _items(node.inputs[2])
    forward = _of_einsum(known.get(equation), tensors, known)
    number = known.get(which)
    if forward is None or not isinstance(number, int) or not isinstance(known.get(gradient), Meta):
        return None
    own, other = (forward.left_labels, forward.right_labels)[:: 1 if number == 0 else -1]
    if known[tensors[number]].dtype != known[gradient].dtype or not set(own) <= {*forward.result, *other}:
        return None
    return _Product(gradient, forward.result, tensors[1 - number], other, own)


def _order(product: _Product, known: Mapping[Value, Any]) -> list[str] | None:
    """The labels in the order in which a kernel goes over them, the long ones last; None where more than one side is
    long, and where the matrices are few."""
    left = dict(zip(product.left_labels, known[product.left].shape, strict=True))
    right = dict(zip(product.right_labels, known[product.right].shape, strict=True))
    sizes = {**left, **right}
    if any(left[label] != right[label] for label in left if label in right):
        return None
    summed = [label for label in sizes if label not in product.result]
    if not set(product.result) <= sizes.keys() or any(label not in left or label not in right for label in summed):
        return None
    many = [label for label in product.result if label in left and label in right]
    sides = [summed, [x for x in product.result if x not in right], [x for x in product.result if x not in left]]
    if sum(_is_surely_long(side, sizes) for side in sides) > 1 or not many:
        return None
    # What is asked of open sizes is noted, so they are asked last.
    long = [side for side in sides if _is_surely_long(side, sizes) or prod(sizes[x] for x in side) > MOST_SHORT]
    if len(long) != 1 or prod(sizes[x] for x in long[0]) < LEAST_LONG or prod(sizes[x] for x in many) < LEAST_MANY:
        return None
    order = [*many, *(label for label in (*product.result, *summed) if label not in many)]
    return [*(label for label in order if label not in long[0]), *long[0]]


def _is_surely_long(labels: Iterable[str], sizes: Mapping[str, int]) -> bool:
    """Whether dimensions have more points than are written out, whatever open sizes are; 0 is no size of these."""
    return prod(sizes[label] for label in labels if not is_open(sizes[label])) > MOST_SHORT


def _written(builder: Builder, product: _Product, order: Sequence[str], known: Mapping[Value, Any]) -> Value:
    dtype = known[product.left].dtype
    left = _arranged(builder, product.left, product.left_labels, order, known)
    right = _arranged(builder, product.right, product.right_labels, order, known)
    result = builder.op("aten::mul.Tensor", left, right)
    summed = [d for d, label in enumerate(order) if label not in product.result]
    if summed:
        result = builder.op("aten::sum.dim_IntList", result, summed, False, None)
    left_over = [label for label in order if label in product.result]
    if left_over != list(product.result):
        result = builder.op("aten::permute", result, [left_over.index(label) for label in product.result])
    # As the library, which rounds what was added up, and not each product.
    return builder.op("aten::to.dtype", result, dtype.code) if dtype.is_half else result


def _arranged(
    builder: Builder, value: Value, labels: Sequence[str], order: Sequence[str], known: Mapping[Value, Any]
) -> Value:
    """A tensor with its dimensions in an order, and dimensions of one for the labels that it lacks."""
    if known[value].dtype.is_half:
        value = builder.op("aten::to.dtype", value, FLOAT32.code)
    own = [label for label in order if label in labels]
    if own != list(labels):
        value = builder.op("aten::permute", value, [labels.index(label) for label in own])
    for d, label in enumerate(order):
        if label not in labels:
            value = builder.op("aten::unsqueeze", value, d)
    return value

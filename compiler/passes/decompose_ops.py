"""Take ops apart that are several in one, so that what follows sees the parts.

Before:
    graph f(%b : Tensor[float32], %x : Tensor[float32], %w : Tensor[float32]):
      %1 : int = prim::Constant[value=1]()
      %2 : Tensor[float32] = aten::addmm(%b, %x, %w, %1, %1)
      return (%2)
After:
    graph f(%b : Tensor[float32], %x : Tensor[float32], %w : Tensor[float32]):
      %1 : int = prim::Constant[value=1]()
      %2 : Tensor[float32, rank=2] = aten::mm(%x, %w)
      %3 : Tensor[float32, rank=2] = aten::expand_as(%b, %2)
      %4 : Tensor[float32, rank=2] = aten::add.Tensor(%3, %2, %1)
      return (%4)

Where nothing is to be differentiated only: each op has a formula of its own. All tensors must be known to be float32 or
float64: halves are rounded once, at the end of the whole op. The expansion, a view, is there to refuse what the op
refuses.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..ir.rewrite import constant_of, replace_node, rewrite_nodes
from ..types.types import TensorType


def decompose_ops(graph: Graph) -> bool:
    """Replace each op of the table by its parts."""
    return rewrite_nodes(graph, _decompose)


def _decompose(node: Node) -> Node | None:
    rule = _PARTS.get(node.kind)
    if rule is None or not all(_is_full_float(v) for v in node.inputs if isinstance(v.type, TensorType)):
        return None
    made = rule(Builder.in_front_of(node), node)
    return replace_node(node, [made]) if made is not None else None


def _is_full_float(value: Value) -> bool:
    dtype = value.type.dtype if isinstance(value.type, TensorType) else None
    return dtype is not None and dtype.is_floating and not dtype.is_half


def _product_and_sum(product: str) -> Callable[[Builder, Node], Value | None]:
    """input + left @ right, without factors."""

    def rule(builder: Builder, node: Node) -> Value | None:
        bias, left, right, beta, alpha = node.inputs
        if constant_of(beta) != 1 or constant_of(alpha) != 1:
            return None
        made = builder.op(product, left, right)
        return builder.op("aten::add.Tensor", builder.op("aten::expand_as", bias, made), made, alpha)

    return rule


_PARTS: dict[str, Callable[[Builder, Node], Value | None]] = {
    "aten::addmm": _product_and_sum("aten::mm"),
    "aten::addmv": _product_and_sum("aten::mv"),
    "aten::baddbmm": _product_and_sum("aten::bmm"),
}
"""From a node to the value that stands for it, or None where it stays whole."""

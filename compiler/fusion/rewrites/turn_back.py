"""What is saved, and is a result but for the order of its dimensions, is a view of that result.

A softmax along another dimension than the last is given turned and saved as it was: one of both is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...kernel_ir.layout import Layout, contiguous_strides, views_of
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait


def turn_back(graph: Graph, known: Mapping[Value, Any], results: int = 0) -> bool:
    """Have outputs behind the first `results` be views of outputs that are views of them.

    Before:
        graph f(%x : Tensor):
          %y : Tensor = aten::exp(%x)
          %result : Tensor = aten::t(%y)
          return (%result, %y)
    After:
        graph f(%x : Tensor):
          %y : Tensor = aten::exp(%x)
          %result : Tensor = aten::t(%y)
          %1 : List[int] = prim::Constant[value=[1, 0]]()
          %2 : Tensor = aten::permute(%result, %1)
          return (%result, %2)
    """
    changed = False
    outputs = graph.outputs
    for position in range(results, len(outputs)):
        value = outputs[position]
        if value in graph.inputs or OPS.has(value.node.schema, Trait.VIEW):
            continue
        turned = next((use.user for use in value.uses if _is_result(use.user, outputs[:results] or outputs)), None)
        order = _order(turned, known.get(value), known) if turned is not None else None
        if turned is None or order is None:
            continue
        back = Builder(graph, before=graph.body.ret).op("aten::permute", turned.output, order)
        graph.body.ret.set_input(position, back)
        changed = True
    return changed


def _is_result(node: Node, outputs: Sequence[Value]) -> bool:
    """Whether a node is a view of one tensor, and among some outputs."""
    return OPS.has(node.schema, Trait.VIEW) and len(node.outputs) == 1 and node.output in outputs


def _order(view: Node, source: Any, known: Mapping[Value, Any]) -> list[int] | None:
    """The dimensions of a view in the order of those of its source; None where it is no mere other order of them."""
    op = OPS.of(view.schema)
    if op is None or view.inputs[0].node is view or not isinstance(source, Meta):
        return None
    layout = Layout.contiguous(source)
    found = views_of(op, [known.get(value) for value in view.inputs], 0, layout)
    if not found or len(found) != 1 or found[0].offset or 1 in source.shape or len(found[0].shape) != source.rank:
        return None
    at = {stride: dim for dim, stride in enumerate(found[0].strides)}
    order = [at.get(stride, -1) for stride in contiguous_strides(source.shape)]
    if -1 in order or order == sorted(order) or [found[0].shape[d] for d in order] != list(source.shape):
        return None
    return order

"""What follows element by element from sums that are stacked is stacked itself: the kernel that has the sums stores it.

    %1 : float32[n, 2] = aten::stack([%a, %b], 1)            %4 : float32[n, 1] = aten::div(%a[:, None], %2)
    %2 : float32[n, 1] = aten::sum(%1, [1], True)      →     %5 : float32[n, 1] = aten::div(%b[:, None], %2)
    %3 : float32[n, 2] = aten::div(%1, %2)                   %3 : float32[n, 2] = aten::cat([%4, %5], 1)

Of `%a` and `%b`, the largest two of a row, say, a kernel over the elements of the stack would read from memory what one
over rows has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ops.dims import wrap_dim
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from ..planning.reductions import reduction_of
from ..planning.stacked import MOST_STACKED


def spread_over_stacked_sums(graph: Graph, known: Mapping[Value, Any]) -> bool:
    """Replace results that follow from sums which are stacked. `known` is what `settle_shapes` gives for the graph.

    Before:
        graph f(%x : Tensor, %y : Tensor, %s : Tensor):
          %1 : List[int] = prim::Constant[value=[1]]()
          %2 : bool = prim::Constant[value=False]()
          %3 : int = prim::Constant[value=1]()
          %4 : Tensor = aten::amax(%x, %1, %2)
          %5 : Tensor = aten::amax(%y, %1, %2)
          %6 : List[Tensor] = prim::ListConstruct(%4, %5)
          %7 : Tensor = aten::stack(%6, %3)
          %8 : Tensor = aten::div.Tensor(%7, %s)
          return (%8)
    After:
        graph f(%x : Tensor, %y : Tensor, %s : Tensor):
          %1 : List[int] = prim::Constant[value=[1]]()
          %2 : bool = prim::Constant[value=False]()
          %3 : Tensor = aten::amax(%x, %1, %2)
          %4 : Tensor = aten::amax(%y, %1, %2)
          %5 : int = prim::Constant[value=1]()
          %6 : Tensor = aten::unsqueeze(%3, %5)
          %7 : int = prim::Constant[value=1]()
          %8 : Tensor = aten::unsqueeze(%4, %7)
          %9 : Tensor = aten::div.Tensor(%6, %s)
          %10 : Tensor = aten::div.Tensor(%8, %s)
          %11 : List[Tensor] = prim::ListConstruct(%9, %10)
          %12 : int = prim::Constant[value=1]()
          %13 : Tensor = aten::cat(%11, %12)
          return (%13)
    """
    stacks: dict[Value, tuple[Node, ...]] = {}
    for node in graph.nodes:
        if _is_of_sums(node, known):
            stacks[node.output] = (node,)
            continue
        stacked = [value for value in node.inputs if value in stacks]
        if len(stacked) == 1 and _is_spread(node, stacked[0], stacks[stacked[0]][0], known):
            stacks[node.output] = (*stacks[stacked[0]], node)
    changed = False
    for place, value in enumerate(graph.outputs):
        if value in stacks:
            graph.body.ret.set_input(place, _side_by_side(Builder.in_front_of(graph.body.ret), stacks[value], known))
            changed = True
    return changed


def _is_of_sums(node: Node, known: Mapping[Value, Any]) -> bool:
    """Whether a node stacks what rows are reduced to, as many as a kernel writes out."""
    if node.kind != "aten::stack" or not isinstance(known.get(node.output), Meta):
        return False
    parts = node.inputs[0].node.inputs
    if node.inputs[0].node.kind != "prim::ListConstruct" or not 1 < len(parts) <= MOST_STACKED:
        return False
    found = [reduction_of(part.node, known) if len(part.node.outputs) == 1 else None for part in parts]
    is_alike = all(known.get(part) == known.get(parts[0]) for part in parts)
    return is_alike and all(reduction is not None and reduction.dims for reduction in found)


def _is_spread(node: Node, stacked: Value, stack: Node, known: Mapping[Value, Any]) -> bool:
    """Whether elements of a node follow each from the one of a stack and from what is the same along it."""
    whole, result = known[stacked], known.get(node.output) if len(node.outputs) == 1 else None
    if not isinstance(result, Meta) or result.shape != whole.shape or node.inputs.count(stacked) != 1:
        return False
    if not OPS.has(node.schema, Trait.POINTWISE) or OPS.has(node.schema, Trait.RANDOM):
        return False
    back = whole.rank - wrap_dim(known[stack.inputs[1]], whole.rank)
    others = [known[v] for v in node.inputs if v is not stacked and isinstance(known.get(v), Meta)]
    return all(meta.rank < back or meta.shape[meta.rank - back] == 1 for meta in others)


def _side_by_side(builder: Builder, nodes: Sequence[Node], known: Mapping[Value, Any]) -> Value:
    """What the last of some nodes gives, of which the first is a stack and each other follows from the one before. What
    lies side by side is stored part by part, each where it belongs."""
    stack, *others = nodes
    before, dim = stack.output, wrap_dim(known[stack.inputs[1]], known[stack.output].rank)
    parts = [builder.op("aten::unsqueeze", part, dim) for part in stack.inputs[0].node.inputs]
    for node in others:
        assert node.schema is not None
        kind, given = node.schema.full_name, node.inputs
        parts = [builder.op(kind, *[part if value is before else value for value in given]) for part in parts]
        before = node.output
    whole = builder.op("aten::cat", builder.list(parts), dim, name=before.name_hint)
    whole.type = before.type
    return whole

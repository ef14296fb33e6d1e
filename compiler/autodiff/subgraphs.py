"""What can be differentiated, sliced out: nodes gathered in prim::DifferentiableGraph, and small ones put back.

    graph f(%x, %y):                          graph f(%x, %y):
      %1 = aten::mul.Tensor(%x, %y)             %2 = prim::DifferentiableGraph(%x, %y)
      %2 = aten::tanh(%1)             ─▶          block(%x.1, %y.1):
      %3 = aten::argmax(%2, …)                      %1 = aten::mul.Tensor(%x.1, %y.1)
      return (%2, %3)                               %4 = aten::tanh(%1)
                                                    return (%4)
                                                %3 = aten::argmax(%2, …)
                                                return (%2, %3)

The node takes all that its block uses as inputs, constants aside, of which the block has copies: it stands for itself.
A group grows from a consumer to the producers of what it uses, last one first, and may leap over nodes in between that
have nothing to do with it. It does not cross a node with a side effect, nor the border of a block; and it takes in no
producer on which another way through foreign nodes depends, for that would make a cycle.

A branch or a loop goes in whole, if all in it may be differentiated or needs no gradient, and if whether its results
need one does not hang on the way that it goes; so a recurrent net is one group. What cannot go in whole has groups of
its own inside.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.activity import Activity
from ..analysis.captures import captures
from ..analysis.draws import draws, is_random
from ..formulas.library import formula_name
from ..ir.graph import Graph
from ..ir.node import (
    Block,
    Node,
    Value,
    copy_node,
    walk,
)
from ..ir.outline import outline
from ..ir.rewrite import CONSTANT, replace_node
from ..ops.registry import OPS, Trait
from ..types.types import TensorType, is_differentiable
from .grouping import Grouping

KIND = "prim::DifferentiableGraph"
CREATE_THRESHOLD = 2
"""A group of fewer nodes is not made."""
INLINE_THRESHOLD = 5
"""A group of fewer nodes is put back once all are made."""
_WITH_BLOCKS = ("prim::If", "prim::Loop")
_MOVES = (CONSTANT, "prim::Uninitialized", "prim::ListConstruct", "prim::ListUnpack", "prim::unchecked_cast")
"""Structural kinds without blocks that a branch or loop in a group may hold."""
_NEVER = Trait.RANDOM | Trait.SIDE_EFFECT | Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY


def create_autodiff_subgraphs(graph: Graph, threshold: int = CREATE_THRESHOLD) -> list[Node]:
    """Gather what can be differentiated, in every block; the new nodes in program order.

    Before:
        graph f(%x : Tensor[requires_grad=True], %i : int):
          %1 : Tensor = aten::sin(%x)
          %2 : Tensor = aten::mul.Tensor(%1, %x)
          %3 : str = aten::str(%i)
          return (%2, %3)
    After:
        graph f(%x : Tensor[requires_grad=True], %i : int):
          %1 : Tensor = prim::DifferentiableGraph(%x)
            block(%x.1 : Tensor[requires_grad=True]):
              %2 : Tensor = aten::sin(%x.1)
              %3 : Tensor = aten::mul.Tensor(%2, %x.1)
              return (%3)
          %4 : str = aten::str(%i)
          return (%1, %4)
    """
    made: list[Node] = []
    pending = [graph.body]
    activity = Activity(graph)
    while pending:
        block = pending.pop()
        made += _gather(block, graph, threshold, activity)
        pending += [inner for node in block.nodes if node.kind != KIND for inner in node.blocks]
    order = {node: i for i, node in enumerate(graph.all_nodes())}
    return sorted(made, key=order.__getitem__)


def inline_autodiff_subgraphs(graph: Graph, threshold: int = INLINE_THRESHOLD) -> bool:
    """Put the content of small groups in their place.

    Before:
        graph f(%x : Tensor):
          %1 : Tensor = prim::DifferentiableGraph(%x)
            block(%x.1 : Tensor):
              %2 : Tensor = aten::sin(%x.1)
              return (%2)
          return (%1)
    After:
        graph f(%x : Tensor):
          %1 : Tensor = aten::sin(%x)
          return (%1)
    """
    changed = False
    for node in [n for n in graph.all_nodes() if n.kind == KIND]:
        if size(node) < threshold:
            _put_back(node)
            changed = True
    return changed


def size(group: Node) -> int:
    """How many nodes a group holds, constants aside."""
    return _count(group.blocks[0].nodes)


def subgraph(group: Node, graph: Graph) -> Graph:
    """The block of a group as a graph of its own."""
    name = group.attrs.get("name") or f"{graph.name}_differentiable"
    made = Graph(str(name), graph.functions, group.span, graph.title)
    env: dict[Value, Value] = {}
    (block,) = group.blocks
    for value in block.inputs:
        env[value] = made.body.add_input(value.type, value.name_hint)
    for node in block.nodes:
        copy_node(node, env, made.body.append)
    made.body.ret.replace_inputs([env[value] for value in block.outputs])
    return made


def gradients_wanted(graph: Graph) -> list[bool]:
    """Per input whether a gradient may be asked for, by its type."""
    return [is_differentiable(value.type) for value in graph.inputs]


def is_candidate(node: Node, graph: Graph, activity: Activity) -> bool:
    """Whether a node can be differentiated, and may have to be."""
    used = [*node.inputs, *(value for block in node.blocks for value in captures(block))]
    if not any(is_differentiable(value.type) for value in used):
        return False
    if not any(isinstance(value.type, TensorType) and is_differentiable(value.type) for value in node.outputs):
        return False
    if node.blocks:
        inside = (inner for block in node.blocks for inner in walk(block.nodes))
        return (
            node.kind in _WITH_BLOCKS
            and all(_may_be_inside(inner, graph) for inner in inside)
            and activity.is_clean(node)
        )
    return _has_gradient(node, graph)


def _has_gradient(node: Node, graph: Graph) -> bool:
    """Whether a gradient may pass a node without blocks."""
    if node.kind == "prim::CallFunction":
        callee = graph.called(node)
        return callee is not None and callee.pair is not None and callee.pair.body is None and not draws(callee.graph)
    op = OPS.of(node.schema)
    return op is not None and not op.has(_NEVER) and formula_name(op.schema) is not None


def _may_be_inside(node: Node, graph: Graph) -> bool:
    """Whether a node may stand in a branch or loop that is differentiated whole."""
    op = OPS.of(node.schema)
    if op is None:
        return node.kind in _WITH_BLOCKS or node.kind in _MOVES or _has_gradient(node, graph)
    if op.has(Trait.RANDOM | Trait.SIDE_EFFECT):
        return False
    is_passed = any(is_differentiable(v.type) for v in node.inputs) and any(
        is_differentiable(v.type) for v in node.outputs
    )
    return not is_passed or op.has(Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY) or _has_gradient(node, graph)


def has_effect(node: Node) -> bool:
    """Whether the node, or one inside it, has a side effect or may have one."""
    for inner in walk([node]):
        if OPS.has(inner.schema, Trait.SIDE_EFFECT):
            return True
        if inner.kind == "prim::CallFunction":
            return True
    return False


def _gather(block: Block, graph: Graph, threshold: int, activity: Activity) -> list[Node]:
    nodes = list(block.nodes)
    candidates = {node for node in nodes if is_candidate(node, graph, activity)}
    if _count(candidates) < threshold:
        return []
    others = [node for node in nodes if node not in candidates]
    effects = [node for node in others if has_effect(node)]
    grouping = Grouping(nodes, candidates, effects, [n for n in others if has_effect(n) or _is_random(n)])
    groups = [group for group in grouping.grow() if _count(group) >= threshold]
    if not groups:
        return []
    for node in nodes:
        node.unlink()
    made: list[Node] = []
    for item in grouping.ordered(groups):
        if isinstance(item, Node):
            block.append(item)
        else:
            made.append(outline(block, item, KIND, repeated=_is_constant, span=item[-1].span))
    return made


def _count(nodes: Iterable[Node]) -> int:
    """How many nodes there are, with those inside them, constants aside."""
    return sum(inner.kind != CONSTANT for inner in walk(nodes))


def _is_random(node: Node) -> bool:
    return any(is_random(inner) for inner in walk([node]))


def _is_constant(node: Node) -> bool:
    return node.kind == CONSTANT


def _put_back(group: Node) -> None:
    (block,) = group.blocks
    for inner, outer in zip(block.inputs, group.inputs, strict=True):
        inner.replace_uses_with(outer)
    for node in list(block.nodes):
        node.unlink().insert_before(group)
    replace_node(group, list(block.outputs))

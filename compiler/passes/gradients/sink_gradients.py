"""Put what is asked of a gradient that a branch may not give into the branches, where it is known.

Before:
    graph backward(%taken : bool, %g : Tensor[float32], %x : Tensor[float32]):
      %none : Undefined = prim::AutogradZero()
      %grad : Tensor = prim::If(%taken)
        block():
          %1 : Tensor = aten::exp(%g)
          return (%1)
        block():
          return (%none)
      %total : Tensor = prim::AutogradAdd(%g, %grad)
      %size : List[int] = prim::grad_size(%x)
      %dtype : int = prim::grad_dtype(%x)
      %filled : Tensor = prim::MaterializeGrad(%grad, %size, %dtype)
      return (%total, %filled)
After:
    graph backward(%taken : bool, %g : Tensor[float32], %x : Tensor[float32]):
      %none : Undefined = prim::AutogradZero()
      %grad : Tensor, %total : Tensor, %filled : Tensor = prim::If(%taken)
        block():
          %1 : Tensor = aten::exp(%g)
          %total.1 : Tensor = prim::AutogradAdd(%g, %1)
          %size : List[int] = prim::grad_size(%x)
          %dtype : int = prim::grad_dtype(%x)
          %filled.1 : Tensor = prim::MaterializeGrad(%1, %size, %dtype)
          return (%1, %total.1, %filled.1)
        block():
          %total.2 : Tensor = prim::AutogradAdd(%g, %none)
          %size.1 : List[int] = prim::grad_size(%x)
          %dtype.1 : int = prim::grad_dtype(%x)
          %filled.2 : Tensor = prim::MaterializeGrad(%none, %size.1, %dtype.1)
          return (%none, %total.2, %filled.2)
      %size.2 : List[int] = prim::grad_size(%x)
      %dtype.2 : int = prim::grad_dtype(%x)
      return (%total, %filled)

There a sum is its other operand or an `aten::add`, and no gradient of zeros takes the place of one that is there.
"""

from __future__ import annotations

from ...analysis.definedness import Definedness, State, post_order
from ...ir.graph import Graph
from ...ir.node import Node, Value, copy_node
from ...ops.registry import OPS, Trait

MAX_BEHIND = 256
"""Nodes between a branch and what is asked of a gradient that it gives."""
_ASKED = ("prim::AutogradAdd", "prim::MaterializeGrad")


def sink_gradients(graph: Graph) -> bool:
    """Move sums of gradients, and what fills in for missing ones, into the branches that decide them."""
    asked = [node for node in graph.all_nodes() if node.kind in _ASKED]
    if not asked:
        return False
    states = Definedness(graph)
    for node in post_order(graph):
        states.visit(node)
    changed = False
    for node in asked:
        branch = _deciding(node, states)
        shapes = _between(branch, node) if branch is not None else None
        if branch is not None and shapes is not None:
            _sink(node, branch, shapes, states)
            changed = True
    return changed


def _deciding(node: Node, states: Definedness) -> Node | None:
    """The branch that gives a gradient of a node of which it is known in each side whether it is there."""
    for value in node.inputs:
        branch = value.node
        if branch.kind == "prim::If" and branch.owner is node.owner and states[value] is State.UNKNOWN:
            given = [block.outputs[value.index] for block in branch.blocks]
            if all(states[each] is not State.UNKNOWN for each in given):
                return branch
    return None


def _between(branch: Node, node: Node) -> list[Node] | None:
    """What a node takes that is made behind a branch, if that only asks for shapes of what stands in front of it."""
    behind: list[Node] = []
    at = branch.next
    after: set[Node] = set()
    while at is not None and at is not node:
        if len(after) == MAX_BEHIND:
            return None
        after.add(at)
        at = at.next
    for value in node.inputs:
        if value.node in after:
            op = OPS.of(value.node.schema)
            if op is None or not op.has(Trait.SHAPE_ONLY) or any(_is_at(v, branch, after) for v in value.node.inputs):
                return None
            behind.append(value.node)
    return behind


def _is_at(value: Value, branch: Node, after: set[Node]) -> bool:
    return value.node is branch or value.node in after


def _sink(node: Node, branch: Node, shapes: list[Node], states: Definedness) -> None:
    for block in branch.blocks:
        env = dict(zip(branch.outputs, block.outputs, strict=True))
        for each in (*shapes, node):
            copied = copy_node(each, env, block.append)
            states.visit(copied)
        block.ret.add_input(copied.output)
    result = branch.add_output(node.output.type, node.output.name_hint)
    states.visit(branch)
    node.output.replace_uses_with(result)
    node.destroy()

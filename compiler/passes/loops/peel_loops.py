"""Run the first round of a loop in front of it, where sums of gradients begin with none.

Before:
    graph backward(%n : int, %x : Tensor[float32]):
      %always : bool = prim::Constant[value=True]()
      %none : Undefined = prim::AutogradZero()
      %g : Tensor = prim::Loop(%n, %always, %none)
        block(%i : int, %total : Tensor):
          %1 : Tensor = aten::mul.Scalar(%x, %i)
          %2 : Tensor = prim::AutogradAdd(%total, %1)
          return (%always, %2)
      return (%g)
After:
    graph backward(%n : int, %x : Tensor[float32]):
      %always : bool = prim::Constant[value=True]()
      %none : Undefined = prim::AutogradZero()
      %1 : int = prim::Constant[value=0]()
      %2 : bool = aten::gt.int(%n, %1)
      %g : Tensor = prim::If(%2)
        block():
          %3 : int = prim::Constant[value=0]()
          %4 : Tensor = aten::mul.Scalar(%x, %3)
          %5 : Tensor = prim::AutogradAdd(%none, %4)
          %6 : int = prim::Constant[value=1]()
          %7 : int = aten::sub.int(%n, %6)
          %8 : Tensor = prim::Loop(%7, %always, %5)
            block(%i : int, %total : Tensor):
              %9 : int = aten::add.int(%i, %6)
              %10 : Tensor = aten::mul.Scalar(%x, %9)
              %11 : Tensor = prim::AutogradAdd(%total, %10)
              return (%always, %11)
          return (%8)
        block():
          return (%none)
      return (%g)

The first sum is then its other operand, and the sums of later rounds are those of two gradients that are there: an
`aten::add`. Only small loops in whose rounds there is such a sum.
"""

from __future__ import annotations

from ...analysis.definedness import Definedness, State, post_order
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.kinds import Carried, carried, entering
from ...ir.node import Node, Value, copy_nodes, walk
from ...ir.rewrite import CONSTANT, constant_of, replace_node
from ...types.types import INT

MAX_BODY = 128
"""A body of more nodes, constants aside, is left alone."""
_LOOP, _SUM = "prim::Loop", "prim::AutogradAdd"


def peel_loops(graph: Graph) -> bool:
    """Peel each small loop that begins to sum gradients in its first round."""
    loops = [node for node in graph.all_nodes() if node.kind == _LOOP]
    if not loops:
        return False
    states = Definedness(graph)
    for node in post_order(graph):
        states.visit(node)
    wanted = [loop for loop in loops if any(_begins_sum(place, states) for place in carried(loop))]
    changed = False
    # A loop stands before those inside it.
    for loop in reversed(wanted):
        if _is_small(loop):
            _peel(loop)
            changed = True
    return changed


def _begins_sum(place: Carried, states: Definedness) -> bool:
    """Whether what a loop carries is no gradient at first, and a sum with one that is there from then on."""
    total = place.result.node
    if total.kind != _SUM or place.parameter not in total.inputs or states[place.initial] is not State.ZERO:
        return False
    return any(states[value] is State.NONZERO for value in total.inputs)


def _is_small(loop: Node) -> bool:
    return sum(node.kind != CONSTANT for node in walk(loop.blocks[0].nodes)) <= MAX_BODY


def _peel(loop: Node) -> None:
    trips, entry = loop.inputs[:2]
    builder = Builder.in_front_of(loop)
    limit = constant_of(trips)
    if isinstance(limit, int) and limit > 0:
        condition = entry
    else:
        condition = builder.op("aten::gt.int", trips, 0)
        if constant_of(entry) is not True:
            condition = builder.op("aten::__and__.bool", condition, entry)
    branch = builder.node("prim::If", [condition], blocks=2)
    then, otherwise = branch.blocks
    inner = Builder(then, span=loop.span)
    inner.returns(*_rounds(inner, loop))
    Builder(otherwise, span=loop.span).returns(*entering(loop))
    replace_node(loop, [branch.add_output(value.type, value.name_hint) for value in loop.outputs])


def _rounds(builder: Builder, loop: Node) -> list[Value]:
    """The first round, and a loop over the others."""
    (body,) = loop.blocks
    going, *state = _round(builder, loop, builder.constant(0), entering(loop))
    one = builder.constant(1)
    left = builder.op("aten::sub.int", loop.inputs[0], one)
    node = builder.node(_LOOP, [left, going, *state], [v.type for v in loop.outputs], blocks=1)
    (block,) = node.blocks
    step = block.add_input(INT, body.inputs[0].name_hint)
    current = [block.add_input(v.type, v.name_hint) for v in body.inputs[1:]]
    inner = Builder(block, span=loop.span)
    inner.returns(*_round(inner, loop, inner.op("aten::add.int", step, one), current))
    return node.outputs


def _round(builder: Builder, loop: Node, index: Value, state: list[Value]) -> list[Value]:
    (body,) = loop.blocks
    env: dict[Value, Value] = dict(zip(body.inputs, [index, *state], strict=True))
    return copy_nodes(body, env, builder.insert)

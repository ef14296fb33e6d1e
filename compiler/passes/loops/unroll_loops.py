"""Write out loops: wholly where they run a known few times, else eight rounds at a time.

Before:
    graph f(%x : Tensor):
      %trips : int = prim::Constant[value=2]()
      %always : bool = prim::Constant[value=True]()
      %y : Tensor = prim::Loop(%trips, %always, %x)
        block(%i : int, %z : Tensor):
          %1 : Tensor = aten::mul.Scalar(%z, %i)
          return (%always, %1)
      return (%y)
After, dead nodes aside:
    graph f(%x : Tensor):
      %1 : int = prim::Constant[value=0]()
      %2 : Tensor = aten::mul.Scalar(%x, %1)
      %3 : int = prim::Constant[value=1]()
      %y : Tensor = aten::mul.Scalar(%2, %3)
      return (%y)

A loop whose trip count is not known becomes one that does MAX_ROUNDS rounds at a time, and one behind it for the
rounds that are left. Only loops without a condition, with small bodies, inner ones first. The pass is meant to run
once: a second run would unroll the loop of the rest again.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.kinds import entering
from ...ir.node import Block, Node, Value, copy_nodes, walk
from ...ir.rewrite import CONSTANT, constant_of, replace_node

MAX_ROUNDS = 8
"""So many rounds are written out at most."""
MAX_BODY = 32
"""A body of more nodes, constants aside, is left alone."""
_LOOP, _MAX = "prim::Loop", "prim::max.int"
_LENGTHS = ("aten::len.t", "aten::len.Tensor", "aten::dim", "aten::numel")


def unroll_loops(graph: Graph, *, in_part: bool = True) -> bool:
    """Unroll each small loop that runs a given number of rounds; `in_part` those too whose number is not known."""
    loops = [node for node in graph.all_nodes() if node.kind == _LOOP]
    changed = False
    # A loop stands before those inside it.
    for loop in reversed(loops):
        if not _is_counted(loop) or not _is_small(loop.blocks[0]):
            continue
        trips = constant_of(loop.inputs[0])
        if isinstance(trips, int) and trips <= MAX_ROUNDS:
            _write_out(loop, trips)
        elif in_part:
            _take_several(loop)
        else:
            continue
        changed = True
    return changed


def _is_counted(loop: Node) -> bool:
    """Whether nothing but the trip count ends the loop."""
    return constant_of(loop.inputs[1]) is True and constant_of(loop.blocks[0].outputs[0]) is True


def _is_small(body: Block) -> bool:
    count = 0
    for node in walk(body.nodes):
        count += node.kind != CONSTANT
        if count > MAX_BODY:
            return False
    return True


def _write_out(loop: Node, trips: int) -> None:
    builder = Builder.in_front_of(loop)
    state = entering(loop)
    for index in range(trips):
        state = _round(builder, loop, builder.constant(index), state)
    replace_node(loop, state)


def _take_several(loop: Node) -> None:
    """A loop of eight rounds at a time, and one for the rest."""
    builder = Builder.in_front_of(loop)
    trips = loop.inputs[0]
    if not _is_no_less_than_zero(trips, loop):
        trips = builder.op(_MAX, trips, 0)
    whole = builder.op("aten::floordiv.int", trips, MAX_ROUNDS)
    done = builder.op("aten::mul.int", whole, MAX_ROUNDS)
    left = builder.op("aten::sub.int", trips, done)
    state = _loop(builder, loop, whole, entering(loop), None)
    replace_node(loop, _loop(builder, loop, left, state, done))


def _is_no_less_than_zero(count: Value, at: Node) -> bool:
    """Whether a number of rounds is known not to be negative: a length, or one less than what a branch around holds
    to be positive."""
    made = count.node
    if made.kind in _LENGTHS or (made.kind == _MAX and any(constant_of(value) == 0 for value in made.inputs)):
        return True
    if made.kind != "aten::sub.int" or constant_of(made.inputs[1]) != 1:
        return False
    block = at.owner
    while block is not None and block.node is not None:
        branch = block.node
        test = branch.inputs[0].node if branch.kind == "prim::If" else None
        if test is not None and block is branch.blocks[0] and test.kind == "aten::gt.int":
            more, less = test.inputs
            if more is made.inputs[0] and constant_of(less) == 0:
                return True
        block = branch.owner
    return False


def _loop(builder: Builder, loop: Node, trips: Value, state: list[Value], done: Value | None) -> list[Value]:
    """A loop over the body: eight rounds at a time, or, after so many are done, one."""
    node = builder.node(_LOOP, [trips, loop.inputs[1], *state], [v.type for v in loop.outputs], blocks=1)
    (block,) = node.blocks
    step, *current = [block.add_input(v.type, v.name_hint) for v in loop.blocks[0].inputs]
    inner = Builder(block, span=loop.span)
    if done is not None:
        current = _round(inner, loop, inner.op("aten::add.int", step, done), current)
    else:
        first = inner.op("aten::mul.int", step, MAX_ROUNDS)
        for k in range(MAX_ROUNDS):
            current = _round(inner, loop, inner.op("aten::add.int", first, k) if k else first, current)
    inner.returns(loop.inputs[1], *current)
    return node.outputs


def _round(builder: Builder, loop: Node, index: Value, state: list[Value]) -> list[Value]:
    """Copy the body once; what it carries to the next round."""
    (body,) = loop.blocks
    env: dict[Value, Value] = dict(zip(body.inputs, [index, *state], strict=True))
    results = copy_nodes(body, env, builder.insert)[1:]
    # Where an initial value or a result is known more precisely than what is carried, the types widen on the way.
    return [
        value if value.type == formal.type else builder.cast(value, formal.type)
        for value, formal in zip(results, loop.outputs, strict=True)
    ]

"""A program for arguments of known shapes, written out: loops whose rounds are known round by round, lists by element.

So each value of a round is a value of its own, which may be kept or not, and lives no longer than it has to; in a loop,
what its rounds keep stands in lists until the last of them is undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.kinds import entering
from ..ir.node import Node, Value, copy_nodes, walk
from ..ir.rewrite import replace_node
from ..ops.meta import Abstract
from ..passes.containers.fold_lists import fold_lists
from ..passes.inline_functions import inline_functions
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..passes.simplification.fold_constants import fold_constants
from ..shapes.propagate import ShapeError, propagate_shapes
from ..types.types import ListType, is_tensor_list
from .settle import settle_shapes

MAX_NODES = 10_000
"""Loops are left where writing them out would make more nodes."""
MAX_TRIPS = 256
"""Loops of more rounds are left: what a policy makes of them, it makes of their segments."""
LIST = "prim::ListConstruct"


def straighten(graph: Graph, shapes: Sequence[Abstract], *, keep_pairs: bool = True) -> Graph:
    """A copy for inputs of these shapes. `keep_pairs` leaves calls of functions with a backward of their own.

    Where shapes do not fit, the copy is the graph as it is: running it will say so.

    Before, for n = 2:
        graph f(%x : Tensor, %n : int):
          %always : bool = prim::Constant[value=True]()
          %y : Tensor = prim::Loop(%n, %always, %x)
            block(%i : int, %z : Tensor):
              %1 : Tensor = aten::tanh(%z)
              return (%always, %1)
          return (%y)
    After:
        graph f(%x : Tensor[float32, rank=1], %n : int):
          %1 : Tensor[float32, rank=1] = aten::tanh(%x)
          %y : Tensor[float32, rank=1] = aten::tanh(%1)
          return (%y)
    """
    straight = graph.plain_copy()
    inline_functions(straight, keep_pairs=keep_pairs)
    try:
        known = propagate_shapes(straight, shapes)
        while _write_out_loops(straight, known):
            known = propagate_shapes(straight, shapes)
        _unpack_lists(straight, known)
        settle_shapes(straight, shapes, keep_pairs=keep_pairs, unroll=False)
    except ShapeError:
        return graph.copy()
    return straight


def write_out_rounds(graph: Graph, *shapes: Sequence[Abstract]) -> Graph:
    """A copy with those loops written out that do as many rounds for each of some kinds of arguments, and lists taken
    apart where they are at hand; nothing else of the shapes is written into it."""
    copied = graph.copy()
    try:
        while True:
            known = [propagate_shapes(copied, own) for own in shapes]
            room = MAX_NODES - sum(1 for _ in copied.all_nodes())
            is_written = False
            for node in [node for node in copied.nodes if node.kind == "prim::Loop"]:
                count, *others = [trips_of(node, own) for own in known]
                if count is None or any(other != count for other in others):
                    continue
                size = count * len(list(walk(node.blocks[0].nodes)))
                if size <= room:
                    room -= size
                    write_out(node, count)
                    is_written = True
            fold_constants(copied)
            fold_lists(copied)
            eliminate_dead_code(copied)
            if not is_written:
                return copied
    except ShapeError:
        return graph


def _write_out_loops(graph: Graph, known: Mapping[Value, Abstract]) -> bool:
    """Write out the outer ones of the loops whose rounds are known, as far as there is room; True if there was one."""
    room = MAX_NODES - sum(1 for _ in graph.all_nodes())
    changed = False
    for node in list(graph.nodes):
        if node.kind != "prim::Loop":
            continue
        trips = trips_of(node, known)
        size = sum(1 for _ in walk(node.blocks[0].nodes))
        if trips is not None and trips * size <= room:
            room -= trips * size
            write_out(node, trips)
            changed = True
    return changed


def trips_of(loop: Node, known: Mapping[Value, Abstract]) -> int | None:
    """How many rounds a loop does; None where that is not known, or a condition may end it."""
    trips, entry = (known.get(value) for value in loop.inputs[:2])
    if type(trips) is not int or trips > MAX_TRIPS or entry is not True:
        return None
    if trips > 0 and known.get(loop.blocks[0].outputs[0]) is not True:
        return None
    return max(trips, 0)


def write_out(loop: Node, trips: int) -> None:
    """Put so many rounds of a loop in its place."""
    (body,) = loop.blocks
    builder = Builder.in_front_of(loop)
    state = entering(loop)
    for index in range(trips):
        env: dict[Value, Value] = dict(zip(body.inputs, [builder.constant(index), *state], strict=True))
        state = copy_nodes(body, env, builder.insert)[1:]
    replace_node(loop, state)


def _unpack_lists(graph: Graph, known: Mapping[Value, Abstract]) -> None:
    """Take lists of tensors that inputs are, and that ops return, apart into their elements, and make them of those."""
    for node in [graph.body.param, *graph.nodes]:
        if node.kind == LIST:
            continue
        for value in node.outputs:
            found = known.get(value)
            if value.use_count and isinstance(found, list) and found and is_tensor_list(value.type):
                _unpack(graph, value, len(found))


def _unpack(graph: Graph, value: Value, count: int) -> None:
    assert isinstance(value.type, ListType)
    following = value.node.next
    uses = value.uses
    builder = Builder(graph, following, value.node.span)
    elements = builder.node("prim::ListUnpack", [value], [value.type.element] * count).outputs
    made = builder.list(elements, value.type.element, value.name_hint)
    for use in uses:
        use.user.set_input(use.index, made)

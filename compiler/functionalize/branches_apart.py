"""Branches kept apart to the end of the function: what follows is walked once for each side.

    %y = prim::If(%c)                        %r = prim::If(%c)
      block(): return (%a)                     block(): what follows with %a
      block(): return (%b)            ─▶         return (%r.1)
    what follows with %y                       block(): what follows with %b
    return (%r)                                  return (%r.2)

So are branches and loops walked of which too little would be known once their ways are one: which lists a name may
stand for, and how long they are. On each way all of that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

from ...lang.trampoline import Walk
from ..ir.kinds import entering, leaving, parameters
from ..ir.node import Block, Node, Value, enclosing_blocks
from ..types.types import CLOSURE
from .calls import enter_call, leave_call, may_enter, walk_call
from .joins import common_type, inside
from .loops import walk_loop
from .places import Place, Plain
from .rounds import count_round, may_be_few, most_doubts
from .scopes import Scope
from .views import argument_of
from .walker import Endless, Walker

MAX_WAYS = 48
"""Ways through a function that are walked to its end."""

Then: TypeAlias = Callable[[], Walk]
"""What follows, up to the end of the function: its results."""


class TooManyWays(Exception):
    """More ways lead through the function than are walked one by one."""


def to_keep_apart(lost: Iterable[tuple[Node, tuple[object, ...]]]) -> set[Node]:
    """The branches and loops whose ways are to be walked apart, with all that stands around them.

    `lost` are those that lost something where their ways met, each with the path to it. What stands in a loop that is
    not walked round by round cannot be told apart, and neither can what a closure holds.
    """
    found: set[Node] = set()
    for node, path in lost:
        steps = [step for step in path if isinstance(step, Node)]
        around = [around for step in (node, *steps) for around in _with_enclosing(step)]
        if all(step.kind == "prim::If" or step in steps for step in around):
            found.update(around)
    return found


def may_keep_apart(outputs: Sequence[Value]) -> bool:
    """Whether a function with these results may have its ways apart: a branch gives no closure."""
    return not any(value.type == CLOSURE for value in outputs)


def _with_enclosing(node: Node) -> list[Node]:
    blocks = enclosing_blocks(node.owner)
    return [node, *(block.node for block in blocks if block.node is not None)]


def walk_apart(f: Walker, nodes: Sequence[Node], then: Then) -> Walk:
    """Nodes of one block, in order, and what follows them."""
    start = 0
    for i, node in enumerate(nodes):
        if node in f.apart:
            yield f.nodes(nodes[start:i])
            f.builder.current_span = node.span
            return (yield _RULES[node.kind](f, node, partial(walk_apart, f, nodes[i + 1 :], then)))
    yield f.nodes(nodes[start:])
    return (yield then())


# --- branches ---


def _branch(f: Walker, node: Node, then: Then) -> Walk:
    condition = f.read(node.inputs[0])
    decided = argument_of(condition)
    ways = [partial(_side, f, node, taken, then) for taken in (True, False)]
    if isinstance(decided, bool):
        return (yield ways[0 if decided else 1]())
    return (yield _split(f, condition, ways))


def _side(f: Walker, node: Node, taken: bool, then: Then) -> Walk:
    block = node.blocks[0 if taken else 1]
    f.places[node.inputs[0]] = Plain(f.builder.constant(taken))
    return (yield walk_apart(f, list(block.nodes), partial(_leave_side, f, node, block, then)))


def _leave_side(f: Walker, node: Node, block: Block, then: Then) -> Walk:
    f.places.update(zip(node.outputs, [f.places[value] for value in block.outputs], strict=True))
    return (yield then())


# --- loops ---


def _loop(f: Walker, node: Node, then: Then) -> Walk:
    if not may_be_few(f, node):
        yield walk_loop(f, node)
        return (yield then())
    f.memory.path = (*f.memory.path, node, 0)
    places = [f.places[value] for value in entering(node)]
    return (yield _rounds(f, node, f.read(node.inputs[1]), places, 0, then))


def _rounds(f: Walker, node: Node, more: Value, places: Sequence[Place], doubts: int, then: Then) -> Walk:
    """The rounds from one on, if there are `more`."""
    index = f.memory.path[-1]
    assert isinstance(index, int)
    trips = argument_of(f.read(node.inputs[0]))
    decided = argument_of(more)
    if decided is False or index >= trips:
        return (yield _leave_loop(f, node, places, then))
    if decided is True:
        return (yield _round(f, node, index, places, doubts, then))
    if doubts == most_doubts(trips):
        raise Endless(node)
    ways = [partial(_round, f, node, index, places, doubts + 1, then), partial(_leave_loop, f, node, places, then)]
    return (yield _split(f, more, ways))


def _round(f: Walker, node: Node, index: int, places: Sequence[Place], doubts: int, then: Then) -> Walk:
    count_round(f, node, index)
    (body,) = node.blocks
    f.places[body.inputs[0]] = Plain(f.builder.constant(index))
    f.places.update(zip(parameters(body), places, strict=True))
    return (yield walk_apart(f, list(body.nodes), partial(_leave_round, f, node, index, doubts, then)))


def _leave_round(f: Walker, node: Node, index: int, doubts: int, then: Then) -> Walk:
    (body,) = node.blocks
    more, ends = f.read(body.outputs[0]), [f.places[value] for value in leaving(body)]
    f.memory.path = (*f.memory.path[:-1], index + 1)
    return (yield _rounds(f, node, more, ends, doubts, then))


def _leave_loop(f: Walker, node: Node, places: Sequence[Place], then: Then) -> Walk:
    f.memory.path = f.memory.path[:-2]
    f.places.update(zip(node.outputs, places, strict=True))
    return (yield then())


# --- calls ---


def _call(f: Walker, node: Node, then: Then) -> Walk:
    if not may_enter(f, node):
        yield walk_call(f, node)
        return (yield then())
    functions = f.functions
    graph = enter_call(f, node)

    def leave() -> Walk:
        leave_call(f, node, graph, functions)
        return (yield then())

    return (yield walk_apart(f, list(graph.body.nodes), leave))


# --- ways ---


def _split(f: Walker, condition: Value, ways: Sequence[Then]) -> Walk:
    """A branch that goes one of two ways to the end of the function; what the function gives."""
    f.ways += 1
    if f.ways >= MAX_WAYS:
        raise TooManyWays
    made = f.builder.node("prim::If", [condition], blocks=2)
    span, known = f.builder.current_span, _Parting(f)
    for i, (way, block) in enumerate(zip(ways, made.blocks, strict=True)):
        known.restore(f)
        # What is made on one way is not what the same node makes on the other.
        f.memory.path = ((made, i), *f.memory.path)
        f.builder.current_span = span
        with inside(f, Scope(f.memory.scope.level + 1), block):
            results: list[Value] = yield way()
            f.builder.returns(*results)
    for first, second in zip(*(block.outputs for block in made.blocks), strict=True):
        made.add_output(common_type(first.type, (second.type,)), first.name_hint)
    return list(made.outputs)


class _Parting:
    """What is known where two ways part, but for what the scopes around hold."""

    def __init__(self, f: Walker) -> None:
        memory = f.memory
        self.places = dict(f.places)
        self.functions, self.rounds, self.path, self.calls = f.functions, f.rounds, memory.path, memory.calls
        self.captured = dict(memory.captured)
        self.cells = [(cell, dict(cell.others), cell.repeats) for cell in memory.allocated]

    def restore(self, f: Walker) -> None:
        memory = f.memory
        f.places.clear()
        f.places.update(self.places)
        f.functions, f.rounds, memory.path, memory.calls = self.functions, self.rounds, self.path, self.calls
        memory.captured = dict(self.captured)
        memory.forget(len(self.cells))
        for cell, others, repeats in self.cells:
            cell.others, cell.repeats = dict(others), repeats


_RULES: dict[str, Callable[[Walker, Node, Then], Walk]] = {
    "prim::If": _branch,
    "prim::Loop": _loop,
    "prim::CallFunction": _call,
}

"""Loops round by round: each walked by itself, where few are to be walked.

%y = prim::Loop(%2, %more, %x)           %y = prim::If(%more)
  block(%i, %a):                   ─▶      block(): the first round, and the same for the second inside
    …                                        return (%y.2)
    return (%still, %b)                    block():
                                             return (%x)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...lang.trampoline import Walk
from ..ir.kinds import entering, leaving, parameters
from ..ir.node import Node, Value
from .branches import walk_sides
from .places import Place, Plain
from .views import argument_of
from .walker import Endless, Walker

MAX_ROUNDS = 16
MAX_UNROLLED = 128
"""Rounds that one loop, and all loops of a function, are walked one by one."""
MAX_DOUBTS = 4
"""Rounds of a loop without a count of which only a run can tell whether they are gone."""


def may_be_few(f: Walker, node: Node) -> bool:
    """Whether a loop may be walked round by round; the walk itself may show that it may not."""
    return f.thorough and node not in f.endless and isinstance(argument_of(f.read(node.inputs[0])), int)


def walk_rounds(f: Walker, node: Node) -> Walk:
    """Every round in its place. Endless where there are too many."""
    path = f.memory.path
    rounds = _Rounds(f, node, path, argument_of(f.read(node.inputs[0])))
    places = yield rounds.walk(0, f.read(node.inputs[1]), [f.places[value] for value in entering(node)], 0)
    f.memory.path = path
    f.places.update(zip(node.outputs, places, strict=True))


def most_doubts(trips: int) -> int:
    """How many rounds may be ones of which only a run can tell whether they are gone."""
    return trips if trips <= MAX_ROUNDS else MAX_DOUBTS


def count_round(f: Walker, node: Node, index: int) -> None:
    """Endless where it is one too many."""
    f.rounds += 1
    if index >= MAX_ROUNDS or f.rounds > MAX_UNROLLED:
        raise Endless(node)


class _Rounds:
    """The rounds of one loop, `trips` at most."""

    def __init__(self, f: Walker, node: Node, path: tuple[object, ...], trips: int) -> None:
        self.f = f
        self.node = node
        self.path = path
        self.trips = trips
        self.doubts = most_doubts(trips)

    def walk(self, index: int, more: Value, places: list[Place], doubts: int) -> Walk:
        """The places behind the loop, seen from where a round begins if there are `more`."""
        decided = argument_of(more)
        if decided is False or index >= self.trips:
            return places
        self.f.memory.path = (*self.path, self.node, index)
        if decided is True:
            return (yield self.round(index, places, doubts))
        if doubts == self.doubts:
            raise Endless(self.node)
        ways = [partial(self.round, index, places, doubts + 1), partial(_stay, places)]
        return (yield walk_sides(self.f, self.node, more, ways))

    def round(self, index: int, places: Sequence[Place], doubts: int) -> Walk:
        f, (body,) = self.f, self.node.blocks
        count_round(f, self.node, index)
        path = f.memory.path
        f.places[body.inputs[0]] = Plain(f.builder.constant(index))
        f.places.update(zip(parameters(body), places, strict=True))
        yield f.block(body)
        more, ends = f.read(body.outputs[0]), [f.places[value] for value in leaving(body)]
        found = yield self.walk(index + 1, more, ends, doubts)
        f.memory.path = path
        return found


def _stay(places: list[Place]) -> Walk:
    yield from ()
    return places

"""Lists of which each round of a loop sets one element: what is in them after all rounds, from one round.

    for i in range(len(xs)):
        grads = grads + [None, …, g, …, None]      g in place len(xs) - 1 - i: after all rounds each element is there

Which place a round sets follows from its index; what it puts there is alike from round to round.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...lang.light_dataclasses import dataclass
from ..ir.node import Block, Node, Value
from ..ops.meta import UNKNOWN, Abstract, OpenList, is_defined, join
from .numbers import Simple

SETS = "aten::_set_item.t"
SUM = "prim::AutogradAdd"
GUARD = "prim::GradOf"


@dataclass(frozen=True, slots=True)
class Filled:
    """What a list ends up as; what is carried into a first and a last round, and what the nodes give in these."""

    result: Abstract
    carried: tuple[Abstract, Abstract]
    rounds: tuple[tuple[Node, Abstract, Abstract], ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """A list that is carried: what sets an element of it or of a list that is added to it, and that sum, if any."""

    parameter: Value
    set: Node
    sum: Node | None

    ways: tuple[Node, ...]
    """What stands around what sets the element: it is done only where there is a gradient."""

    @property
    def values(self) -> tuple[Value, ...]:
        """What differs from round to round."""
        around = [self.set, *self.ways, *([] if self.sum is None else [self.sum])]
        return (self.parameter, *(value for node in around for value in node.outputs))

    def after(
        self, trips: int, entered: Abstract, known: Mapping[Value, Abstract], index: Value, simple: Simple
    ) -> Filled | None:
        """The list after so many rounds, for what is known in one of them; None where that cannot be told."""
        base, place, item = self.set.inputs
        start = entered if self.sum is None else known.get(base)
        step = _step(place, index, known)
        if step is not None and type(start) is OpenList and all(_is_done(node, known) for node in self.ways):
            return self._after_open(trips, entered, start, step, known.get(item), simple)
        if step is None or not isinstance(start, list) or not all(_is_done(node, known) for node in self.ways):
            return None
        sign, offset = step
        places = range(offset, offset + sign * trips, sign)
        if trips < 1 or min(places) < 0 or max(places) >= len(start):
            return None
        each = [_with(start, range(at, at + 1), known.get(item)) for at in (places[0], places[-1])]
        whole = _with(start, places, known.get(item))
        if self.sum is None:
            return Filled(whole, (entered, whole), ((self.set, each[0], whole),))
        first = self._sum(simple, entered, each[0])
        last = self._sum(simple, self._sum(simple, entered, start) if trips > 1 else entered, whole)
        if not isinstance(first, list) or not isinstance(last, list):
            return None
        sets = [(node, each[0], each[1]) for node in (self.set, *self.ways)]
        return Filled(last, (entered, last if trips > 1 else entered), (*sets, (self.sum, first, last)))

    def _after_open(
        self, trips: int, entered: Abstract, start: OpenList, step: tuple[int, int], item: Abstract, simple: Simple
    ) -> Filled | None:
        """The same of a list of open length, of which the rounds set each element."""
        sign, offset = step
        if trips != start.length or offset != (0 if sign == 1 else start.length - 1):
            return None
        some, whole = OpenList(join(start.item, item), start.length), OpenList(item, start.length)
        if self.sum is None:
            return Filled(whole, (entered, whole), ((self.set, some, whole),))
        first = self._sum(simple, entered, some)
        last = self._sum(simple, self._sum(simple, entered, start), whole)
        if type(first) is not OpenList or type(last) is not OpenList:
            return None
        sets = [(node, some, whole) for node in (self.set, *self.ways)]
        return Filled(last, (entered, last), (*sets, (self.sum, first, last)))

    def _sum(self, simple: Simple, left: Abstract, right: Abstract) -> Abstract:
        results = simple(self.sum, [left, right]) if self.sum is not None else UNKNOWN
        return results[0] if isinstance(results, list) else UNKNOWN


def _with(items: list[Abstract], places: range, item: Abstract) -> list[Abstract]:
    return [item if k in places else value for k, value in enumerate(items)]


def fills(block: Block) -> dict[int, Fill]:
    """The carried values of a loop's body that are filled, by their number: nothing else in it looks at them."""
    found: dict[int, Fill] = {}
    for number, (parameter, made) in enumerate(zip(block.inputs[1:], block.outputs[1:], strict=True)):
        fill = _fill(block, parameter, made)
        if fill is not None:
            found[number] = fill
    return found


def _fill(block: Block, parameter: Value, made: Value) -> Fill | None:
    if parameter.use_count != 1 or made.use_count != 1 or made.node.owner is not block:
        return None
    if made.node.kind == SETS and made.node.inputs[0] is parameter:
        return Fill(parameter, made.node, None, ())
    if made.node.kind != SUM or parameter not in made.node.inputs:
        return None
    (other,) = [value for value in made.node.inputs if value is not parameter]
    ways: list[Node] = []
    while other.node.kind == GUARD and other.use_count == 1 and len(other.node.outputs) == 1:
        ways.append(other.node)
        other = other.node.blocks[0].outputs[other.index]
    is_set = other.node.kind == SETS and other.use_count == 1
    return Fill(parameter, other.node, made.node, tuple(ways)) if is_set else None


def _is_done(guard: Node, known: Mapping[Value, Abstract]) -> bool:
    return any(is_defined(known.get(value, UNKNOWN)) is True for value in guard.inputs)


def _step(place: Value, index: Value, known: Mapping[Value, Abstract]) -> tuple[int, int] | None:
    """The sign and the offset by which a place follows from the index; None where it does in another way."""
    signs: list[int] = []
    offsets: list[int] = []
    while place is not index:
        node = place.node
        if node.kind not in ("aten::add.int", "aten::sub.int"):
            return None
        left, right = node.inputs
        number, is_first = known.get(left), isinstance(known.get(left), int)
        if not is_first:
            number = known.get(right)
        if not isinstance(number, int):
            return None
        is_taken = node.kind == "aten::sub.int"
        signs.append(-1 if is_taken and is_first else 1)
        offsets.append(-number if is_taken and not is_first else number)
        place = right if is_first else left
    sign, offset = 1, 0
    for s, o in zip(reversed(signs), reversed(offsets), strict=True):
        sign, offset = s * sign, s * offset + o
    return sign, offset

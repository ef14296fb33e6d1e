"""Lists of which each round of a loop sets elements: what is in them after all rounds, from one round.

    for i in range(len(xs)):
        grads = grads + [None, …, g, …, None]      g in place len(xs) - 1 - i: after all rounds each element is there

Which place a round sets follows from its index; what it puts there is alike from round to round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from ...lang.light_dataclasses import dataclass
from ..ir.node import Block, Value
from ..ops.meta import UNKNOWN, Abstract, OpenList, is_defined, join
from .gradient_sums import abstract_sum
from .open_lists import repeated

SETS = "aten::_set_item.t"
ADDS = "prim::grad_add_item"
SUM = "prim::AutogradAdd"
GUARD = "prim::GradOf"

AbstractValues = Mapping[Value, Abstract]


class InRounds(NamedTuple):
    """What a list is in the first round, and after all of them."""

    first: Abstract
    last: Abstract


@dataclass(frozen=True, slots=True)
class Filled:
    """What a list ends up as; what is carried into rounds, and what is made in these."""

    result: Abstract
    rounds: Mapping[Value, InRounds]


@dataclass(frozen=True, slots=True)
class Fill:
    """A list that is carried, and what is made of it in a round, in order: lists of which an element is set, and sums
    of these, which are made only where there is a gradient."""

    parameter: Value
    made: tuple[Value, ...]

    @property
    def values(self) -> tuple[Value, ...]:
        """What differs from round to round."""
        return (self.parameter, *self.made)

    def after(self, trips: int, entered: Abstract, known: AbstractValues, index: Value) -> Filled | None:
        """The list after so many rounds, for what is known in one of them; None where that cannot be told."""
        found = {self.parameter: InRounds(entered, entered)}
        for value in self.made:
            try:
                given = _in_rounds(value, found, trips, known, index)
            except RuntimeError:
                # Gradients that do not fit: the round that adds them says so.
                return None
            if given is None or not all(isinstance(items, list | OpenList) for items in given):
                return None
            found[value] = given
        result = found[self.made[-1]].last
        return Filled(result, {**found, self.parameter: InRounds(entered, result)})


def _in_rounds(
    value: Value, found: Mapping[Value, InRounds], trips: int, known: AbstractValues, index: Value
) -> InRounds | None:
    """What is made in rounds, of what has been `found` to be made there before."""
    node = value.node
    if node.kind == SUM:
        return reduce(_sum, [found[given] for given in node.inputs])
    if node.kind == GUARD:
        is_done = any(is_defined(known.get(given, UNKNOWN)) is True for given in node.inputs)
        return found[node.blocks[0].outputs[value.index]] if is_done else None
    if node.kind == ADDS:
        total, item, place, length = node.inputs
        count = known.get(length, UNKNOWN)
        start = UNKNOWN if count is UNKNOWN else repeated(None, count)
    else:
        total, place, item = node.inputs
        start = found[total].first if total in found else known.get(total, UNKNOWN)
    places = _places(trips, _stride(place, index, known), start)
    if places is None:
        return None
    each = _set(start, places, known.get(item, UNKNOWN))
    if node.kind == ADDS:
        return _sum(found[total], each)
    # A list that is added holds, besides, what each round has in the places of the others.
    return each if total in found else _sum(each, InRounds(None, start))


def _sum(left: InRounds, right: InRounds) -> InRounds:
    return InRounds(abstract_sum(left.first, right.first), abstract_sum(left.last, right.last))


def _set(start: Abstract, places: Sequence[int], item: Abstract) -> InRounds:
    """A list of which rounds set an element in these places; of one of open length, in each."""
    if type(start) is OpenList:
        return InRounds(OpenList(join(start.item, item), start.length), OpenList(item, start.length))
    return InRounds(_with(start, {places[0]}, item), _with(start, set(places), item))


def _with(items: list[Abstract], places: set[int], item: Abstract) -> list[Abstract]:
    return [item if k in places else value for k, value in enumerate(items)]


def _places(trips: int, stride: tuple[int, int] | None, start: Abstract) -> Sequence[int] | None:
    """The places in a list that so many rounds set; None where that cannot be told."""
    if stride is None:
        return None
    step, first = stride
    if isinstance(start, OpenList):
        is_each = trips == start.length and step in (1, -1) and first == (0 if step == 1 else start.length - 1)
        return (0,) if is_each else None
    if not isinstance(start, list):
        return None
    places = [first + step * turn for turn in range(trips)] if step else [first]
    if not places or min(places) < -len(start) or max(places) >= len(start):
        return None
    # Of open numbers those at hand: sets of others would not note what is looked up in them.
    return [int(place) % len(start) for place in places]


def fills(block: Block) -> dict[int, Fill]:
    """The carried values of a loop's body that are filled, by their number: nothing else in it looks at them."""
    found: dict[int, Fill] = {}
    for number, (parameter, result) in enumerate(zip(block.inputs[1:], block.outputs[1:], strict=True)):
        made = _made(block, parameter, result)
        if made:
            found[number] = Fill(parameter, tuple(made))
    return found


def _made(block: Block, parameter: Value, result: Value) -> list[Value]:
    """What is made of a carried list until the next round, in order; nothing where anything else is done with it."""
    found: list[Value] = []
    pending = [] if result is parameter or parameter.use_count != 1 else [(result, block)]
    is_reached = False
    while pending:
        value, around = pending.pop()
        node = value.node
        if value is parameter:
            is_reached = True
            continue
        if value.use_count != 1 or node.owner is not around:
            return []
        found.append(value)
        if node.kind == SUM:
            pending += [(given, around) for given in node.inputs]
        elif node.kind == ADDS:
            pending.append((node.inputs[0], around))
        elif node.kind == GUARD:
            pending.append((node.blocks[0].outputs[value.index], node.blocks[0]))
        elif node.kind != SETS:
            return []
        elif node.inputs[0] is parameter:
            # What is set in one round may be added to in another: in which order tells what it is.
            return found if len(found) == 1 else []
    return found[::-1] if is_reached else []


def _stride(place: Value, index: Value, known: AbstractValues) -> tuple[int, int] | None:
    """By how much a place goes on from round to round, and the first; None where it follows in another way."""
    signs: list[int] = []
    offsets: list[int] = []
    step = 1
    while place is not index:
        node, fixed = place.node, known.get(place)
        if isinstance(fixed, int):
            step = 0
            signs.append(0)
            offsets.append(fixed)
            break
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
    offset = 0
    for sign, number in zip(reversed(signs), reversed(offsets), strict=True):
        step, offset = sign * step, sign * offset + number
    return step, offset

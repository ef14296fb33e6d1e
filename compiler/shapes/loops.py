"""Loops on abstract values: what is known after all rounds, from as few of them as tell.

    for i in range(1000):            after round 1    x : [8]    kept = [[8]]          n = 1
        kept.append(x)               after round 2    x : [8]    kept = [[8], [8]]     n = 2
        x = x * i                    …
        n = n + 1                    after the last   x : [8]    kept = [[8], …]       n = 1000

The index and the numbers that are carried differ from round to round: the first rounds are looked at without knowing
them. Where shapes come out all the same and do not change any more, the others are like them, and the numbers follow
by themselves. Where a shape depends on such a number, and in loops that a condition ends, each round is looked at.
Rounds that nobody can count, or that are too many, are joined until nothing changes.

A loop that is entered with the same values again gives what it gave before, so that nested loops cost little more than
one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ...lang.light_dataclasses import dataclass, field
from ...lang.trampoline import Walk
from ..analysis.captures import captures
from ..ir.graph import Graph
from ..ir.kinds import carried, is_loop
from ..ir.node import RETURN, Block, Node, Value
from ..ir.rewrite import constant_of
from ..ops.meta import UNKNOWN, Abstract, Meta, OpenList, is_known, join
from ..types.open_floats import OpenFloat
from ..types.open_sizes import is_open
from ..types.types import BOOL, FLOAT, INT, NUMBER, STR, ListType
from .fills import Fill, Filled, fills
from .growth import growing_lists
from .numbers import NumberRounds
from .open_lists import item_of, joined_lists, length_of, repeated

Results: TypeAlias = list[Abstract]
Known: TypeAlias = dict[Value, Abstract]
Joining: TypeAlias = Callable[[Abstract, Abstract], Abstract]

MAX_ROUNDS = 20_000
"""Rounds that are looked at one by one, in all; after so many, a loop's are joined."""
MAX_NUMBER_ROUNDS = 500
"""Of these, the rounds that are looked at only because a number cannot be told without."""
MAX_LENGTH = 20_000
"""Of the lists that a loop makes; a loop of more rounds is one that nobody has counted."""
MAX_SETTLING = 3
"""Rounds after which shapes that still change are taken to change for good."""

SAME = object()
"""What a round does to a value that stays as it is."""
CUT = object()
"""What it does to a list that loses one of its elements, all of which are alike."""
_OF_TENSORS = (Meta, OpenList, list, tuple)
_NUMBERS = (INT, FLOAT, BOOL, NUMBER, STR)


class Visitor(Protocol):
    """What goes through the nodes of a graph: `_Propagation` of `shapes`."""

    known: Known
    combine: Joining
    memory: Remembered

    def block(self, block: Block) -> Walk:
        """Visit a block whose parameters are known; its results, or the error it ends in, which is no list."""

    def simple(self, node: Node, inputs: Results) -> Any:
        """The results of a node without blocks, or the error."""


@dataclass(eq=False, slots=True)
class Remembered:
    """What is remembered of the loops and functions of a graph while it is gone through."""

    rounds: int = MAX_ROUNDS
    number_rounds: int = MAX_NUMBER_ROUNDS
    loops: dict[tuple[Any, ...], tuple[Results, Known]] = field(default_factory=dict)
    """What a loop gave for the values that it takes: its results, and the values inside."""
    calls: dict[tuple[Any, ...], Results] = field(default_factory=dict)
    bodies: dict[Block, LoopBody] = field(default_factory=dict)

    def body(self, block: Block) -> LoopBody:
        if block not in self.bodies:
            self.bodies[block] = LoopBody.of(block)
        return self.bodies[block]

    def key_of(self, graph: Graph, inputs: Sequence[Abstract]) -> tuple[Any, ...]:
        """The key of a call in `calls`."""
        return (graph, frozen(list(inputs)))


@dataclass(eq=False, slots=True)
class LoopBody:
    """What the text of a loop's body says: `varying` are the carried values that are numbers and change."""

    block: Block
    values: list[Value]
    outside: list[Value]
    varying: list[bool]
    growing: set[Value]
    """The carried lists that are appended to, cut and picked from only."""
    fills: dict[int, Fill]
    """The carried lists of which each round sets an element."""
    forgotten: set[int] = field(default_factory=set)
    """The carried values that had nothing in common when the rounds were joined."""

    @classmethod
    def of(cls, block: Block) -> LoopBody:
        changing = [new is not old for old, new in zip(block.inputs[1:], block.outputs[1:], strict=True)]
        pairs = list(zip(block.inputs[1:], changing, strict=True))
        varying = [changes and value.type in _NUMBERS for value, changes in pairs]
        growing = growing_lists(
            block, [value for value, changes in pairs if changes and isinstance(value.type, ListType)]
        )
        return cls(block, _values_in(block), captures(block), varying, growing, fills(block))

    @property
    def is_counted(self) -> bool:
        """Whether nothing but the number of rounds ends the loop."""
        return constant_of(self.block.outputs[0]) is True


def frozen(value: Abstract) -> Any:
    """An abstract value as a key: what differs in anything is another one. Of elements that are alike one stands for
    all."""
    if isinstance(value, list | tuple):
        return (type(value), *_runs(value))
    if type(value) is OpenList:
        return (OpenList, frozen(value.item), value.length)
    if type(value) is OpenFloat:
        return value.key
    return (type(value), repr(value)) if isinstance(value, float) else (type(value), value)


def _runs(items: Sequence[Abstract]) -> list[tuple[Any, int]]:
    """The keys of elements, with how many of them follow each other."""
    runs: list[tuple[Any, int]] = []
    key, count, last = None, 0, object()
    for item in items:
        if item is not last:
            found, last = frozen(item), item
            if found != key:
                runs += [(key, count)] if count else []
                key, count = found, 0
        count += 1
    return [*runs, (key, count)] if count else runs


def propagate_loop(visitor: Visitor, node: Node, inputs: Results) -> Walk:
    """The abstract results of a prim::Loop, and of all that is inside it, for those of its inputs."""
    body = visitor.memory.body(node.blocks[0])
    around = [visitor.known.get(value, UNKNOWN) for value in body.outside]
    key = (body.block, frozen(inputs), frozen(around))
    remembered = visitor.memory.loops.get(key)
    if remembered is None:
        results = yield _Loop(visitor, body).run(inputs)
        if not isinstance(results, list):
            return results
        inside = {value: visitor.known[value] for value in body.values if value in visitor.known}
        remembered = visitor.memory.loops[key] = (results, inside)
    visitor.known.update(remembered[1])
    return list(remembered[0])


class _Loop:
    def __init__(self, visitor: Visitor, body: LoopBody) -> None:
        self.visitor = visitor
        self.body = body
        self.seen: Known = {}

    def run(self, inputs: Results) -> Walk:
        trips, condition, *carried = inputs
        if not (isinstance(trips, int) and trips <= MAX_LENGTH and isinstance(condition, bool)):
            return (yield self._joined(carried))
        if trips <= 0 or not condition:
            return carried
        if trips > 1 and self.body.is_counted:
            results = yield self._alike(trips, carried)
            if results is not None:
                self.visitor.known.update(self.seen)
                return results
            self.seen = {}
        if is_open(trips) and self.body.is_counted:
            # Each round would ask whether it is one.
            results = yield self._joined(carried)
        else:
            results = yield self._one_by_one(trips, carried)
        self.visitor.known.update(self.seen)
        return results

    def _visit(self, index: Abstract, carried: Results) -> Walk:
        """One round: its condition and what it carries on."""
        for value in self.body.values:
            # What another round says of a branch that this one does not take is not to be taken for this one's.
            self.visitor.known.pop(value, None)
        self.visitor.known.update(zip(self.body.block.inputs, [index, *carried], strict=True))
        results = yield self.visitor.block(self.body.block)
        if isinstance(results, list):
            known, seen, combine = self.visitor.known, self.seen, self.visitor.combine
            for value in self.body.values:
                if value in known:
                    seen[value] = _both(seen[value], known[value], combine) if value in seen else known[value]
        return results

    # --- rounds that are alike ---

    def _alike(self, trips: int, carried: Results) -> Walk:
        """What is carried out of a loop whose rounds come to be alike; None where they do not, or that cannot be told.

        Rounds after the first that changes nothing are like it; the last one is looked at for lists that have grown.
        """
        numbers, entered = NumberRounds(self.body.block, self.body.varying), carried
        filled: list[dict[int, Filled]] = []
        steps: list[Abstract] | None = None
        looked = 0
        while steps is None and looked < min(trips, MAX_SETTLING):
            before = self._without_numbers(carried)
            results = yield self._visit(UNKNOWN, before)
            if not isinstance(results, list):
                return results
            if not self._look_at_fills(trips, entered, filled) or _depends_on_rounds(self.body, self.visitor.known):
                return None
            numbers.look(self.visitor.known)
            carried, looked = results[1:], looked + 1
            steps = self._steps(before, carried)
        left = trips - looked
        if left and steps is None:
            return None
        if left and steps and any(step is not SAME for step in steps):
            if any(step is CUT and length_of(value) < left for step, value in zip(steps, carried, strict=True)):
                return None
            results = yield self._visit(UNKNOWN, self._without_numbers(_grown(carried, steps, left - 1)))
            if not isinstance(results, list):
                return results
            if not self._look_at_fills(trips, entered, filled):
                return None
            carried = results[1:]
        found = self._with_numbers(carried, entered, trips, numbers)
        if found is None:
            return None
        self._tell_fills(filled[-1])
        return [filled[-1][i].result if i in filled[-1] else value for i, value in enumerate(found)]

    def _tell_fills(self, filled: Mapping[int, Filled]) -> None:
        """Note what stands for lists that are filled in all rounds."""
        combine = self.visitor.combine
        for fill in filled.values():
            for value, given in fill.rounds.items():
                self.seen[value] = _both(*given, combine)

    def _look_at_fills(self, trips: int, entered: Results, filled: list[dict[int, Filled]]) -> bool:
        """Note what lists that are filled end up as; whether that can be told, and is the same from any round."""
        index, known = self.body.block.inputs[0], self.visitor.known
        found: dict[int, Filled] = {}
        for number, fill in self.body.fills.items():
            after = fill.after(trips, entered[number], known, index)
            if after is None:
                return False
            found[number] = after
        filled.append(found)
        return all(frozen(fill.result) == frozen(filled[0][number].result) for number, fill in found.items())

    def _without_numbers(self, carried: Results) -> Results:
        """What is carried, without what differs from round to round: numbers, and lists that are filled."""
        fills = self.body.fills
        pairs = enumerate(zip(self.body.varying, carried, strict=True))
        return [UNKNOWN if varies or i in fills else value for i, (varies, value) in pairs]

    def _with_numbers(self, carried: Results, entered: Results, trips: int, numbers: NumberRounds) -> Results | None:
        """What is carried, with the numbers; None where they are to be found round by round."""
        given = self.body.block.inputs[1:]
        known = self.visitor.known
        found = numbers.after(trips, dict(zip(given, entered, strict=True)), known, self.visitor.simple)
        if found is not None:
            return [found.get(value, result) for value, result in zip(given, carried, strict=True)]
        memory = self.visitor.memory
        if is_open(trips) or memory.number_rounds < trips:
            return carried
        memory.number_rounds -= trips
        return None

    def _steps(self, before: Results, after: Results) -> list[Abstract] | None:
        """What a round did to each carried value: SAME, or what it appended to a list; None for anything else."""
        found: list[Abstract] = []
        filled = {fill.parameter for fill in self.body.fills.values()}
        for value, varies, old, new in zip(self.body.block.inputs[1:], self.body.varying, before, after, strict=True):
            if varies or value in filled or frozen(old) == frozen(new):
                found.append(SAME)
            elif value in self.body.growing and _has_grown(old, new):
                found.append(new.item if type(new) is OpenList else new[-1])
            elif value in self.body.growing and _is_cut(old, new):
                found.append(CUT)
            else:
                return None
        return found

    # --- all others ---

    def _one_by_one(self, trips: int, carried: Results) -> Walk:
        memory, turn, condition = self.visitor.memory, 0, True
        while turn < trips and condition:
            if not memory.rounds:
                return (yield self._joined(carried))
            memory.rounds -= 1
            results = yield self._visit(turn, carried)
            if not isinstance(results, list):
                return results
            condition, *after = results
            if not isinstance(condition, bool):
                return (yield self._joined([join(a, b) for a, b in zip(carried, after, strict=True)]))
            carried, turn = after, turn + 1
        return carried

    def _joined(self, carried: Results) -> Walk:
        """Rounds nobody has counted: joined until nothing changes. Each round only forgets, so there are few.

        What had nothing in common once is not looked at again, so that loops inside loops do not multiply.
        """
        forgotten = self.body.forgotten
        carried = [UNKNOWN if i in forgotten else value for i, value in enumerate(carried)]
        while True:
            results = yield self._visit(UNKNOWN, carried)
            if not isinstance(results, list):
                return carried
            joined = [join(a, b) for a, b in zip(carried, results[1:], strict=True)]
            if frozen(joined) == frozen(carried):
                return joined
            forgotten.update(i for i, value in enumerate(joined) if value is UNKNOWN)
            carried = joined


def _both(left: Abstract, right: Abstract, combine: Joining) -> Abstract:
    """What stands for a value in two rounds: of tensors and lists what `combine` says, of numbers what they share."""
    holds_tensors = isinstance(left, _OF_TENSORS) or isinstance(right, _OF_TENSORS)
    return combine(left, right) if holds_tensors else join(left, right)


def _has_grown(before: Abstract, after: Abstract) -> bool:
    """Whether a list has become longer by one element, which is like the one before."""
    if type(before) is OpenList and type(after) is OpenList:
        return after.length == before.length + 1 and frozen(after.item) == frozen(before.item)
    if not (isinstance(before, list) and isinstance(after, list) and len(after) == len(before) + 1):
        return False
    kept = frozen(after[:-1]) == frozen(before)
    return kept and all(frozen(item) == frozen(after[-1]) for item in before[-1:])


def _is_cut(before: Abstract, after: Abstract) -> bool:
    """Whether a list has lost one of its elements, all of which are alike."""
    if type(before) is OpenList and type(after) is OpenList:
        return after.length == before.length - 1 and frozen(after.item) == frozen(before.item)
    if not (isinstance(before, list) and isinstance(after, list) and len(after) == len(before) - 1):
        return False
    return len(set(map(frozen, before))) == 1 and frozen(after) == frozen(before[:-1])


def _grown(carried: Results, steps: Sequence[Abstract], rounds: int) -> Results:
    """What is carried after so many more rounds like the last."""
    return [_after(value, step, rounds) for value, step in zip(carried, steps, strict=True)]


def _after(value: Abstract, step: Abstract, rounds: int) -> Abstract:
    if step is SAME:
        return value
    if is_open(rounds) or type(value) is OpenList:
        if step is CUT:
            return repeated(item_of(value), length_of(value) - rounds)
        return joined_lists(value, repeated(step, rounds))
    return value[: len(value) - rounds] if step is CUT else [*value, *[step] * rounds]


def _depends_on_rounds(body: LoopBody, known: Mapping[Value, Abstract]) -> bool:
    """Whether a tensor or a list is unknown because the index is, or a number that is carried."""
    index, *carried = body.block.inputs
    varying = {index, *(value for value, varies in zip(carried, body.varying, strict=True) if varies)}
    filled = {value for fill in body.fills.values() for value in fill.values}
    pending = [*varying]
    while pending:
        for use in pending.pop().uses:
            # What a block inside hands on is what the node around it gives.
            node = use.user.holder if use.user.kind == RETURN else use.user
            if node is None or node is body.block.node:
                continue
            found = [value for value in _varying_results(node, varying, known) if value not in varying]
            if any(value.type not in _NUMBERS and value not in filled for value in found):
                return True
            varying.update(found)
            pending += found
    return False


def _varying_results(node: Node, varying: set[Value], known: Mapping[Value, Abstract]) -> list[Value]:
    """What a node, or the loop that it is, leaves unknown because what it takes varies; not where more is unknown."""
    taken = [*node.inputs, *(value for block in node.blocks for value in block.outputs)]
    if not any(value in varying for value in taken):
        return []
    if not node.blocks and any(v not in varying and not is_known(known.get(v)) for v in node.inputs):
        return []
    results = list(node.outputs)
    if is_loop(node):
        results += [place.parameter for place in carried(node) if place.initial in varying]
    return [value for value in results if not is_known(known.get(value))]


def _values_in(block: Block) -> list[Value]:
    found, stack = list(block.inputs), [block]
    while stack:
        for node in stack.pop().nodes:
            found += node.outputs
            for inner in node.blocks:
                found += inner.inputs
                stack.append(inner)
    return found

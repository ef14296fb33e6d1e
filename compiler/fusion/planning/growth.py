"""What a kernel would compute again and again, and what goes into memory so that it need not.

    %x1 = sin(%x) * roll(%x, 1)          an element of %x1 takes two of %x
    %x2 = sin(%x1) * roll(%x1, 2)        an element of %x2 takes two of %x1, and four of %x
    …                                    and each step more doubles the kernel's text

An element is written out at each place where it is asked for, so that work and text may double with each node. A kernel
computes no more again than in proportion to what it computes, and its places stay short. What would grow further has a
value on the way put into memory, and is planned from there: so each trial ends, and there are no more such values than
there are nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from ...ir.node import Value
from ...kernel_ir.index import AxisAtom, Index
from ..elements.rule import ElementPlace, Incompatible, LoadGuards

MOST_AGAIN, FEW_AGAIN = 160, 16
"""Work of a kernel on elements besides the first of each value, for which nothing goes into memory; and once something
does, as memory is cheaper then than most of what it spares."""
AGAIN_OF_EACH = 1
"""So much more for each value that it computes."""
LONGEST_PLACE = 96
"""Axes, quotients and remainders in the indices of a place: each reshape that none undoes may multiply them."""
MOST_GUARDS = 16
"""That an element stands under: each read by an index that is read adds one, and each is asked for at each load."""
MOST_BESIDE = 16
"""Elements that lie side by side, as of a stack, of which none is another one computed again."""
SELDOM = 32
"""Work after which it is looked at again at the soonest, and not before there are a quarter more elements: to look
takes as long as there are."""
MOST_ANEW, ANEW_OF_EACH = 1024, 4
"""Work of a program on what kernels of it have computed already, and so much more for work that none has done yet."""
LEAST_ANEW = 64
"""What a trial may do of that in any case."""
WORTH_KEEPING = 8
"""Work on an element for which it is kept in memory rather than done by a kernel more."""
Asked = tuple[Value, ElementPlace, int, int]
"""A value of which an element was asked for, where, the work that it takes by itself, and with all that it takes."""


class Overgrown(Incompatible):
    """A kernel would compute too much again, whatever else it has to do, unless `value` is in memory."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


def room_left(asked: Iterable[Asked], is_read: Callable[[Value], bool], most: int) -> int:
    """How much of so much work, and what each value adds, may still be done again; reading from memory is none."""
    total, works, beside = 0, dict[Value, int](), Counter[tuple[Value, tuple[Index | None, ...]]]()
    for value, place, work, _ in asked:
        if value in works or not is_read(value):
            total += work
            works[value] = work
            along = tuple([index if index.terms else None for index in place])
            # One under several guards counts as often.
            beside[value, along] += 1
    once = dict.fromkeys(works, 1)
    for (value, _), count in beside.items():
        once[value] = max(once[value], min(count, MOST_BESIDE))
    again = total - sum(once[value] * work for value, work in works.items())
    return most + AGAIN_OF_EACH * len(works) - again


def largest_again(asked: Iterable[Asked], is_read: Callable[[Value], bool]) -> Value | None:
    """Of what was asked for at several places, the value of which an element took the most: as much as a kernel may
    compute is then before it, and behind it. None where nothing was asked for twice."""
    places, most = dict[Value, int](), dict[Value, int]()
    for value, _, _, taken in asked:
        if not is_read(value):
            places[value] = places.get(value, 0) + 1
            most[value] = max(most.get(value, 0), taken)
    return max((value for value, count in places.items() if count > 1), key=most.__getitem__, default=None)


class ProgramWork:
    """What the kernels of a program compute, and how much more they may compute anew: of sums in a row, each of what
    follows from what the one before it is of, work and text would grow with the square of their number."""

    def __init__(self) -> None:
        self.computed = set[Value]()
        self._left = MOST_ANEW

    @property
    def most_of_a_trial(self) -> int:
        """Work that a trial may do on what was computed already."""
        return max(LEAST_ANEW, self._left)

    def add(self, asked: Iterable[Asked], is_read: Callable[[Value], bool]) -> None:
        """What a trial computed that succeeded."""
        first = dict[Value, int]()
        for value, _, work, _ in asked:
            if value in self.computed:
                self._left -= 0 if is_read(value) else work
            elif value not in first and not is_read(value):
                first[value] = work
        self.computed.update(first)
        self._left += ANEW_OF_EACH * sum(first.values())

    def largest(self, asked: Iterable[Asked], is_read: Callable[[Value], bool]) -> Value | None:
        """Of what was computed already, the value of which an element takes the most; None where none takes much."""
        most = dict[Value, int]()
        for value, _, _, taken in asked:
            if taken >= WORTH_KEEPING and value in self.computed and not is_read(value):
                most[value] = max(most.get(value, 0), taken)
        return max(most, key=most.__getitem__, default=None)


def is_long(place: ElementPlace, guards: LoadGuards) -> bool:
    """Whether the indices of a place have grown too long, or what it stands under."""
    if len(guards) > MOST_GUARDS:
        return True
    if all(type(atom) is AxisAtom for index in place for _, atom in index.terms):
        return False
    return sum(1 for index in place for _ in index.atoms()) > LONGEST_PLACE

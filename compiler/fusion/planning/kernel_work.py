"""What a kernel in the making computes, and how much of it again: bounded while its elements are written.

Each element that is asked for is noted with the work that it took. A trial that does too much again ends with
Overgrown, and says which value is to be in memory, or with Incompatible where another kernel has to do what is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NoReturn

from ...ir.node import Value
from ..elements.body import Body
from ..elements.rule import ElementPlace, Incompatible, LoadGuards
from .growth import SELDOM, Asked, Overgrown, is_long, largest_again, room_left
from .placement import MemoryPlacement


class KernelWork:
    """The work of one kernel, by the elements that its body remembers; `is_read` says which values take none."""

    def __init__(self, body: Body, memory: MemoryPlacement, is_read: Callable[[Value], bool]) -> None:
        self._body, self._memory, self._is_read = body, memory, is_read
        self._within: list[Value] = []
        """Whose elements are being computed, each for the one before it."""
        self._before = 0
        """How many elements were remembered when the trial began."""
        self._work = 0
        """What the elements took that were computed, those of trials that failed too."""
        self._left = 0
        """When the trial began, how much more work it was sure that no more than a kernel may do is done again."""
        self._enough = 0
        """Up to how much work it is sure."""
        self._anew = self._most_anew = 0
        """What the trial took of that on what kernels have computed already, and how much it may."""

    # --- elements ---

    def begin(self, value: Value, place: ElementPlace, guards: LoadGuards) -> int:
        """An element is about to be computed: the work before it, for `end`."""
        if is_long(place, guards):
            raise Overgrown(self._within[-1]) if len(self._within) > 1 else Incompatible
        self._within.append(value)
        return self._work

    def end(self, value: Value, before: int) -> None:
        """An element was computed, and is remembered."""
        work = self._memory.work_of(value)
        self._within.pop()
        self._work += work
        self._body.work.append((work, self._work - before))
        if value in self._memory.done.computed and not self._is_read(value):
            self._anew += work
            if self._anew > self._most_anew and self._within:
                self._require_new()
        if self._work > self._enough:
            self._require_room()

    def refuse_half_way(self) -> NoReturn:
        """Overgrown by the way to the element that is asked for: a value on this way goes into memory."""
        raise Overgrown(self._within[len(self._within) // 2]) if len(self._within) > 2 else Incompatible

    def _require_room(self) -> None:
        """Overgrown where what is tried computes too much again by itself; Incompatible where this kernel would."""
        most = self._memory.most_again
        room = room_left(self._asked(0), self._is_read, most)
        # What only reads, as what stores a reduction, may always: less is allowed than was once something is kept.
        if room < 0 and not all(self._is_read(value) for value, *_ in self._asked(self._before)):
            is_own = room_left(self._asked(self._before), self._is_read, most) < 0
            value = largest_again(self._asked(self._before), self._is_read) if is_own else None
            raise Overgrown(value) if value is not None else Incompatible
        self._enough = self._work + max(room, SELDOM, len(self._body.memo) // 4)

    def _require_new(self) -> None:
        """Overgrown where what is tried computes too much that kernels have computed already."""
        value = self._memory.done.largest(self._asked(self._before), self._is_read)
        if value is not None:
            raise Overgrown(value)
        self._most_anew *= 2

    def _asked(self, first: int) -> Iterator[Asked]:
        """What was asked for, from the `first` on."""
        body = self._body
        return islice(((key[0], key[1], *work) for key, work in zip(body.memo, body.work, strict=True)), first, None)

    # --- trials ---

    def begin_trial(self, remembered: int) -> None:
        """A trial begins, with so many elements remembered."""
        self._before, self._left = remembered, self._enough - self._work
        self._anew, self._most_anew = 0, self._memory.done.most_of_a_trial

    def give_up_trial(self) -> None:
        """The trial failed, and the body has forgotten what it wrote."""
        self._within.clear()
        self._enough = self._work + self._left

    def end_trial(self) -> None:
        """The trial succeeded: what it computed, a kernel has computed from now on."""
        self._memory.done.add(self._asked(self._before), self._is_read)

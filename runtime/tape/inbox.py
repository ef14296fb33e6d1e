"""Inboxes: the gradients that have arrived at a node, summed in an order that threads have no say in.

Each contribution to a slot has a key that says where it comes from: the number of the node, and of its edge. They
are summed in the order of the keys, later nodes first, as one thread would run them. One that arrives early waits.
"""

from __future__ import annotations

from threading import Lock

from .gradients import added
from .node import GradientValue, TapeNode

InboxKey = tuple[float, int]
"""Minus the sequence number of the node that gives a gradient, and which of its edges it takes."""


class Sum:
    """The gradient of one slot."""

    __slots__ = ("_early", "_keys", "_lock", "_next", "_total")

    def __init__(self) -> None:
        self._keys: list[InboxKey] = []
        self._early: dict[InboxKey, GradientValue] = {}
        self._lock: Lock | None = None
        self._next = 0
        self._total: GradientValue = None

    def expect(self, key: InboxKey) -> None:
        self._keys.append(key)

    def close(self) -> None:
        """No more are expected."""
        if len(self._keys) > 1:
            self._keys.sort()
            self._lock = Lock()

    def add(self, key: InboxKey, gradient: GradientValue) -> None:
        if self._lock is None:
            self._total = gradient
            return
        with self._lock:
            self._early[key] = gradient
            while self._next < len(self._keys) and self._keys[self._next] in self._early:
                self._total = added(self._total, self._early.pop(self._keys[self._next]))
                self._next += 1

    def take(self) -> GradientValue:
        total, self._total = self._total, None
        return total


class Inbox:
    """A node that is to run: how many gradients it still waits for, and those that have come."""

    __slots__ = ("missing", "node", "sums")

    def __init__(self, node: TapeNode) -> None:
        self.node = node
        self.missing = 0
        self.sums: dict[int, Sum] = {}

    def expect(self, slot: int, key: InboxKey) -> None:
        self.missing += 1
        if slot not in self.sums:
            self.sums[slot] = Sum()
        self.sums[slot].expect(key)

    def close(self) -> None:
        for sum in self.sums.values():
            sum.close()

    def gradients(self) -> list[GradientValue]:
        """One per slot, taken out."""
        return [self.sums[slot].take() if slot in self.sums else None for slot in range(len(self.node.metadata))]

    def __lt__(self, other: Inbox) -> bool:
        """Which of two ready nodes runs first: of equal rank, the one made later."""
        mine, theirs = self.node, other.node
        return (mine.rank, -mine.sequence) < (theirs.rank, -theirs.sequence)

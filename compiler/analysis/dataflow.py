"""A sparse forward analysis: what is said of every value, from what is said of those that it comes from.

At first nothing is said of a value, and of the inputs what the analysis says. Through branches and loops values are
handed on, so of one that is one of several what is said of all is joined; of what any other node makes, the analysis
tells. When more is said of a value it is handed on along its uses, and the other users are looked at again, until
nothing changes: work is proportional to the uses, since what is said of a value changes a few times only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from ..ir.graph import Graph
from ..ir.kinds import handed_to, open_flow_of
from ..ir.node import RETURN, Node, Value

Fact = TypeVar("Fact")


class Dataflow(ABC, Generic[Fact]):
    """One analysis of one graph; `states` holds what is said so far."""

    def __init__(self, graph: Graph) -> None:
        self.states: dict[Value, Fact] = {}
        self._queue: deque[Node] = deque(graph.all_nodes())
        self._queued: set[Node] = set(self._queue)
        self._untold: list[Value] = []
        """Values whose users do not know yet what is said of them."""

    @abstractmethod
    def made(self, node: Node) -> Iterable[tuple[Value, Fact]]:
        """What is said of the values that a node makes; nothing of those that hang on what is not known yet."""

    @abstractmethod
    def joined(self, value: Value, before: Fact | None, found: Fact) -> Fact:
        """What is said of a value of which this is found, besides what was said before."""

    def hands_on(self, node: Node) -> bool:
        """Whether the outputs of a node, and the parameters of its blocks, are values that it hands on."""
        return open_flow_of(node) is not None

    def asks(self, node: Node) -> bool:
        """Whether what a node makes hangs on what is said of the values that it uses."""
        return True

    def solve(self) -> dict[Value, Fact]:
        """Go on until nothing changes."""
        self._untold += self.states
        self._tell()
        while self._queue:
            node = self._queue.popleft()
            self._queued.discard(node)
            for value, state in self.made(node):
                self.say(value, state)
            self._tell()
        return self.states

    def hand(self, source: Value, into: Value) -> None:
        """Say of a value what is said of one that is handed on as it."""
        found = self.states.get(source)
        if found is not None:
            self.say(into, found)

    def say(self, value: Value, state: Fact) -> None:
        """Join what is found into what is said of a value; where that changes it, look at its users again."""
        before = self.states.get(value)
        after = self.joined(value, before, state)
        if after == before:
            return
        self.states[value] = after
        self.look_again(value)

    def look_again(self, value: Value) -> None:
        """Let the users of a value know that more is said of it."""
        self._untold.append(value)

    def _tell(self) -> None:
        """Hand on what changed, and queue the nodes that make something of it."""
        while self._untold:
            value = self._untold.pop()
            for user, index in value._uses:
                node = user.holder if user.kind == RETURN else user
                if node is None:
                    continue
                # Only what has blocks hands anything on, and few nodes have any.
                if node.blocks and self.hands_on(node):
                    for into in handed_to(user, index):
                        self.hand(value, into)
                elif node not in self._queued and self.asks(node):
                    self._queued.add(node)
                    self._queue.append(node)

"""Which nodes of one block go together: groups that grow from consumers to producers without making a cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise

from ..ir.node import Node, Value, walk


class Grouping:
    """The nodes of a block, the candidates among them, the barriers that no group crosses, and what keeps its order.

    Every node belongs to a cluster, named by one of its members; clusters of candidates grow by merging.
    """

    def __init__(
        self, nodes: Sequence[Node], candidates: set[Node], barriers: Sequence[Node], fixed: Sequence[Node]
    ) -> None:
        self._nodes = nodes
        self._position = {node: i for i, node in enumerate(nodes)}
        self._candidates = candidates
        self._segment = _segments(nodes, set(barriers))
        self._parent: dict[Node, Node] = {node: node for node in nodes}
        self._members: dict[Node, list[Node]] = {node: [node] for node in nodes}
        self._span = {node: (i, i) for node, i in self._position.items()}
        self._at_top = {inner: node for node in nodes for inner in _inside(node)}
        self._sources = {node: list(self._producers(node)) for node in nodes}
        self._users = {node: list(self._consumers(node)) for node in nodes}
        for earlier, later in pairwise(fixed):
            self._sources[later].append(earlier)
            self._users[earlier].append(later)
        # Per position itself, if no cluster has members on both sides of its end, or one further on.
        self._gap = list(range(len(nodes)))

    def grow(self) -> list[list[Node]]:
        """Merge all that may be merged; the groups, each in program order."""
        changed = True
        while changed:
            changed = False
            grown: set[Node] = set()
            for node in reversed(self._nodes):
                if node in self._candidates and self._find(node) not in grown:
                    changed |= self._grow(node)
                    grown.add(self._find(node))
        groups = {self._find(node) for node in self._candidates}
        return [sorted(self._members[g], key=self._position.__getitem__) for g in groups]

    def ordered(self, groups: Sequence[Sequence[Node]]) -> list[Node | Sequence[Node]]:
        """Nodes and groups in an order that respects uses and what is fixed, as near to the old one as may be."""
        item_of: dict[Node, int] = {node: i for i, group in enumerate(groups) for node in group}
        items: list[Node | Sequence[Node]] = [*groups]
        for node in self._nodes:
            if node not in item_of:
                item_of[node] = len(items)
                items.append(node)
        before: list[set[int]] = [set() for _ in items]
        for node in self._nodes:
            before[item_of[node]].update(item_of[source] for source in self._sources[node])
        return _sorted(items, before, [self._last(item) for item in items])

    def _last(self, item: Node | Sequence[Node]) -> int:
        return self._position[item if isinstance(item, Node) else item[-1]]

    # --- the graph of the block ---

    def _producers(self, node: Node) -> Iterable[Node]:
        """The nodes of the block whose results the node, or what is inside it, uses."""
        found: dict[Node, None] = {}
        for inner in _inside(node):
            for value in inner.inputs:
                source = self._at_top.get(value.node)
                if source is not None and source is not node:
                    found[source] = None
        return found

    def _consumers(self, node: Node) -> Iterable[Node]:
        found: dict[Node, None] = {}
        values: list[Value] = node.outputs
        for value in values:
            for use in value.uses:
                user = self._at_top.get(use.user)
                if user is not None:
                    found[user] = None
        return found

    # --- merging ---

    def _find(self, node: Node) -> Node:
        while self._parent[node] is not node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def _grow(self, consumer: Node) -> bool:
        """Take in producers, last one first: a way from one to the group leads through later nodes only."""
        changed = False
        pending: list[tuple[int, Node]] = []
        seen: set[Node] = set()

        def consider(members: Iterable[Node]) -> None:
            for member in members:
                for source in self._sources[member]:
                    if source in self._candidates and source not in seen:
                        seen.add(source)
                        heappush(pending, (-self._position[source], source))

        consider(self._members[self._find(consumer)])
        while pending:
            _, producer = heappop(pending)
            group, other = self._find(consumer), self._find(producer)
            if group is other or self._segment[producer] != self._segment[consumer]:
                continue
            if self._leads_around(other, group) or self._leads_around(group, other):
                continue
            consider(self._members[other])
            self._merge(group, other)
            changed = True
        return changed

    def _merge(self, left: Node, right: Node) -> None:
        large, small = (left, right) if len(self._members[left]) >= len(self._members[right]) else (right, left)
        self._parent[small] = large
        self._members[large] += self._members.pop(small)
        lows, highs = zip(self._span[large], self._span.pop(small), strict=True)
        self._span[large] = first, last = min(lows), max(highs)
        position = self._behind(first)
        while position < last:
            self._gap[position] = position + 1
            position = self._behind(position)

    def _behind(self, position: int) -> int:
        """The first position from here on that no cluster spans together with the next: no way leads back over it."""
        while self._gap[position] != position:
            self._gap[position] = self._gap[self._gap[position]]
            position = self._gap[position]
        return position

    def _leads_around(self, start: Node, end: Node) -> bool:
        """Whether a way leads from one cluster to another through a third."""
        limit = self._behind(self._span[end][1])
        if self._span[start][0] > limit:
            return False
        seen = {start}
        stack: list[Node] = []

        def follow(cluster: Node, *, through: Node | None) -> None:
            for member in self._members[cluster]:
                for user in self._users[member]:
                    found = self._find(user)
                    if found not in seen and found is not through:
                        seen.add(found)
                        stack.append(found)

        follow(start, through=end)
        while stack:
            cluster = stack.pop()
            if cluster is end:
                return True
            if self._span[cluster][0] <= limit:
                follow(cluster, through=None)
        return False


def _inside(node: Node) -> Iterable[Node]:
    """A node, those in its blocks, and those blocks' Return nodes."""
    for inner in walk([node]):
        yield inner
        for block in inner.blocks:
            yield block.ret


def _segments(nodes: Sequence[Node], barriers: set[Node]) -> dict[Node, int]:
    """The number of each node's stretch between two barriers."""
    found: dict[Node, int] = {}
    number = 0
    for node in nodes:
        number += node in barriers
        found[node] = number
    return found


def _sorted(
    items: Sequence[Node | Sequence[Node]], before: Sequence[set[int]], rank: Sequence[int]
) -> list[Node | Sequence[Node]]:
    """A topological order; of the items that are ready the one of the lowest rank comes first."""
    after: list[list[int]] = [[] for _ in items]
    waiting = [0] * len(items)
    for index, sources in enumerate(before):
        sources.discard(index)
        waiting[index] = len(sources)
        for source in sources:
            after[source].append(index)
    ready: list[tuple[int, int]] = []
    for index, count in enumerate(waiting):
        if not count:
            heappush(ready, (rank[index], index))
    order: list[Node | Sequence[Node]] = []
    while ready:
        _, index = heappop(ready)
        order.append(items[index])
        for later in after[index]:
            waiting[later] -= 1
            if not waiting[later]:
                heappush(ready, (rank[later], later))
    assert len(order) == len(items), "grouping made a cycle"
    return order

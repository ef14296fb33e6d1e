"""A greatest flow, and with it the smallest side of the sink of the cuts that bound it.

Vertices are lifted and what waits in them is pushed on, from the highest down, until nothing that waits can reach the
sink: what then waits need not find its way back to the source for the cut to be known. Networks here are of tens to
thousands of vertices: importing a solver took longer than a hundred of them take.

Source: A. V. Goldberg, R. E. Tarjan, "A new approach to the maximum-flow problem" (Journal of the ACM 35, 1988), the
first of two phases, with the gaps and heights of B. V. Cherkassky, A. V. Goldberg, "On implementing the push-relabel
method for the maximum flow problem" (Algorithmica 19, 1997).
"""

from __future__ import annotations

from collections.abc import Mapping

SOURCE, SINK = 0, 1


def greatest_flow(count: int, capacities: Mapping[tuple[int, int], int]) -> tuple[int, set[int]]:
    """Its value, and the vertices from which the sink can still be reached, of vertices 0 to `count` - 1."""
    flow = _Flow(count, capacities)
    flow.run()
    return flow.waiting[SINK], {vertex for vertex in range(count) if flow.reaches(vertex)}


class _Flow:
    """Edge e has its way back at e ^ 1. A height is a bound of the steps to the sink; `count` where none lead there."""

    def __init__(self, count: int, capacities: Mapping[tuple[int, int], int]) -> None:
        self._count = count
        self._heads: list[int] = []
        self._room: list[int] = []
        self._edges: list[list[int]] = [[] for _ in range(count)]
        for (tail, head), capacity in capacities.items():
            self._edges[tail].append(len(self._heads))
            self._edges[head].append(len(self._heads) + 1)
            self._heads += head, tail
            self._room += capacity, 0
        self.waiting = [0] * count
        for edge in self._edges[SOURCE]:
            amount, self._room[edge] = self._room[edge], 0
            self._room[edge ^ 1] += amount
            self.waiting[self._heads[edge]] += amount

    def reaches(self, vertex: int) -> bool:
        return self._heights[vertex] < self._count

    def run(self) -> None:
        self._measure()
        while self._highest:
            if not self._active[self._highest]:
                self._highest -= 1
                continue
            vertex = self._active[self._highest].pop()
            if self._heights[vertex] == self._highest:
                self._discharge(vertex)
            if self._lifted > self._count:
                self._measure()
        self._measure()

    def _measure(self) -> None:
        """Heights as they are: steps to the sink along edges with room."""
        count, heads, room = self._count, self._heads, self._room
        heights = self._heights = [count] * count
        heights[SINK], reached = 0, [SINK]
        for vertex in reached:
            for edge in self._edges[vertex]:
                tail = heads[edge]
                if room[edge ^ 1] and heights[tail] == count and tail != SOURCE:
                    heights[tail] = heights[vertex] + 1
                    reached.append(tail)
        self._members: list[set[int]] = [set() for _ in range(count + 1)]
        self._active: list[list[int]] = [[] for _ in range(count)]
        self._highest = self._lifted = 0
        for vertex in reached:
            self._members[heights[vertex]].add(vertex)
            if self.waiting[vertex] and vertex != SINK:
                self._active[heights[vertex]].append(vertex)
                self._highest = heights[vertex]

    def _discharge(self, vertex: int) -> None:
        """Push on what waits in a vertex, lifting it as far as that takes, or out of the sink's reach."""
        heads, room, waiting, heights = self._heads, self._room, self.waiting, self._heights
        while True:
            below, least = heights[vertex] - 1, self._count
            for edge in self._edges[vertex]:
                if not room[edge]:
                    continue
                head = heads[edge]
                if heights[head] != below:
                    least = min(least, heights[head])
                    continue
                if not waiting[head] and head != SINK:
                    self._active[below].append(head)
                amount = min(waiting[vertex], room[edge])
                room[edge] -= amount
                room[edge ^ 1] += amount
                waiting[head] += amount
                waiting[vertex] -= amount
                if not waiting[vertex]:
                    return
            if not self._lift(vertex, least + 1):
                return

    def _lift(self, vertex: int, height: int) -> bool:
        """Whether it may reach the sink from there. Where nothing stands at a height, nothing above reaches it."""
        self._lifted += 1
        heights, members, old = self._heights, self._members, self._heights[vertex]
        members[old].discard(vertex)
        if not members[old] or height >= self._count:
            heights[vertex] = self._count
            above = old + 1
            while not members[old] and members[above]:
                for lost in members[above]:
                    heights[lost] = self._count
                members[above] = set()
                above += 1
            return False
        heights[vertex] = height
        members[height].add(vertex)
        self._highest = max(self._highest, height)
        return True

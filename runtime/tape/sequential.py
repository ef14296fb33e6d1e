"""A backward in the calling thread alone: no locks, and gradients are summed as they come.

Of the nodes that are ready, the one made last runs first; it waits for nothing that an earlier one could give. So
gradients arrive at a slot in the order of `inbox`, and the sums are those of a backward in several threads.
"""

from __future__ import annotations

from heapq import heappop, heappush

from .gradients import added
from .graph_walk import Task
from .node import Edge, GradientValue, TapeNode


def run_in_order(task: Task) -> list[GradientValue]:
    """Run the nodes of a task; what it was to find."""
    return _Sequential(task).run()


class _Sequential:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._ready: list[tuple[int, int, TapeNode]] = []
        self._gradients: dict[TapeNode, list[GradientValue]] = {}

    def run(self) -> list[GradientValue]:
        task, ready = self._task, self._ready
        for edge, gradient in task.roots:
            self._deliver(edge, gradient)
        while ready:
            node = heappop(ready)[2]
            for edge, _, gradient in task.run_node(node, self._taken(node)):
                self._deliver(edge, gradient)
                del gradient
        return task.found

    def _deliver(self, edge: Edge, gradient: GradientValue) -> None:
        node, slot = edge
        if gradient is not None:
            gradients = self._gradients.get(node)
            if gradients is None:
                gradients = self._gradients[node] = [None] * len(node.metadata)
            gradients[slot] = added(gradients[slot], gradient)
        waits = self._task.waits[node] = self._task.waits[node] - 1
        if not waits and node in self._task.needed:
            heappush(self._ready, (node.rank, -node.sequence, node))

    def _taken(self, node: TapeNode) -> list[GradientValue]:
        return self._gradients.pop(node, None) or [None] * len(node.metadata)

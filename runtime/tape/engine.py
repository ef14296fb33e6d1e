"""The engine: runs the nodes of a backward, each once all its gradients are there.

Nodes that are ready at the same time run in parallel, the calling thread being one of those that work; NumPy lets
go of the interpreter's lock while it computes. Results do not depend on which thread is first: see `inbox`. Where no
node is large enough to be worth a thread, the calling one runs them all (`sequential`); so it does in a backward that
is itself recorded, so that the numbers of the nodes that it makes are the same each time. A backward may be started
inside another one's hooks or functions: it is a run of its own, which waits for nothing that the outer one does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from heapq import heapify, heappop, heappush
from threading import Condition, Lock

from .graph_walk import Roots, Task, task_of
from .inbox import Inbox
from .node import Edge, GradientValue, TapeNode
from .sequential import run_in_order

WORKERS = min(os.cpu_count() or 1, 16)
"""Threads that run one backward, the caller's included."""
PARALLEL_FROM = 1 << 14
"""A node of fewer elements is not worth waking a thread for."""

_POOL: ThreadPoolExecutor | None = None
_POOL_LOCK = Lock()


def _pool() -> ThreadPoolExecutor:
    global _POOL
    with _POOL_LOCK:
        if _POOL is None:
            _POOL = ThreadPoolExecutor(WORKERS, thread_name_prefix="gradscript-backward")
        return _POOL


def _forget_pool() -> None:
    """A forked process has none of the threads."""
    global _POOL, _POOL_LOCK
    _POOL, _POOL_LOCK = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def run_backward(
    roots: Roots,
    targets: Sequence[Edge] | None,
    *,
    retain_graph: bool,
    create_graph: bool,
) -> list[GradientValue]:
    """Send gradients from the roots along all edges.

    Without `targets`, to the leaves, where they accumulate. With, only to those, where they are returned, one for
    each; None where none arrives.
    """
    task = task_of(roots, targets, retain_graph=retain_graph, create_graph=create_graph)
    if create_graph or WORKERS == 1 or not any(node.size >= PARALLEL_FROM for node in task.needed):
        return run_in_order(task)
    return _BackwardRun(task).run()


class _BackwardRun:
    """One backward in several threads. `_changed` guards what they share: the heap of ready nodes and the counts."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._inboxes = _inboxes(task.needed, task.roots)
        self._ready: list[Inbox] = []
        self._running = 0
        self._helpers = 0
        self._failures: list[tuple[int, BaseException]] = []
        self._changed = Condition(Lock())
        for i, (edge, gradient) in enumerate(task.roots):
            self._deliver(edge, (float("-inf"), i), gradient, self._ready)
        heapify(self._ready)

    def run(self) -> list[GradientValue]:
        while True:
            with self._changed:
                while self._running and (not self._ready or self._failures):
                    self._changed.wait()
                if self._failures:
                    raise min(self._failures, key=lambda failure: failure[0])[1]
                if not self._ready:
                    return self._task.found
                inbox = self._start()
            self._step(inbox)

    def _start(self) -> Inbox:
        """Take a ready node; have a thread of the pool woken if another one is worth it."""
        inbox = heappop(self._ready)
        self._running += 1
        wanted = min(WORKERS - 1, len(self._ready))
        if self._helpers < wanted and self._ready[0].node.size >= PARALLEL_FROM:
            self._helpers += 1
            _pool().submit(self._help)
        return inbox

    def _help(self) -> None:
        """What a thread of the pool does: run nodes as long as any are ready."""
        while True:
            with self._changed:
                if not self._ready or self._failures:
                    self._helpers -= 1
                    return
                inbox = self._start()
            self._step(inbox)

    def _step(self, inbox: Inbox) -> None:
        ready: list[Inbox] = []
        failure: BaseException | None = None
        try:
            self._run_node(inbox, ready)
        except BaseException as error:
            failure = error
        with self._changed:
            self._running -= 1
            for found in ready:
                heappush(self._ready, found)
            if failure is not None:
                self._failures.append((-inbox.node.sequence, failure))
            self._changed.notify_all()

    def _run_node(self, inbox: Inbox, ready: list[Inbox]) -> None:
        """Run a node and pass its results on; `ready` gains the nodes that waited for nothing else."""
        node = inbox.node
        for edge, i, gradient in self._task.run_node(node, inbox.gradients()):
            self._deliver(edge, (-node.sequence, i), gradient, ready)

    def _deliver(self, edge: Edge, key: tuple[float, int], gradient: GradientValue, ready: list[Inbox]) -> None:
        inbox = self._inboxes.get(edge.node)
        if inbox is None:
            return
        inbox.sums[edge.slot].add(key, gradient)
        with self._changed:
            inbox.missing -= 1
            if not inbox.missing:
                del self._inboxes[edge.node]
                ready.append(inbox)


def _inboxes(needed: Set[TapeNode], roots: Roots) -> dict[TapeNode, Inbox]:
    """An inbox for each node, which knows what it will get."""
    inboxes = {node: Inbox(node) for node in needed}
    for i, (root, _) in enumerate(roots):
        if root.node in inboxes:
            inboxes[root.node].expect(root.slot, (float("-inf"), i))
    for node in needed:
        for i, edge in enumerate(node.edges):
            if edge is not None and edge.node in inboxes:
                inboxes[edge.node].expect(edge.slot, (-node.sequence, i))
    for inbox in inboxes.values():
        inbox.close()
    return inboxes

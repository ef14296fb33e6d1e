"""What a backward does with one node, and which nodes it needs: shared by the engine's two ways of running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ...lang.light_dataclasses import dataclass, field
from .gradients import fitted
from .hooks import run_node, run_tensor_hooks
from .node import Edge, GradientValue, TapeNode

Roots = Sequence[tuple[Edge, GradientValue]]


@dataclass(slots=True)
class Task:
    """One backward: where it starts, what it is to find, and how.

    `needed` are the nodes that run; `wanted` says, per node, for which slots gradients are asked for, each with its
    place in `found`. Without targets they are sent to the leaves, which are nodes themselves.
    """

    roots: Roots
    needed: Set[TapeNode]
    wanted: Mapping[TapeNode, Sequence[tuple[int, int]]]
    found: list[GradientValue]
    retain_graph: bool
    create_graph: bool
    waits: dict[TapeNode, int] = field(default_factory=dict)
    """Per node how many gradients come to it, undefined ones included."""

    def run_node(self, node: TapeNode, gradients: list[GradientValue]) -> list[tuple[Edge, int, GradientValue]]:
        """Run a node: its gradients that go on, each with its edge and the number of that."""
        run_tensor_hooks(node, gradients, self.create_graph)
        if self.wanted:
            for slot, position in self.wanted.get(node, ()):
                self.found[position] = gradients[slot]
            if not any(edge is not None and edge.node in self.needed for edge in node.edges):
                return []
        results = run_node(node, gradients, self.create_graph, self.retain_graph)
        if not self.retain_graph:
            node.release()
        if len(results) != len(node.edges):
            raise RuntimeError(f"{node.name} gave {len(results)} gradients for {len(node.edges)} inputs")
        passed: list[tuple[Edge, int, GradientValue]] = []
        for i, edge in enumerate(node.edges):
            if edge is not None and edge.node in self.needed:
                passed.append((edge, i, fitted(results[i], edge.node.metadata[edge.slot], node.name)))
        return passed


def task_of(roots: Roots, targets: Sequence[Edge] | None, *, retain_graph: bool, create_graph: bool) -> Task:
    """The task of a backward: one that finds gradients for `targets`, or sends them to the leaves."""
    wanted = _by_node(targets or ())
    needed = _reached([edge.node for edge, _ in roots])
    if targets is not None:
        needed = _needed(needed, wanted)
    task = Task(roots, needed, wanted, [None] * len(targets or ()), retain_graph, create_graph)
    waits = task.waits
    for edge, _ in roots:
        waits[edge.node] = waits.get(edge.node, 0) + 1
    for node in needed:
        for target in node.edges:
            if target is not None:
                waits[target.node] = waits.get(target.node, 0) + 1
    return task


def _by_node(targets: Sequence[Edge]) -> dict[TapeNode, list[tuple[int, int]]]:
    wanted: dict[TapeNode, list[tuple[int, int]]] = {}
    for position, edge in enumerate(targets):
        wanted.setdefault(edge.node, []).append((edge.slot, position))
    return wanted


def _reached(roots: Sequence[TapeNode]) -> set[TapeNode]:
    """The nodes that gradients may get to."""
    reached = set(roots)
    pending = list(reached)
    while pending:
        for edge in pending.pop().edges:
            if edge is not None and edge.node not in reached:
                reached.add(edge.node)
                pending.append(edge.node)
    return reached


def _needed(reached: set[TapeNode], wanted: Mapping[TapeNode, object]) -> set[TapeNode]:
    """Those of the nodes reached from which a wanted one is."""
    needed: set[TapeNode] = set()
    for node in sorted(reached, key=_sequence):
        if node in wanted or any(edge is not None and edge.node in needed for edge in node.edges):
            needed.add(node)
    return needed


def _sequence(node: TapeNode) -> int:
    return node.sequence

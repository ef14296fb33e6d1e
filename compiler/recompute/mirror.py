"""Mirroring in the manner of MXNet's gradient pass (Echo): regions between heavy nodes, and a frontier pushed forward.

    matmul ─▶ bias ─▶ tanh ─▶ matmul        region: bias, tanh        frontier: bias

Going back from the outputs, a region is grown over nodes that may be mirrored, up to heavy ones, and with it every
branch that shares an entry with it: whether an entry must be kept is one question for all its users. At first all of
a region is to be mirrored. Then the nodes at its beginning, together with those that share inputs with them, leave
the mirror path as long as the storage released (inputs that only they use) is at least the storage newly allocated
(results of theirs that are used, and inputs that others use too). What is left is mirrored.

A heavy node itself is never mirrored. One whose backward uses its inputs only (a matrix product) lets those be mirrored
all the same, since keeping is decided by value, not by node.

Source: Zheng, Vijaykumar, Pekhimenko, "Echo: Compiler-based GPU Memory Footprint Reduction for LSTM RNN Training",
ISCA 2020; MXNet, src/nnvm/gradient.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..ir.node import Node, Value
from .problem import Problem


def mirror(problem: Problem) -> set[Value]:
    """The values to keep where what is mirrored is chosen region by region."""
    uses = _Uses(problem)
    regions = _Regions(problem, uses)
    mirrored: set[Node] = set()
    for region in regions:
        mirrored |= region - _Frontier(problem, region, uses).pushed()
    checkpoints = {v for n in problem.nodes if n not in mirrored for v in n.outputs}
    return problem.closure(checkpoints)


class _Uses:
    """The nodes of f that use each value, and the values that df uses."""

    def __init__(self, problem: Problem) -> None:
        self.wanted = frozenset(problem.wanted)
        self.by: dict[Value, list[Node]] = {}
        for node in problem.region:
            for value in problem.sources(node):
                self.by.setdefault(value, []).append(node)


class _Regions:
    """Sets of nodes between heavy ones, latest first; each node that may be mirrored is in one of them."""

    def __init__(self, problem: Problem, uses: _Uses) -> None:
        self._problem = problem
        self._uses = uses
        self._inside = frozenset(problem.region)

    def __iter__(self) -> Iterator[set[Node]]:
        done: set[Node] = set()
        for node in reversed(self._problem.region):
            if node not in done and self._may(node):
                region = self._grow(node)
                done |= region
                yield region

    def _may(self, node: Node) -> bool:
        return node in self._inside and self._problem.recomputable(node)

    def _grow(self, start: Node) -> set[Node]:
        """The nodes that are joined to `start` by values, through nodes that may be mirrored."""
        region: set[Node] = set()
        stack = [start]
        while stack:
            node = stack.pop()
            if node in region or not self._may(node):
                continue
            region.add(node)
            entries = [*self._problem.sources(node), *node.outputs]
            stack += [v.node for v in entries if not self._problem.is_input(v)]
            stack += [user for value in entries for user in self._uses.by.get(value, ())]
        return region


class _Frontier:
    """One region, of which nodes are taken off the mirror path from its beginning."""

    def __init__(self, problem: Problem, region: set[Node], uses: _Uses) -> None:
        self._problem = problem
        self._region = [node for node in problem.region if node in region]
        self._left = set(region)
        self._uses = uses

    def pushed(self) -> set[Node]:
        """The nodes that leave the mirror path."""
        taken: set[Node] = set()
        moved = True
        while moved:
            moved = False
            for group in self._groups():
                if self._released(group) >= self._allocated(group):
                    self._left -= group
                    taken |= group
                    moved = True
                    break
        return taken

    def _frontier(self) -> list[Node]:
        """Nodes all of whose inputs are kept: from outside, or off the mirror path."""
        return [
            node
            for node in self._region
            if node in self._left and not any(v.node in self._left for v in self._problem.sources(node))
        ]

    def _groups(self) -> Iterable[set[Node]]:
        """The frontier in groups of nodes that share inputs, one with another."""
        frontier = self._frontier()
        pending = dict.fromkeys(frontier)
        users = {node: self._problem.sources(node) for node in frontier}
        while pending:
            first, _ = pending.popitem()
            group, stack = {first}, [first]
            while stack:
                entries = users[stack.pop()]
                for user in dict.fromkeys(u for value in entries for u in self._uses.by.get(value, ()) if u in pending):
                    del pending[user]
                    group.add(user)
                    stack.append(user)
            yield group

    def _released(self, group: set[Node]) -> int:
        """Bytes of inputs that nothing on the mirror path needs once the group has left it, nor df."""
        return self._bytes(v for v in self._inputs(group) if not self._is_needed(v, group))

    def _allocated(self, group: set[Node]) -> int:
        """Bytes of results that are to be kept."""
        results = [v for node in group for v in node.outputs]
        return self._bytes(v for v in results if self._is_needed(v, group))

    def _inputs(self, group: set[Node]) -> list[Value]:
        return list(dict.fromkeys(v for node in group for v in self._problem.sources(node)))

    def _is_needed(self, value: Value, group: set[Node]) -> bool:
        """Whether df, or a node on the mirror path outside the group, uses a value."""
        return value in self._uses.wanted or any(
            u in self._left and u not in group for u in self._uses.by.get(value, ())
        )

    def _bytes(self, values: Iterable[Value]) -> int:
        return self._problem.storages.nbytes(values) or 0

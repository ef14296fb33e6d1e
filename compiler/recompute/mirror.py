"""Mirroring by the rules of MXNet's gradient pass (Echo): everything light is on the mirror path, but for a frontier.

    matmul ─▶ bias ─▶ tanh ─▶ matmul        light: bias, tanh        frontier: bias

At first all that may be mirrored is on the mirror path: it is to be computed again. The frontier are the nodes there
all of whose operands are kept. Those of them that share operands, one with another, leave the mirror path together, if
they release at least as much memory as they allocate. That moves the frontier on, until nothing leaves any more.

    released     operands that nobody refers to but nodes of the frontier
    allocated    results that anybody refers to, and operands that others refer to as well

Who refers to a value is asked of forward and backward as they are without mirroring, of what has left the mirror path
too; asking for a shape is no reference. Every value counts by its own size, arguments, results and views included. So
it is not told here whether the peak is lower in the end: what the rules say is what is done.

A heavy node itself is never mirrored. One whose backward uses its operands only (a matrix product) lets those be
mirrored all the same, since keeping is decided by value, not by node.

Source: Zheng, Vijaykumar, Pekhimenko, "Echo: Compiler-based GPU Memory Footprint Reduction for LSTM RNN Training",
ISCA 2020; MXNet, src/nnvm/gradient.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..autodiff.gradient import residuals_of
from ..ir.kinds import KindTrait, has
from ..ir.node import Node, Value
from ..ops.registry import OPS, Trait
from .problem import Problem
from .storage import may_hold_memory, size_of


def mirror(problem: Problem) -> set[Value]:
    """The values to keep where a frontier decides what is mirrored."""
    mirrored = _MirrorPath(problem).nodes
    kept = [node for node in problem.nodes if node not in mirrored and not _hands_on(node)]
    return problem.closure({value for node in kept for value in node.outputs})


class _References:
    """What nodes take and give that has memory, who refers to it (None: the backward), and how large it is."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known = problem.known or {}
        self._handed_on: dict[Value, list[Value]] = {}
        self.to: dict[Value, set[Node | None]] = {}
        for node in problem.nodes:
            if _hands_on(node):
                self._handed_on[node.output] = self.operands(node)
            elif not OPS.has(node.schema, Trait.SHAPE_ONLY):
                self._refer(self.operands(node), node)
        plain = problem.plain
        self._refer(self._entries(residuals_of(plain, plain.f.inputs, plain.f.outputs)), None)

    def _refer(self, values: Iterable[Value], user: Node | None) -> None:
        for value in values:
            self.to.setdefault(value, set()).add(user)

    def operands(self, node: Node) -> list[Value]:
        """The tensors that a node takes: those of a list that is made in the graph one by one."""
        return self._entries(self._problem.sources(node))

    def _entries(self, values: Iterable[Value]) -> list[Value]:
        entries = [e for v in values if may_hold_memory(v) for e in self._handed_on.get(v, (v,))]
        return list(dict.fromkeys(entries))

    def nbytes(self, values: Iterable[Value]) -> int:
        """The sizes of values, each counted for itself; one that is not known counts nothing."""
        return sum(size_of(self._known[value]) or 0 for value in values if value in self._known)


class _MirrorPath:
    """`nodes` are on the mirror path, once nothing leaves it any more."""

    def __init__(self, problem: Problem) -> None:
        self._references = _References(problem)
        self._order = {node: place for place, node in enumerate(problem.nodes)}
        self.nodes = {node for node in problem.nodes if _is_mirrored(problem, node)}
        self._frontier: set[Node] = set()
        self._settle()

    def _settle(self) -> None:
        arrived = [node for node in self._order if node in self.nodes and self._is_at_frontier(node)]
        while arrived:
            self._frontier.update(arrived)
            leaving = [group for group in self._groups(arrived) if self._pays(group)]
            left = [node for group in leaving for node in group]
            self._frontier.difference_update(left)
            self.nodes.difference_update(left)
            users = {user for node in left for value in node.outputs for user in self._references.to.get(value, ())}
            arrived = [n for n in users if n in self.nodes and n not in self._frontier and self._is_at_frontier(n)]
            arrived.sort(key=self._order.__getitem__)

    def _is_at_frontier(self, node: Node) -> bool:
        return not any(value.node in self.nodes for value in self._references.operands(node))

    def _groups(self, arrived: Iterable[Node]) -> Iterator[set[Node]]:
        """The nodes of the frontier that share operands with those that have arrived, one with another."""
        done: set[Node] = set()
        for first in arrived:
            if first in done:
                continue
            group, stack = {first}, [first]
            while stack:
                for value in self._references.operands(stack.pop()):
                    users = self._references.to.get(value, ())
                    more = [n for n in users if n is not None and n in self._frontier and n not in group]
                    group.update(more)
                    stack += more
            done |= group
            yield group

    def _pays(self, group: set[Node]) -> bool:
        """Whether nodes of the frontier release as much as they allocate."""
        operands = {value for node in group for value in self._references.operands(node)}
        released = {value for value in operands if self._references.to.get(value, set()) <= self._frontier}
        results = {value for node in group for value in node.outputs if value in self._references.to}
        allocated = results | (operands - released)
        return self._references.nbytes(released) >= self._references.nbytes(allocated)


def _is_mirrored(problem: Problem, node: Node) -> bool:
    """Whether a node is on the mirror path at first.

    Numbers are kept, and shapes of tensors: they hold none of them. What hands values on is none of its own.
    """
    makes_memory = any(may_hold_memory(value) for value in node.outputs) and not OPS.has(node.schema, Trait.SHAPE_ONLY)
    return makes_memory and not _hands_on(node) and problem.recomputable(node)


def _hands_on(node: Node) -> bool:
    """Whether the results of a node are its operands."""
    return has(node, KindTrait.WHOLE | KindTrait.SAME_VALUE)

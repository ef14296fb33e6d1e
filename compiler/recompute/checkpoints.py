"""Checkpoints along the program: what lives across a few places is kept, and what lies between is computed again.

    x ─▶ a ─▶ b ─▶ c ─▶ d ─▶ e ─▶ f        kept: c        at once again: d, e, f, then x …, a, b

A minimum cut decides value by value, and where all values of a chain cost the same, keeps all or none. Where the chain
is cut into k stretches, the backward holds one value for each and one stretch at a time: with k about √n, memory grows
with √n, for one more forward.

Source: Chen, Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.node import Node, Value
from .problem import Problem

STRETCHES = (2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64)
"""Numbers of stretches that are tried: half a power of two apart."""


def checkpoints(problem: Problem) -> Iterator[tuple[set[Value], int]]:
    """For each number of stretches that the program can be cut into, fewest first: what to keep, and the bytes that
    the backward wants of one stretch."""
    weights = _weights(problem)
    total = sum(weights.values())
    if not total:
        return
    for count in STRETCHES:
        if count > len(weights):
            return
        borders = _borders(problem, weights, total, count)
        yield problem.closure(_living_across(problem, borders)), total // count


def _weights(problem: Problem) -> dict[Node, int]:
    """Bytes that df wants of each node that may run again."""
    wanted = frozenset(problem.wanted)
    found = {}
    for node in problem.region:
        size = problem.storages.nbytes(v for v in node.outputs if v in wanted)
        if size and problem.recomputable(node):
            found[node] = size
    return found


def _borders(problem: Problem, weights: dict[Node, int], total: int, count: int) -> set[int]:
    """The numbers of the nodes behind which a stretch ends, so that stretches are about equally heavy."""
    borders: set[int] = set()
    passed = 0
    for number, node in enumerate(problem.region):
        before = passed * count // total
        passed += weights.get(node, 0)
        if passed * count // total > before and passed < total:
            borders.add(number)
    return borders


def _living_across(problem: Problem, borders: set[int]) -> set[Value]:
    """The values made at or before a border and used after it by what may run again."""
    last: dict[Value, int] = {}
    made: dict[Value, int] = {}
    for number, node in enumerate(problem.region):
        made.update(dict.fromkeys(node.outputs, number))
        if problem.recomputable(node):
            last.update(dict.fromkeys(problem.sources(node), number))
    ordered = sorted(borders)
    return {value for value, end in last.items() if value in made and _crosses(made[value], end, ordered)}


def _crosses(start: int, end: int, borders: list[int]) -> bool:
    return any(start <= border < end for border in borders)

"""Profiling: the sizes and numbers of the first runs, and a plan that takes them for granted behind a guard."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..compiler.builder import Builder
from ..compiler.ir import Graph, Node, Value
from ..compiler.rewrite import replace_by_constant
from ..compiler.types import NUMBERS, STR
from .plan import ExecutionPlan

RUNS = 2
"""So many runs are recorded before a plan is specialised on what they had in common."""


class Profile:
    """What the runs of one plan had in common, per argument: a size, a number, or nothing (None).

    `specialized` is the plan for just that. It stands behind `guards`; where they fail, the general plan runs.
    """

    def __init__(self) -> None:
        self.runs = 0
        self.common: list[Hashable] = []
        self.specialized: ExecutionPlan | None = None
        self.guard_failures = 0

    def record(self, values: Sequence[Any]) -> None:
        """Keep what this run has in common with those before."""
        seen = [_observed(value) for value in values]
        if not self.runs:
            self.common = seen
        else:
            self.common = [a if _is_same(a, b) else None for a, b in zip(self.common, seen, strict=True)]
        self.runs += 1

    def holds(self, values: Sequence[Any]) -> bool:
        """The guard: whether arguments are what the specialised plan takes for granted."""
        for expected, value in zip(self.common, values, strict=True):
            if expected is not None and not _is_same(expected, _observed(value)):
                self.guard_failures += 1
                return False
        return True

    def settle(self, graph: Graph) -> None:
        """Write what the runs had in common into a graph."""
        first = graph.body.param.next
        assert first is not None
        builder = Builder(graph, before=first, span=graph.span)
        for value, known in zip(list(graph.inputs), self.common, strict=True):
            if isinstance(known, tuple):
                _settle_size(value, known)
            elif known is not None and value.use_count and (value.type in NUMBERS or value.type == STR):
                uses = value.uses
                constant = builder.constant(known, value.type)  # type: ignore[arg-type]  # one of the scalars
                for use in uses:
                    use.user.set_input(use.index, constant)


def _observed(value: Any) -> Hashable:
    if type(value) is np.ndarray:
        return value.shape
    return value if isinstance(value, bool | int | float | str) else None


def _is_same(left: Hashable, right: Hashable) -> bool:
    """Equal, and of one type: 1, 1.0 and True are three values, and so are 0.0 and -0.0."""
    return type(left) is type(right) and (left == right and repr(left) == repr(right))


def _settle_size(value: Value, size: tuple[int, ...]) -> None:
    """Make what asks for the size of an input a constant."""
    for use in value.uses:
        answer = _answer(use.user, size)
        if answer is not None:
            replace_by_constant(use.user, answer)


def _answer(node: Node, size: tuple[int, ...]) -> int | list[int] | None:
    if node.kind in ("aten::size", "prim::grad_size"):
        return list(size)
    if node.kind == "aten::numel":
        return int(np.prod(size, dtype=np.int64))
    if node.kind == "aten::size.int":
        dim = node.inputs[1].node
        index = dim.attrs.get("value") if dim.kind == "prim::Constant" else None
        return size[index] if isinstance(index, int) and -len(size) <= index < len(size) else None
    return None

"""Profiling: the sizes and numbers of the first runs, and a plan that takes them for granted behind a guard.

runs 1, 2     the general plan runs; shapes and numbers of the arguments are recorded
run 3         what both had in common is written into the graph: numbers become constants, sizes are propagated
              through it and fold what depends on them (trip counts, branches, shapes), and a plan is made of that
from then on  the guard compares the arguments with the record: the special plan runs, or the general one
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Value
from ...compiler.ops.meta import UNKNOWN, Meta
from ...compiler.shapes.propagate import ShapeError
from ...compiler.specialize.settle import settle_shapes
from ...compiler.types.types import NUMBERS, STR, TensorType
from ..plans.plan import ExecutionPlan

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
        """Write what the runs had in common into a graph whose inputs have the types of their spec."""
        first = graph.body.param.next
        assert first is not None
        builder = Builder(graph, before=first, span=graph.span)
        for value, known in zip(list(graph.inputs), self.common, strict=True):
            if _is_number(value, known) and value.use_count:
                uses = value.uses
                constant = builder.constant(known, value.type)  # type: ignore[arg-type]  # one of the scalars
                for use in uses:
                    use.user.set_input(use.index, constant)
        # Where an op refuses these shapes, it is for the plan to say so, to each run.
        with suppress(ShapeError):
            settle_shapes(graph, [_abstract(v, known) for v, known in zip(graph.inputs, self.common, strict=True)])


def _is_number(value: Value, known: Hashable) -> bool:
    return known is not None and (value.type in NUMBERS or value.type == STR)


def _abstract(value: Value, known: Hashable) -> Any:
    """What is known of an input, as shapes are propagated."""
    if isinstance(known, tuple) and isinstance(value.type, TensorType) and value.type.dtype is not None:
        return Meta(known, value.type.dtype)
    return known if _is_number(value, known) else UNKNOWN


def _observed(value: Any) -> Hashable:
    if type(value) is np.ndarray:
        return value.shape
    return value if isinstance(value, bool | int | float | str) else None


def _is_same(left: Hashable, right: Hashable) -> bool:
    """Equal, and of one type: 1, 1.0 and True are three values, and so are 0.0 and -0.0."""
    return type(left) is type(right) and (left == right and repr(left) == repr(right))

"""Profiling: the sizes and numbers of the first runs, and plans that take them for granted behind a guard.

runs 1, 2     the general plan runs; shapes and numbers of the arguments are recorded
run 3         what both had in common is written into the graph: numbers become constants, sizes are propagated
              through it and fold what depends on them (trip counts, branches, shapes), and a plan is made of that
from then on  guards compare the arguments with what each special plan takes for granted: the first that holds says
              which plan runs; where none does, the general one
after a while where PATIENCE runs in a row were none's, the next RUNS are recorded again, for one plan more
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
PATIENCE = 3
"""So many runs in a row that no guard holds for, and it is learned again what runs have in common."""
MAX_SPECIALIZED = 4
"""Special plans of one kind of arguments. Beyond, the one that ran longest ago is dropped."""


class Specialization:
    """A plan for arguments with something in common, per argument: a size, a number, or nothing (None)."""

    __slots__ = ("common", "plan")

    def __init__(self, common: Sequence[Hashable]) -> None:
        self.common = common
        self.plan: ExecutionPlan | None = None

    def holds(self, values: Sequence[Any]) -> bool:
        """The guard: whether arguments are what the plan takes for granted."""
        for expected, value in zip(self.common, values, strict=True):
            if expected is not None and not _is_same(expected, _observed(value)):
                return False
        return True

    def settle(self, graph: Graph) -> None:
        """Write what is taken for granted into a graph whose inputs have the types of their spec."""
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


class Profile:
    """What the runs of one plan had in common, and the plans made of that, the one that ran last first."""

    def __init__(self) -> None:
        self.specialized: list[Specialization] = []
        self.guard_failures = 0
        self._recorded = 0
        self._missed = PATIENCE
        self._common: list[Hashable] = []

    def choose(self, values: Sequence[Any]) -> Specialization | None:
        """What to run on these arguments; None for the general plan, while it is recorded what runs have in common."""
        for place, found in enumerate(self.specialized):
            if found.holds(values):
                self._missed = self._recorded = 0
                if place:
                    self.specialized.insert(0, self.specialized.pop(place))
                return found
        if self.specialized:
            self.guard_failures += 1
        self._missed += 1
        if self._missed <= PATIENCE:
            return None
        if self._recorded < RUNS:
            self._record(values)
            return None
        return self._specialize(values)

    def _record(self, values: Sequence[Any]) -> None:
        """Keep what this run has in common with those before."""
        seen = [_observed(value) for value in values]
        if not self._recorded:
            self._common = seen
        else:
            self._common = [a if _is_same(a, b) else None for a, b in zip(self._common, seen, strict=True)]
        self._recorded += 1

    def _specialize(self, values: Sequence[Any]) -> Specialization | None:
        """A new special plan, if these arguments have in common what those recorded had; else learning goes on."""
        learned = Specialization(self._common)
        self._missed = self._recorded = 0
        if all(known is None for known in learned.common) or not learned.holds(values):
            return None
        self.specialized.insert(0, learned)
        del self.specialized[MAX_SPECIALIZED:]
        return learned


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

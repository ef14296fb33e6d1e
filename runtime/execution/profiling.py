"""Profiling: the sizes and numbers of the first runs, and plans that take them for granted behind a guard.

runs 1, 2     the general plan runs; shapes and numbers of the arguments are recorded, and those that ops gave
run 3         what both had in common is written into the graph: numbers become constants, sizes are propagated
              through it and fold what depends on them (trip counts, branches, shapes), and a plan is made of that;
              what does not follow from the arguments is asked for where it is computed (`compiler/specialize/assume`)
from then on  guards compare the arguments with what each special plan takes for granted: the first that holds says
              which plan runs; where none does, the general one
on the way    a run that meets something else goes on in the general plan, from the values at hand (`bailout`)
after a while where PATIENCE runs in a row were none's, or left on the way, the next RUNS are recorded again, for one
              plan more
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ...compiler.analysis.points import Points
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Value
from ...compiler.ops.meta import UNKNOWN, Abstract, Meta
from ...compiler.shapes.propagate import ShapeError
from ...compiler.specialize.assume import Seen, assume, assume_inputs
from ...compiler.specialize.settle import settle_rounds
from ...compiler.types.types import NUMBERS, STR, ListType, TensorType, Type
from ..plans.build import PlanCache
from ..plans.plan import ExecutionPlan
from .bailout import observing_plan, seen_in, special_plan
from .compilation import specialize_graph
from .last_plan import LAST

RUNS = 2
"""So many runs are recorded before a plan is specialised on what they had in common."""
PATIENCE = 3
"""So many runs in a row that no guard holds for, and it is learned again what runs have in common."""
MAX_SPECIALIZED = 4
"""Special plans of one kind of arguments. Beyond, the one that ran longest ago is dropped."""


class Specialization:
    """What runs had in common: `common` per argument, a size, a number, or nothing (None); `seen` at points inside.

    `plan` is made of that. A guard asks for what is common before the plan runs; what was seen is asked for on the way,
    and a run for which it does not hold leaves for the general plan. After PATIENCE such runs in a row it is `spent`.
    """

    def __init__(self, common: Sequence[Hashable], seen: Mapping[int, Seen]) -> None:
        self.common = common
        self.seen = seen
        self.plan: ExecutionPlan | None = None
        self.spent = False
        self._entered = 0
        self._left_at = -1
        self._left_in_a_row = 0

    def holds(self, values: Sequence[Any]) -> bool:
        """The guard: whether arguments are what the plan takes for granted."""
        for expected, value in zip(self.common, values, strict=True):
            if expected is not None and not _is_same(expected, _observed(value)):
                return False
        return True

    def enter(self) -> None:
        """A run begins."""
        self._entered += 1

    def leave(self) -> None:
        """A run has left in the middle."""
        follows = self._left_at == self._entered - 1
        self._left_in_a_row = self._left_in_a_row + 1 if follows else 1
        self._left_at = self._entered
        self.spent = self._left_in_a_row >= PATIENCE

    def settle(self, graph: Graph) -> None:
        """Write what is taken for granted into a copy of the general graph."""
        points = Points(graph)
        assume_inputs(graph, self.common)
        arguments = [_abstract(v, known) for v, known in zip(graph.inputs, self.common, strict=True)]
        # Where an op refuses these shapes, it is for the plan to say so, to each run.
        with suppress(ShapeError):
            assume(graph, points, arguments, self.seen)
            settle_rounds(graph, arguments)


class Profile:
    """What the runs of one plan had in common, and the plans made of that, the one that ran last first.

    `general` is that plan. While runs are recorded, one that tells what its points give runs in its place. `varying`
    are the points at which so many runs have left that nothing is taken for granted there any more.
    """

    def __init__(self, general: ExecutionPlan, callees: PlanCache, *, exact: bool = False) -> None:
        self.specialized: list[Specialization] = []
        self.guard_failures = 0
        self.varying: set[int] = set()
        self._general = general
        self._callees = callees
        self._exact = exact
        self._observing: ExecutionPlan | None = None
        self._recorded = 0
        self._missed = PATIENCE
        self._common: list[Hashable] = []
        self._seen: dict[int, Seen | None] = {}

    def choose(self, values: Sequence[Any]) -> ExecutionPlan:
        """What to run on these arguments: a special plan, else the general one, which is recorded if that is due."""
        found = self._special(values)
        if found is not None:
            found.enter()
            return found.plan or self._made(found)
        if self.specialized:
            self.guard_failures += 1
        self._missed += 1
        if self._missed <= PATIENCE:
            return self._general
        if self._recorded < RUNS:
            return self._record(values)
        return self._specialize(values)

    def _special(self, values: Sequence[Any]) -> Specialization | None:
        """The first special plan whose guard holds. One that is left again and again goes, and is learned anew."""
        for found in [special for special in self.specialized if special.spent]:
            self.specialized.remove(found)
            self._missed = PATIENCE
        for place, found in enumerate(self.specialized):
            if found.holds(values):
                self._missed = self._recorded = 0
                if place:
                    self.specialized.insert(0, self.specialized.pop(place))
                return found
        return None

    def _record(self, values: Sequence[Any]) -> ExecutionPlan:
        """Keep what this run has in common with those before, and have it tell what it meets on the way."""
        seen = [_observed(value) for value in values]
        if not self._recorded:
            self._common, self._seen = seen, {}
        else:
            self._common = [a if _is_same(a, b) else None for a, b in zip(self._common, seen, strict=True)]
        self._recorded += 1
        if self._observing is None:
            self._observing = observing_plan(self._general.graph, self._callees, self._observe)
        return self._observing

    def _observe(self, point: int, value: Any) -> None:
        """Called by runs, of any thread, that are recorded."""
        found = seen_in(value)
        known = self._seen.setdefault(point, found)
        if type(found) is not type(known) or found != known:
            self._seen[point] = None

    def _specialize(self, values: Sequence[Any]) -> ExecutionPlan:
        """A new special plan, if these arguments have in common what those recorded had; else learning goes on."""
        seen = {point: known for point, known in self._seen.items() if known is not None and point not in self.varying}
        learned = Specialization(self._common, seen)
        self._missed = self._recorded = 0
        nothing = all(known is None for known in learned.common) and not seen
        if nothing or not learned.holds(values):
            return self._general
        self.specialized.insert(0, learned)
        del self.specialized[MAX_SPECIALIZED:]
        learned.enter()
        return self._made(learned)

    def _made(self, learned: Specialization) -> ExecutionPlan:
        general = self._general

        def left(point: int) -> None:
            LAST.plan = general
            learned.leave()
            if learned.spent:
                self.varying.add(point)

        graph = specialize_graph(general.graph, learned.settle, exact=self._exact)
        learned.plan = special_plan(graph, general.graph, self._callees, left)
        return learned.plan


def _abstract(value: Value, known: Hashable) -> Abstract:
    """What is known of an input, as shapes are propagated."""
    return UNKNOWN if known is None else _abstract_of(value.type, known)


def _abstract_of(type: Type, known: Any) -> Abstract:
    if isinstance(type, ListType):
        return [_abstract_of(type.element, item) for item in known]
    if isinstance(type, TensorType):
        return Meta(known, type.dtype) if type.dtype is not None else UNKNOWN
    return known if type in NUMBERS or type == STR else UNKNOWN


def _observed(value: Any) -> Hashable:
    """A shape, a number or a string; of a list what is observed of its elements; None for what is not recorded."""
    if type(value) is np.ndarray:
        return value.shape
    if isinstance(value, list):
        items = tuple([_observed(item) for item in value])
        return None if None in items else items
    return value if isinstance(value, bool | int | float | str) else None


def _is_same(left: Any, right: Any) -> bool:
    """Equal, and of one type: 1, 1.0 and True are three values, and so are 0.0 and -0.0."""
    if type(left) is not type(right) or left != right:
        return False
    if isinstance(left, tuple):
        return all(map(_is_same, left, right))
    return not isinstance(left, float) or repr(left) == repr(right)

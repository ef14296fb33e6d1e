"""What plans a graph for kernels in C: once for each combination of layouts, or for classes of sizes.

What is a straight line for them is one program; of any other, each straight stretch is a graph like this, in a plan.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from copy import copy
from threading import RLock
from typing import Any

from ....compiler.codegen.c.module import supports
from ....compiler.fusion.fuse import Unfusable, fuse, fuse_groups
from ....compiler.fusion.refusals import Unsettled
from ....compiler.fusion.seeds import open_inputs
from ....compiler.ir.graph import Graph
from ....compiler.scheduling.cpu import split_for_cpu
from ....compiler.specialize.optionals import specialize_optionals
from ....compiler.types.open_sizes import Symbols, closed, is_open
from ....lang.collection import collection_paused
from ....lang.light_dataclasses import replace
from ..groups import MAX_SHAPES, TOO_MANY_SHAPES, GroupRunner, make_room, plan_with_kernels
from ..notices import tell_unless_auto
from .kept.classes import SizedPlans
from .kept.graphs import graph_data
from .kept.plans import JsonValue, Unkept
from .layouts import layout_of, program_key
from .loading import loaded
from .memory.listed import ArrayList, kept_list
from .planned import PlannedProgram
from .program import CProgram

_PLANNING = RLock()


class GraphPlanner:
    """The plans of a graph, which has no tuples left; `group` makes what runs a fusion group of it.

    `programs` has those for given sizes, None of what has no kernels; `sizes` those for classes.
    """

    def __init__(self, graph: Graph, group: GroupRunner, sizes: SizedPlans[CProgram | CPlan]) -> None:
        self.graph = graph
        self._group = group
        self._sizes = sizes
        self.programs: dict[Hashable, PlannedProgram | CPlan | None] = {}
        self._refusals: dict[Hashable, Exception] = {}

    def plan(self, values: Sequence[Any], key: Hashable, settled: bool) -> CProgram | CPlan | None:
        """What runs such values, planned where nothing is yet; None where no kernels do."""
        with _PLANNING, collection_paused():
            if key in self.programs:
                return self.programs[key]
            found = self._sizes.plan(values, key, settled, self._open_program)
            if found is None and self._has_room():
                absent = tuple([i for i, value in enumerate(values) if value is None])
                given = [layout_of(value, settled) for value in values]
                graph = specialize_optionals(self.graph, absent)
                found = self.programs[key] = loaded(
                    lambda: self._made(graph, given), lambda refusal: self._refusals.setdefault(key, refusal)
                )
            return found

    def tell(self, values: Sequence[Any]) -> None:
        """Why such values are none for kernels, where that is not for ops to say."""
        refusals = [self._refusals.get((settled, program_key(values, settled))) for settled in (True, False)]
        reason = next(filter(None, refusals), None)
        if reason is not None:
            tell_unless_auto(self.graph, reason)

    def _open_program(self, given: Sequence[Any], symbols: Symbols) -> PlannedProgram | CPlan:
        """What is planned for open sizes. Raises: REFUSALS."""
        absent = tuple([i for i, value in enumerate(given) if value is None])
        return self._made(specialize_optionals(self.graph, absent), given, symbols)

    def _has_room(self) -> bool:
        """Whether one more program may be kept."""
        make_room(self.programs, self._refusals)
        return True

    def _made(self, graph: Graph, given: Sequence[Any], symbols: Symbols | None = None) -> PlannedProgram | CPlan:
        try:
            return PlannedProgram(fuse(graph, given, supports, split_for_cpu), symbols)
        except Unsettled:
            raise
        except Unfusable:
            parts = fuse_groups(graph, given, split=split_for_cpu)
            if parts is None:
                raise
            # What asks for a plan does not tell these apart, though what is left of the graph would.
            return CPlan(parts.graph, self._group, open_inputs(self.graph))


class StraightPlanner(GraphPlanner):
    """The plans of a fusion group, which is a straight line or nothing."""

    def _has_room(self) -> bool:
        if len(self.programs) < MAX_SHAPES:
            return True
        tell_unless_auto(self.graph, TOO_MANY_SHAPES)
        return False

    def _made(self, graph: Graph, given: Sequence[Any], symbols: Symbols | None = None) -> PlannedProgram:
        return PlannedProgram(fuse(graph, given, supports, split_for_cpu), symbols)


class CPlan:
    """A graph with fusion groups: the ordinary loop, in which groups run by kernels. `own` are the inputs that are
    seeds and numbers like them: each call has others."""

    def __init__(self, graph: Graph, group: GroupRunner, own: Collection[int]) -> None:
        self.graph: Graph | None = graph
        self.plan = plan_with_kernels(graph, group)
        self._own = sorted(own)
        self._list = kept_list(self.plan, self._own)

    def closed(self, atoms: Sequence[int]) -> CPlan:
        """The plan for given sizes, by a value for each atom; its groups are the same."""
        found = copy(self)
        # The graph is for open sizes, and none of these.
        found.graph = None
        found.plan = replace(self.plan, template=closed(self.plan.template, atoms))
        found._list = kept_list(found.plan, self._own)
        return found

    def data(self) -> JsonValue:
        """What keeps it. Raises: Unkept, for a graph of open sizes."""
        if self.graph is None or any(is_open(constant) for constant in self.plan.template):
            raise Unkept
        return {"groups": graph_data(self.graph)}

    @property
    def listed(self) -> ArrayList | None:
        """The list of what it does, once there is one."""
        return self._list.found

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """The outputs, for one value per input. RuntimeFailure for what is wrong with the data."""
        return self._list.run(values)

"""Gradients that lie where their arguments did, in C: of `gs.grad` in one program, of `gs.vjp` in a backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from ....compiler.codegen.c.module import supports
from ....compiler.fusion.fuse import Unfusable, fuse
from ....compiler.fusion.in_place import StillUsed, donating
from ....compiler.fusion.refusals import Unsettled
from ....compiler.ir.graph import Graph
from ....compiler.scheduling.cpu import split_for_cpu
from ....compiler.types.open_sizes import Symbols
from ...execution.differentiated import Differentiated
from ...failures.failure import RuntimeFailure
from .derivatives import CDifferentiated
from .graph import CGraph, CGroup
from .kept.classes import SizedPlans
from .kept.plans import KeptPlans
from .launched import thread_count
from .layouts import addressable
from .pair import CPair, Pair
from .planned import PlannedProgram
from .planning import CPlan, GraphPlanner
from .program import IN_VAIN, CProgram


class DonatingPlanner(GraphPlanner):
    """The plans of a graph whose result number `donated[i]` lies where its input i did."""

    def __init__(self, graph: Graph, sizes: SizedPlans[CProgram | CPlan], donated: Mapping[int, int]) -> None:
        super().__init__(graph, CGroup, sizes)
        self._donated = donated

    def _made(self, graph: Graph, given: Sequence[Any], symbols: Symbols | None = None) -> PlannedProgram:
        try:
            program = fuse(graph, given, supports, split_for_cpu, tiled=False)
        except Unsettled:
            raise
        except Unfusable as error:
            raise refused(graph, next(iter(self._donated)), str(error)) from error
        try:
            return PlannedProgram(donating(program, self._donated), symbols)
        except StillUsed as error:
            raise refused(graph, next(iter(self._donated)), str(error)) from error


class DonatingCGraph(CGraph):
    """A graph whose result number `donated[i]` lies where its input i did. Nothing of it is kept."""

    def __init__(self, graph: Graph, donated: Mapping[int, int]) -> None:
        self._donated = donated
        super().__init__(graph)

    def _keeper(self, what: str = "") -> KeptPlans:
        return KeptPlans("", str, keeps=False)

    @cached_property
    def _planner(self) -> GraphPlanner:
        return DonatingPlanner(self._graph, self._sizes, self._donated)

    def _in_vain(self, error: Exception) -> NoReturn:
        raise spoilt(self._graph) from error


class DonatingDifferentiated(CDifferentiated):
    """A pair at work on the arguments of one call, of which some are donated: it goes backward once."""

    def __init__(self, pair: CPair, otherwise: Callable[[], Differentiated], donated: Sequence[int]) -> None:
        super().__init__(pair, otherwise)
        self.pair: CPair = pair
        self._donated = tuple(donated)
        self._is_spent = False

    def run(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """As of any pair. RuntimeFailure where a result lies in the memory of what is donated."""
        outputs, residuals = super().run(values)
        for i in self._donated:
            if any(isinstance(o, np.ndarray) and np.may_share_memory(o, values[i]) for o in outputs):
                raise refused(self.pair.gradient.f, i, "a result lies in its memory")
        return outputs, residuals

    def pull_back(self, values: Sequence[Any], seeds: Sequence[Any], residuals: Sequence[Any]) -> list[Any]:
        """One gradient per argument, given one per output. RuntimeFailure for a second time."""
        if self._is_over:
            return super().pull_back(values, seeds, residuals)
        gradient = self.pair.gradient
        if self._is_spent:
            raise refused(gradient.f, self._donated[0], "its gradient lies there since the pullback was called before")
        try:
            program = self.pair.donating(seeds, self._donated)
        except StillUsed as error:
            raise refused(gradient.f, self._donated[0], str(error)) from error
        if program is None:
            return super().pull_back(values, seeds, residuals)
        self._is_spent = True
        given = [*(addressable(seeds)[i] for i in gradient.input_vjps), *residuals]
        try:
            found = program.run(given, thread_count())
        except IN_VAIN as error:
            raise spoilt(gradient.f) from error
        return self._whole(values, seeds, found)


def donating_pair(
    pair: Pair,
    graph: Graph,
    values: Sequence[Any],
    donated: Sequence[int],
    otherwise: Callable[[], Differentiated],
) -> DonatingDifferentiated:
    """The pair for arguments of which some are donated. RuntimeFailure where one cannot be."""
    require_own(graph, values, donated)
    if not isinstance(pair, CPair):
        raise refused(graph, donated[0], "both passes are more than a straight line of kernels")
    if len(pair.gradient.f.inputs) != len(values):
        raise refused(graph, donated[0], "there are tuples or missing tensors among the arguments")
    return DonatingDifferentiated(pair.planned, otherwise, donated)


def require_own(graph: Graph, values: Sequence[Any], donated: Sequence[int]) -> None:
    """Raise RuntimeFailure unless the arguments that are donated are arrays in memory of their own, in order."""
    for i in donated:
        array = values[i]
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
            raise refused(graph, i, "it is no floating tensor")
        if not array.flags.writeable or not array.flags.c_contiguous or not array.flags.aligned:
            raise refused(graph, i, "its elements do not lie one behind the other in memory that may be written to")
        others = [other for n, other in enumerate(values) if n != i for other in _arrays(other)]
        if any(np.may_share_memory(array, other) for other in others):
            raise refused(graph, i, "another argument lies in its memory")


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [array for item in value for array in _arrays(item)]
    return [value] if isinstance(value, np.ndarray) else []


def refused(graph: Graph, number: int, why: str) -> RuntimeFailure:
    """That an argument cannot be donated."""
    name = graph.inputs[number].name_hint or f"argument {number}"
    note = "leave it out of donate_argnums: then its gradient has memory of its own"
    message = f"'{name}' cannot be donated: {why}"
    return RuntimeFailure("R002", graph.title, message, argument=name, span=graph.span, notes=[note])


def spoilt(graph: Graph) -> RuntimeFailure:
    """That kernels stopped, and what was donated may be written over."""
    message = "kernels stopped, for an index out of range or for want of memory, and what was donated may be lost"
    note = "without donate_argnums ops say which index"
    return RuntimeFailure("R101", graph.title, message, span=graph.span, notes=[note])

"""Both passes of a function as plans with fusion groups, as they run and as they are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ....compiler.ir.graph import Graph
from ...execution.executor import may_run_again
from ...failures.failure import RuntimeFailure
from .graph import CGraph, KeptGraph, kept_graph_data
from .kept.plans import JsonValue
from .pair import Pair, RestoredPlaces, places_data
from .program import OutOfRange

if TYPE_CHECKING:
    from ....compiler.autodiff.gradient import Gradient


class PassInParts:
    """One pass, planned for what it meets. What fails is told by a second run, where the forward may have one, of which
    `forward` gives the graph.

    `taken` are further inputs of its graph.
    """

    def __init__(self, graph: CGraph, forward: Callable[[], Graph], taken: Sequence[Any] = ()) -> None:
        self._graph = graph
        self._forward = forward
        self._taken = taken

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """The results. What is wrong with the data, the function's own ops are to say."""
        try:
            results = self._graph.run([*values, *self._taken])
        except RuntimeFailure as failure:
            if not may_run_again(self._forward()):
                raise
            raise OutOfRange from failure
        if results is None:
            raise OutOfRange
        return results


class KeptParts:
    """Both passes that were kept: planned, by `plan`, only where something is to be told of them."""

    def __init__(self, data: JsonValue, plan: Callable[[], Pair]) -> None:
        self.places = RestoredPlaces(data["places"])
        self._plan = plan
        self.forward = PassInParts(KeptGraph(data["forward"]), self._source)
        self._backward = PassInParts(KeptGraph(data["backward"]), self._source)

    @cached_property
    def _planned(self) -> Pair:
        return self._plan()

    def _source(self) -> Graph:
        return self.gradient.f

    @property
    def gradient(self) -> Gradient:
        """What they compute."""
        return self._planned.gradient

    @property
    def exact_gradient(self) -> Gradient:
        """The same, to be run by ops."""
        return self._planned.exact_gradient

    def backward(self, seeds: Sequence[Any]) -> PassInParts:
        """What gives the gradients, whichever are there."""
        return self._backward


def parts_data(gradient: Gradient) -> JsonValue:
    """What makes KeptParts of the parts of a gradient. Raises: Unkept."""
    return {
        "places": places_data(gradient),
        "forward": kept_graph_data(gradient.f),
        "backward": kept_graph_data(gradient.df),
    }

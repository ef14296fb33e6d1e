"""What runs graphs by kernels where a setting says so: it lies above, and registers itself here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...compiler.ir.graph import Graph


class GraphRun(Protocol):
    """A graph by kernels."""

    def run(self, values: Sequence[Any]) -> list[Any] | None:
        """The results, for one bound value per input; None where no kernels do it."""

    def entry(
        self,
        values: Sequence[Any],
        given: int,
        by_ops: Callable[[], Callable[[list[Any]], list[Any]] | None],
        *,
        at_once: bool = False,
        library: Any = None,
    ) -> Any:
        """What runs the graph on values like these without Python in between, of which as many as are `given` may be
        others; None where there is no such thing, or, unless `at_once`, but when it is asked for the second time.

        `by_ops` gives what runs those that have no kernels, where a second run is no more than a repetition; `library`
        is what stands for ops that have none, where it is known."""

    def listed(self, values: Sequence[Any]) -> Any:
        """The list of what is done for such values, as it was planned before; None where there is none, or not yet."""


_MAKERS: list[Callable[[Graph], GraphRun]] = []


def register_kernels(make: Callable[[Graph], GraphRun]) -> None:
    """Have `make` say what runs a graph on arrays by kernels."""
    _MAKERS[:] = [make]


def kernels_for(graph: Graph) -> GraphRun:
    """What runs a graph by kernels."""
    (make,) = _MAKERS
    return make(graph)

"""An executor that is given numbers behind its values: those of a graph for a class of sizes, at hand for some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ...compiler.ir.graph import Graph
from ..failures.failure import RuntimeFailure
from ..plans.plan import ExecutionPlan
from .executor import GraphExecutor


class NumberedExecutor:
    """A GraphExecutor for values that lack what the last inputs of its graph are given."""

    def __init__(self, executor: GraphExecutor, numbers: Sequence[Any]) -> None:
        self._executor = executor
        self.numbers = numbers

    @property
    def graph(self) -> Graph:
        """As of what runs, with inputs for the numbers."""
        return self._executor.graph

    @property
    def has_kernels(self) -> bool:
        """As of what runs."""
        return self._executor.has_kernels

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs."""
        return self._executor.run([*values, *self.numbers])

    def use_up(self, values: list[Any]) -> list[Any]:
        """As `run`, but the list is emptied."""
        given = [*values, *self.numbers]
        values.clear()
        return self._executor.use_up(given)

    def plan(self, values: Sequence[Any]) -> ExecutionPlan:
        """The plan for such values; it takes the numbers too."""
        return self._executor.plan([*values, *self.numbers])

    def plan_of_last(self, values: Sequence[Any]) -> ExecutionPlan:
        """The same for values that have just run."""
        return self._executor.plan_of_last([*values, *self.numbers])

    def kernel_entry(self, values: Sequence[Any], given: int, *, at_once: bool = False, library: Any = None) -> Any:
        """What runs the kernels for values like the first of these; None if nothing does."""
        return self._executor.kernel_entry([*values, *self.numbers], given, at_once=at_once, library=library)

    def listed(self, values: Sequence[Any]) -> Any:
        """The list of what is done for such values, which takes the numbers too; None where there is none, or not
        yet."""
        return self._executor.listed([*values, *self.numbers])

    def explain(self, failure: RuntimeFailure, values: Sequence[Any]) -> RuntimeFailure:
        """The failure as the source has it."""
        return self._executor.explain(failure, [*values, *self.numbers])


Executor: TypeAlias = GraphExecutor | NumberedExecutor

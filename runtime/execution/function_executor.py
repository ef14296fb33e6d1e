"""FunctionExecutor: the executor of a function that users call, which has plans with gradients too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...compiler import pipeline
from ...compiler.autodiff.aggregation import PLAIN, Aggregation, SumRule, aggregation
from ...compiler.autodiff.aggregation import use_aggregation as choose
from ...compiler.ir.graph import Graph
from ...compiler.passes.gradients.aggregate_gradients import cap_in_place_sums, in_place_sum_cap
from ...compiler.pipeline import GraphPass
from ..plans.build import PlanCache
from ..plans.plan import ExecutionPlan
from ..settings.counters import FALLBACKS
from ..settings.modes import SLICE_EVERYTHING, TOUCHED
from .argument_spec import ArgumentSpec
from .compilation import compile_graph, fallback_graph
from .differentiated import forget_gradients
from .executor import GraphExecutor, forget_plans
from .groups import plan_with_groups
from .last_plan import LAST

FORGETTING: set[Callable[[], None]] = set()
"""What else drops what it has compiled, when what it was compiled by has changed."""


class Recorder(Protocol):
    """What the tape keeps with an executor: its plans as they run on Variables, and what these share."""

    def of(self, plan: ExecutionPlan) -> ExecutionPlan:
        """A plan, recording."""


class FunctionExecutor(GraphExecutor):
    """Runs a function, of which a tape may record plans with gradients.

    `differentiable` is what stands for the graph where gradients are recorded: the call of a function that carries its
    own backward. `recorded` is the tape's, who keeps there what recording plans share.
    """

    def __init__(self, graph: Graph, plans: PlanCache, differentiable: Callable[[], Graph]) -> None:
        super().__init__(graph, plans)
        self.recorded: Recorder | None = None
        self._differentiable = differentiable
        self._recording_fallback: ExecutionPlan | None = None

    def recording_fallback(self, record: Callable[[ExecutionPlan], ExecutionPlan]) -> ExecutionPlan:
        """The plan without optimisation as a tape runs it; `record` makes it."""
        FALLBACKS.add()
        with self._lock:
            if self._recording_fallback is None:
                self._recording_fallback = record(self._build(fallback_graph(self._differentiable())))
            LAST.plan = self._recording_fallback
            return self._recording_fallback

    def clear(self) -> None:
        with self._lock:
            super().clear()
            self._recording_fallback = None
            self.recorded = None

    def _compiled(self, spec: ArgumentSpec) -> Graph:
        if not spec.grad_mode:
            return super()._compiled(spec)
        everything = TOUCHED.any and SLICE_EVERYTHING.get()
        return compile_graph(self._differentiable(), spec, slice_everything=everything)

    def _build(self, graph: Graph) -> ExecutionPlan:
        return plan_with_groups(graph, self._callees)


def forget_compiled() -> None:
    """Drop all that was compiled: plans, gradients, and what keeps either."""
    forget_gradients()
    forget_plans()
    for forget in list(FORGETTING):
        forget()


def choose_aggregation(
    sum: SumRule | None = None, *, zeros: Sequence[str] = (), copy: str | None = None, cap: int | None = None
) -> Callable[[], None]:
    """Choose how all gradients are put together from now on; returns what restores what was.

        sum(builder, gradients)    makes one gradient of several that meet in a value
        zeros                      ops that give zeros like their operand, which add nothing: "aten::zeros_like"
        copy                       an op that copies, for a gradient that is that of two arguments: "aten::clone"
        cap                        sums of fewer terms are added at once, of more one after the other

    What is left out is as ever: gradients are added as they come, and by the cap that there was, which is 8 at first.
    What was compiled before is dropped. ValueError for what is no such op, or no number of terms.
    """
    if isinstance(zeros, str) or not isinstance(zeros, Sequence):
        raise TypeError(f"zeros are a list of names of ops, such as ['aten::zeros_like'], not {zeros!r:.80}")
    before, cap_before = aggregation(), in_place_sum_cap()
    chosen = Aggregation(sum, tuple(zeros), copy)
    cap_in_place_sums(cap_before if cap is None else cap)
    choose(chosen if chosen != PLAIN else PLAIN)
    forget_compiled()

    def restore() -> None:
        choose(before)
        cap_in_place_sums(cap_before)
        forget_compiled()

    return restore


def register_pass(point: str, pass_: GraphPass) -> Callable[[], None]:
    """Run a pass of your own, `Graph -> bool`, at a named point of the pipeline; returns what takes it away again.

    The points are the stages of `compiler.pipeline.EXECUTOR`, of which it runs last, on every graph that goes through
    that stage: functions, what is differentiated, and f and df of each gradient. It changes the graph in place and
    says whether it did. What it leaves is verified: InvalidPass names a pass that breaks a graph. What was compiled
    before is dropped. ValueError for an unknown point.
    """
    remove = pipeline.add_pass(point, pass_)
    forget_compiled()

    def remove_and_forget() -> None:
        remove()
        forget_compiled()

    return remove_and_forget

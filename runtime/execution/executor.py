"""GraphExecutor: one graph, and a plan for each kind of arguments that it has met.

    arguments ─▶ ArgumentSpec ─▶ plan in the cache? ─ no ─▶ compile: specialise, optimise, plan
                                        └──────────────────────▶ run

Every graph that computes something for a user has one: a function, each half of a pair, f and df of each gradient.
A plan is found by what of the arguments it depends on. The cache keeps the MAX_PLANS plans used last. Any number of
threads may call: compiling is done under a lock, once per spec, and everything else reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from threading import Lock, RLock
from typing import Any
from weakref import WeakSet

from ...compiler.analysis.draws import draws
from ...compiler.ir.graph import Graph
from ...compiler.ops.meta import Abstract
from ...compiler.ops.registry import OPS, Trait
from ...lang.collection import collection_paused
from ...lang.light_dataclasses import dataclass
from ..failures.failure import RuntimeFailure
from ..plans.build import PlanCache, build_plan
from ..plans.interpreter import execute, run_plan
from ..plans.plan import BINARY, UNARY, ExecutionPlan
from ..settings.counters import CONSTRUCTED, FALLBACKS, HITS, MISSES
from ..settings.modes import OPTIMIZE, PROFILING, TOUCHED, runs_c
from ..values.float_errors import ignoring_float_errors
from .argument_spec import ArgumentSpec, Signature
from .compilation import compile_graph, fallback_graph
from .gradients import settle_for_shapes
from .kernel_runner import GraphRun, kernels_for
from .last_plan import LAST
from .profiling import Profile
from .uniform import tie_to_one_shape

MAX_PLANS = 64
"""Plans that an executor keeps."""


class Entry:
    """A plan of the cache. `used` is the number of the call that used it last, `recording` the plan as a tape runs it,
    made when a tape first does."""

    __slots__ = ("direct", "plan", "profile", "recording", "spec", "used")

    def __init__(self, spec: ArgumentSpec, plan: ExecutionPlan) -> None:
        self.spec = spec
        self.plan = plan
        self.used = HITS.now()
        self.direct = _direct(plan)
        self.profile: Profile | None = None
        self.recording: ExecutionPlan | None = None


@dataclass(frozen=True, slots=True)
class DebugState:
    """What an executor holds: its graph, the plan without optimisation, and the plans by spec."""

    graph: Graph
    fallback: ExecutionPlan
    plans: Mapping[ArgumentSpec, ExecutionPlan]


_EXECUTORS: WeakSet[GraphExecutor] = WeakSet()
_REGISTERING = Lock()


def forget_plans() -> None:
    """Drop every plan that was compiled: what they were compiled by has changed."""
    with _REGISTERING:
        executors = list(_EXECUTORS)
    for executor in executors:
        executor.clear()


class GraphExecutor:
    """Runs a graph. `plans` holds the plans of functions that it calls and that were not inlined.

    `known` are abstract values of the inputs, for a graph that runs on such alone. `exact` says that its results are
    the same to the bit however a policy has cut up its loops.
    """

    numbers: Sequence[Any] = ()
    """What its graph takes besides values: see NumberedExecutor."""

    def __init__(
        self,
        graph: Graph,
        plans: PlanCache | None = None,
        *,
        known: Sequence[Abstract] | None = None,
        exact: bool = False,
    ) -> None:
        CONSTRUCTED.add()
        self.graph = graph
        self.signature = Signature(graph)
        self.known: dict[Hashable, Entry] = {}
        self._abstract = known
        self._exact = exact
        self._callees = PlanCache() if plans is None else plans
        self._entries: dict[ArgumentSpec, Entry] = {}
        self._fallback: ExecutionPlan | None = None
        self._kernels: GraphRun | None = None
        self._lock = RLock()
        with _REGISTERING:
            _EXECUTORS.add(self)

    # --- running ---

    def find(self, key: Hashable) -> Entry | None:
        """The entry for what `Signature.key` gives, or for the flat key of `Function`; counts a hit."""
        entry = self.known.get(key)
        if entry is not None:
            entry.used = HITS.add()
            LAST.plan = entry.plan
        return entry

    def run(self, values: Sequence[Any], key: Hashable | None = None) -> list[Any]:
        """The outputs, for one bound value per input."""
        try:
            results = self._by_kernels(values) if runs_c() else None
            if results is not None:
                return results
            plan = self.plan(values, key)
            return execute(plan, [*values, *plan.template])
        except RuntimeFailure as failure:
            raise self.explain(failure, values) from failure.__cause__

    def use_up(self, values: list[Any]) -> list[Any]:
        """As `run`, but the list becomes the registers: an array that nothing else holds is freed after its last
        use."""
        results = self._by_kernels(values) if runs_c() else None
        if results is not None:
            return results
        plan = self.plan(values)
        values += plan.template
        return execute(plan, values)

    def plan(self, values: Sequence[Any], key: Hashable | None = None) -> ExecutionPlan:
        """The plan for such values, compiled if need be. `key` is that of `Signature`, where it is known already."""
        if TOUCHED.any and (not OPTIMIZE.get() or PROFILING.get()):
            return self._plan_in_mode(values)
        if key is None:
            key = self.signature.key(values)
        entry = self.known.get(key)
        if entry is None:
            entry = self.entry(self.signature.spec(values), key)
        else:
            entry.used = HITS.add()
        LAST.plan = entry.plan
        return entry.plan

    def plan_of_last(self, values: Sequence[Any]) -> ExecutionPlan:
        """The plan for such values where they have just run: found again, which counts as no run."""
        entry = self.known.get(self.signature.key(values))
        return self.plan(values) if entry is None else entry.plan

    def run_entry(self, plan: ExecutionPlan, values: Sequence[Any]) -> list[Any]:
        """Run an optimised plan; what fails is told in terms of the graph as it was written."""
        try:
            return run_plan(plan, values)
        except RuntimeFailure as failure:
            raise self.explain(failure, values) from failure.__cause__

    def _by_kernels(self, values: Sequence[Any]) -> list[Any] | None:
        """The outputs by kernels; None where there are none for such values."""
        if self._kernels is None:
            with self._lock:
                self._kernels = self._kernels or kernels_for(self.graph)
        return self._kernels.run(values)

    @property
    def has_kernels(self) -> bool:
        """Whether values were run by kernels, or were to be."""
        return self._kernels is not None

    def kernel_entry(self, values: Sequence[Any], given: int, *, at_once: bool = False, library: Any = None) -> Any:
        """What runs the kernels for values like the first of these, where they are met again; None if nothing does."""
        if self._kernels is None:
            return None
        return self._kernels.entry(values, given, lambda: self._steps(values), at_once=at_once, library=library)

    def listed(self, values: Sequence[Any]) -> Any:
        """The list of what is done for such values, where they have run by kernels; None where there is none, or not
        yet."""
        return None if self._kernels is None or not runs_c() else self._kernels.listed(values)

    def _steps(self, values: Sequence[Any]) -> Callable[[list[Any]], list[Any]] | None:
        """What runs values like these op by op; None where what fails must not run again."""
        if not may_run_again(self.graph):
            return None
        plan = self.plan_of_last(values)
        template = plan.template

        def run(inputs: list[Any]) -> list[Any]:
            HITS.add()
            LAST.plan = plan
            inputs += template
            return execute(plan, inputs)

        return run

    def explain(self, failure: RuntimeFailure, values: Sequence[Any]) -> RuntimeFailure:
        """The failure that the fallback plan gives, which knows the calls that led there; else the one at hand."""
        if failure.code == "R103" or not may_run_again(self.graph):
            return failure
        try:
            run_plan(self.fallback(), values)
        except RuntimeFailure as original:
            return original
        return failure

    def _plan_in_mode(self, values: Sequence[Any]) -> ExecutionPlan:
        if OPTIMIZE.get():
            key = self.signature.key(values)
            entry = self.find(key) or self.entry(self.signature.spec(values), key)
            plan = self._profiled(entry, values)
        else:
            FALLBACKS.add()
            plan = self.fallback()
        LAST.plan = plan
        return plan

    def _profiled(self, entry: Entry, values: Sequence[Any]) -> ExecutionPlan:
        """The general plan while runs are recorded, then the specialised ones wherever their guards hold."""
        with self._lock:
            if entry.profile is None:
                entry.profile = Profile(entry.plan, self._callees, exact=self._exact)
            return entry.profile.choose(values)

    # --- plans ---

    def plan_for(self, spec: ArgumentSpec) -> ExecutionPlan:
        """The plan for a spec, compiled if need be: `spec` with gradients is what a tape asks for."""
        return self.entry(spec, None).plan

    def fallback(self) -> ExecutionPlan:
        """The plan without optimisation."""
        if self._fallback is None:
            with self._lock:
                if self._fallback is None:
                    self._fallback = self._build(fallback_graph(self.graph))
        return self._fallback

    def debug_state(self) -> DebugState:
        with self._lock:
            plans = {spec: entry.plan for spec, entry in self._entries.items()}
            return DebugState(self.graph, self.fallback(), plans)

    def clear(self) -> None:
        """Forget every plan."""
        with self._lock:
            self._entries.clear()
            self.known.clear()
            self._fallback = None
            self._kernels = None

    def entry(self, spec: ArgumentSpec, key: Hashable | None) -> Entry:
        """The entry for a spec, compiled if need be, which `find` finds under the key from now on."""
        with self._lock:
            entry = self._entries.get(spec)
            if entry is not None:
                entry.used = HITS.add()
            else:
                entry = Entry(spec, self._build(self._compiled(spec)))
                MISSES.add()
                self._make_room()
                self._entries[spec] = entry
            if key is not None:
                self.known[key] = entry
            return entry

    def _compiled(self, spec: ArgumentSpec) -> Graph:
        """The optimised graph for a spec."""
        return compile_graph(self.graph, spec, settle=self._settle(spec), exact=self._exact)

    def _settle(self, spec: ArgumentSpec) -> Callable[[Graph], None] | None:
        """What is written into a graph before its stages, besides the types that its spec knows."""
        known = self._abstract
        if known is not None:
            return lambda graph: settle_for_shapes(graph, known)
        leaders = spec.leaders
        return None if leaders is None else lambda graph: tie_to_one_shape(graph, leaders)

    def _build(self, graph: Graph) -> ExecutionPlan:
        """The plan of an optimised graph."""
        with collection_paused():
            return build_plan(graph, self._callees)

    def _make_room(self) -> None:
        """Drop what was used longest ago."""
        while len(self._entries) >= MAX_PLANS:
            oldest = min(self._entries.values(), key=lambda entry: entry.used)
            del self._entries[oldest.spec]
            for key in [k for k, entry in self.known.items() if entry is oldest]:
                del self.known[key]


def may_run_again(graph: Graph) -> bool:
    """Whether a second run is no more than a repetition: nothing random, no effect but raising."""
    graphs = [graph]
    for each in graphs:
        for node in each.all_nodes():
            op = OPS.of(node.schema)
            raises = node.kind == "prim::RaiseException"
            if op is not None and not raises and op.has(Trait.SIDE_EFFECT):
                return False
            callee = each.called(node)
            if callee is not None and callee.graph not in graphs:
                graphs.append(callee.graph)
    return not draws(graph)


def _direct(plan: ExecutionPlan) -> Callable[..., Any] | None:
    """What a plan of a single op on all its inputs, in order, comes to; None for any other plan."""
    if len(plan.code) != 2:
        return None
    kind, function, target, first, second, _ = plan.code[0]
    gather = plan.code[1][3]
    is_binary = kind == BINARY and (first, second, plan.input_count) == (0, 1, 2)
    is_unary = kind == UNARY and (first, plan.input_count) == (0, 1)
    if not (is_binary or is_unary):
        return None
    marked: list[Any] = [None] * (plan.input_count + len(plan.template))
    marked[target] = plan
    results = gather(marked)
    if len(results) != 1 or results[0] is not plan:
        return None
    return ignoring_float_errors(function)

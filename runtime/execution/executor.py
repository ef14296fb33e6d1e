"""GraphExecutor: one graph, and a plan for each kind of arguments that it has met.

    arguments ─▶ ArgumentSpec ─▶ plan in the cache? ─ no ─▶ compile: specialise, optimise, slice, plan
                                        └──────────────────────▶ run

A plan is found by what of the arguments it depends on. The cache keeps the MAX_PLANS plans used last. Any number of
threads may call: compiling is done under a lock, once per spec, and everything else reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from ...compiler import pipeline
from ...compiler.analysis.draws import draws
from ...compiler.ir.graph import Graph
from ...compiler.ops.registry import OPS, Trait
from ...compiler.pipeline import Pass
from ..failures.failure import RuntimeFailure
from ..plans.build import PlanCache
from ..plans.interpreter import run_plan
from ..plans.plan import BINARY, UNARY, ExecutionPlan
from ..settings.counters import CONSTRUCTED, FALLBACKS, HITS, MISSES
from ..settings.modes import OPTIMIZE, PROFILING, SLICE_EVERYTHING, TOUCHED
from .argument_spec import ArgumentSpec, Signature
from .compilation import compile_graph, fallback_graph
from .differentiable import plan_with_groups
from .profiling import RUNS, Profile

MAX_PLANS = 64
"""Plans that an executor keeps."""


class Recorder(Protocol):
    """What the tape keeps with an executor: its plans as they run on Variables, and what these share."""

    def of(self, plan: ExecutionPlan) -> ExecutionPlan:
        """A plan, recording."""


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


class _Last:
    """The plan that ran last, of any executor, in any thread."""

    __slots__ = ("plan",)

    def __init__(self) -> None:
        self.plan: ExecutionPlan | None = None


LAST = _Last()
_EXECUTORS: WeakSet[GraphExecutor] = WeakSet()
_REGISTERING = Lock()


def last_executed_graph() -> Graph | None:
    """The optimised graph that ran last; None before the first call."""
    return LAST.plan.graph if LAST.plan is not None else None


def register_pass(point: str, pass_: Pass) -> Callable[[], None]:
    """Run a pass of your own, `Graph -> bool`, at a named point of the pipeline; returns what takes it away again.

    The points are the stages of `compiler.pipeline.EXECUTOR`, of which it runs last. It changes the graph in place
    and says whether it did. What it leaves is verified: InvalidPass names a pass that breaks a graph. Plans that were
    compiled before are dropped. ValueError for an unknown point.
    """
    remove = pipeline.register_pass(point, pass_)
    forget_plans()

    def remove_and_forget() -> None:
        remove()
        forget_plans()

    return remove_and_forget


def forget_plans() -> None:
    """Drop every plan that was compiled: what they were compiled by has changed."""
    with _REGISTERING:
        executors = list(_EXECUTORS)
    for executor in executors:
        executor.clear()


class GraphExecutor:
    """Runs a graph. `plans` holds the plans of functions that it calls and that were not inlined.

    `differentiable` is what stands for the graph where gradients are recorded: the call of a function that carries its
    own backward. `recorded` is the tape's, who keeps there what recording plans share.
    """

    def __init__(
        self, graph: Graph, plans: PlanCache | None = None, differentiable: Callable[[], Graph] | None = None
    ) -> None:
        CONSTRUCTED.add()
        self.graph = graph
        self.recorded: Recorder | None = None
        self._differentiable = differentiable
        self._recording_fallback: ExecutionPlan | None = None
        self.signature = Signature([value.type for value in graph.inputs])
        self._callees = PlanCache() if plans is None else plans
        self._entries: dict[ArgumentSpec, Entry] = {}
        self.known: dict[Hashable, Entry] = {}
        self._fallback: ExecutionPlan | None = None
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
        """The outputs, for one bound value per input; no gradients are asked for."""
        if TOUCHED.any and (not OPTIMIZE.get() or PROFILING.get()):
            return self._run_in_mode(values)
        if key is None:
            key = self.signature.key(values)
        entry = self.find(key)
        if entry is None:
            entry = self.entry(self.signature.spec(values), key)
            LAST.plan = entry.plan
        return self.run_entry(entry.plan, values)

    def run_entry(self, plan: ExecutionPlan, values: Sequence[Any]) -> list[Any]:
        """Run an optimised plan; what fails is told in terms of the graph as it was written."""
        try:
            return run_plan(plan, values)
        except RuntimeFailure as failure:
            raise self.explain(failure, values) from failure.__cause__

    def explain(self, failure: RuntimeFailure, values: Sequence[Any]) -> RuntimeFailure:
        """The failure that the fallback plan gives, which knows the calls that led there; else the one at hand."""
        if failure.code == "R103" or not self._may_run_again():
            return failure
        try:
            run_plan(self.fallback(), values)
        except RuntimeFailure as original:
            return original
        return failure

    def _run_in_mode(self, values: Sequence[Any]) -> list[Any]:
        if not OPTIMIZE.get():
            FALLBACKS.add()
            plan = self.fallback()
            LAST.plan = plan
            return run_plan(plan, values)
        key = self.signature.key(values)
        entry = self.find(key) or self.entry(self.signature.spec(values), key)
        plan = self._profiled(entry, values)
        LAST.plan = plan
        return self.run_entry(plan, values)

    def _profiled(self, entry: Entry, values: Sequence[Any]) -> ExecutionPlan:
        """The general plan while runs are recorded, then the specialised one wherever its guard holds."""
        with self._lock:
            profile = entry.profile = entry.profile or Profile()
            if profile.runs < RUNS:
                profile.record(values)
                return entry.plan
            if profile.specialized is None:
                graph = compile_graph(self.graph, entry.spec, settle=profile.settle)
                profile.specialized = plan_with_groups(graph, self._callees)
        return profile.specialized if profile.holds(values) else entry.plan

    # --- plans ---

    def plan_for(self, spec: ArgumentSpec) -> ExecutionPlan:
        """The plan for a spec, compiled if need be: `spec` with gradients is what a tape asks for."""
        entry, is_new = self._find_or_compile(spec)
        if not is_new:
            entry.used = HITS.add()
        return entry.plan

    def fallback(self) -> ExecutionPlan:
        """The plan without optimisation."""
        if self._fallback is None:
            with self._lock:
                if self._fallback is None:
                    self._fallback = plan_with_groups(fallback_graph(self.graph), self._callees)
        return self._fallback

    def recording_fallback(self, record: Callable[[ExecutionPlan], ExecutionPlan]) -> ExecutionPlan:
        """The plan without optimisation as a tape runs it; `record` makes it."""
        FALLBACKS.add()
        with self._lock:
            if self._recording_fallback is None:
                plan = plan_with_groups(fallback_graph(self._source(True)), self._callees)
                self._recording_fallback = record(plan)
            LAST.plan = self._recording_fallback
            return self._recording_fallback

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
            self._recording_fallback = None
            self.recorded = None

    def entry(self, spec: ArgumentSpec, key: Hashable | None) -> Entry:
        """The entry for a spec, compiled if need be, which `find` finds under the key from now on."""
        entry, is_new = self._find_or_compile(spec)
        if not is_new:
            entry.used = HITS.add()
        with self._lock:
            if key is not None and self._entries.get(spec) is entry:
                self.known[key] = entry
        return entry

    def _find_or_compile(self, spec: ArgumentSpec) -> tuple[Entry, bool]:
        """The entry for a spec, and whether it was made just now."""
        debugging = TOUCHED.any and SLICE_EVERYTHING.get()
        with self._lock:
            entry = self._entries.get(spec)
            if entry is not None:
                return entry, False
            graph = compile_graph(self._source(spec.grad_mode), spec, slice_everything=debugging)
            entry = Entry(spec, plan_with_groups(graph, self._callees))
            MISSES.add()
            self._make_room()
            self._entries[spec] = entry
            return entry, True

    def _source(self, grad_mode: bool) -> Graph:
        """The graph that plans are made of."""
        return self._differentiable() if grad_mode and self._differentiable is not None else self.graph

    def _make_room(self) -> None:
        """Drop what was used longest ago."""
        while len(self._entries) >= MAX_PLANS:
            oldest = min(self._entries.values(), key=lambda entry: entry.used)
            del self._entries[oldest.spec]
            for key in [k for k, entry in self.known.items() if entry is oldest]:
                del self.known[key]

    def _may_run_again(self) -> bool:
        """Whether a second run is no more than a repetition: nothing random, no effect but raising."""
        graphs = [self.graph]
        for graph in graphs:
            for node in graph.all_nodes():
                op = OPS.of(node.schema)
                raises = node.kind == "prim::RaiseException"
                if op is not None and not raises and op.has(Trait.SIDE_EFFECT):
                    return False
                callee = graph.functions.get(node.attr("callee")) if node.kind == "prim::CallFunction" else None
                if callee is not None and callee.graph not in graphs:
                    graphs.append(callee.graph)
        return not draws(self.graph)


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
    direct: Callable[..., Any] = np.errstate(all="ignore")(function)
    return direct

"""A function and its gradients on NumPy arrays by kernels in C: differentiated for the shapes at hand.

It has the methods of `Differentiated` that a pullback needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ....compiler.autodiff.flatten import leaves
from ....compiler.autodiff.gradient import residuals_of
from ....compiler.fusion.unasked import open_seeds
from ....compiler.ir.graph import Callee
from ....compiler.link import graphs_of, reachable
from ...execution.compiled import Compiled
from ...execution.differentiated import Differentiated, fitted_gradients
from ...execution.executor import may_run_again
from ...execution.function_executor import FORGETTING
from ...execution.gradients import can_have_gradient
from ..notices import tell_unless_auto
from .graph import TUPLES, kept_open_inputs
from .kept.classes import SizedPlans
from .kept.plans import KeptPlans
from .launched import thread_count
from .layouts import addressable, has_tuples, program_key, without_memory
from .pair import CPair, KeptOpenPair, KeptPair, Pair
from .parts import KeptParts, parts_data
from .program import IN_VAIN

if TYPE_CHECKING:
    from .pair_planning import PairPlanner

MAX_SHAPES = 64
"""Of one function; beyond, the one that came first is forgotten."""
_UNPLANNED: Any = object()


class CDifferentiated:
    """A pair at work on the arguments of one call; `otherwise` gives what stands in where it has no program."""

    seed = staticmethod(Differentiated.seed)
    can_have_gradient = staticmethod(Differentiated.can_have_gradient)

    def __init__(self, pair: Pair, otherwise: Callable[[], Differentiated]) -> None:
        self.pair = pair
        self._otherwise = otherwise
        self._is_over = False

    def run(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs, and what the backward needs of the forward."""
        gradient = self.pair.places
        try:
            results = self.pair.forward.run(addressable(values), thread_count())
        except IN_VAIN:
            # What is wrong, the ops say.
            self._is_over = True
            return self._otherwise().run(values)
        return results[: gradient.num_real_outputs], residuals_of(gradient, values, results)

    def pull_back(self, values: Sequence[Any], seeds: Sequence[Any], residuals: Sequence[Any]) -> list[Any]:
        """One gradient per argument, given one per output."""
        if self._is_over:
            return self._otherwise().pull_back(values, seeds, residuals)
        try:
            found = self._by_kernels(addressable(seeds), residuals)
        except IN_VAIN:
            found = None
        if found is not None:
            return self._whole(values, seeds, found)
        if not may_run_again(self.pair.gradient.f):
            return Differentiated(self.pair.exact_gradient).pull_back(values, seeds, residuals)
        # What is wrong, the ops of the source say best.
        _, residuals = self._otherwise().run(values)
        return self._otherwise().pull_back(values, seeds, residuals)

    def _whole(self, values: Sequence[Any], seeds: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        """One gradient per argument, of those that a backward gives, which knows which ways are taken."""
        gradients = fitted_gradients(self.pair.places.output_vjps, values, found, lambda: self.pair.gradient)
        pairs = enumerate(zip(gradients, values, strict=True))
        missing = [i for i, (gradient, value) in pairs if gradient is None and can_have_gradient(value)]
        if missing and any(seed is not None for seed in seeds):
            return self._otherwise().with_zeros(values, seeds, gradients)
        return gradients

    def gives_all(self, values: Sequence[Any], seeds: Sequence[Any]) -> bool:
        """Whether a backward gives every gradient that there is."""
        given = self.pair.places.output_vjps
        missing = {i for i, value in enumerate(values) if can_have_gradient(value) and i not in given}
        return not missing or missing.isdisjoint(self._otherwise().reached(seeds))

    def _by_kernels(self, seeds: Sequence[Any], residuals: Sequence[Any]) -> list[Any] | None:
        program = self.pair.backward(seeds)
        if program is None:
            return None
        given = [*(seeds[i] for i in self.pair.places.input_vjps), *addressable(residuals)]
        return program.run(given, thread_count())


class CDerivatives:
    """Every pair of a function made so far."""

    def __init__(self, function: Compiled) -> None:
        graph = function.graph
        self._callee = function.callee
        self._types = [value.type for value in graph.inputs]
        text = cache(lambda: _text(self._callee))
        self._kept = KeptPlans("pair", text)
        self._restored: dict[Hashable, Pair | None] = {}
        kept = KeptPlans("classes of pairs", text)
        self._sizes: SizedPlans[Pair] = SizedPlans(kept, KeptOpenPair, self._whole_lists)

    def pair(self, values: Sequence[Any]) -> Pair | None:
        """The pair for arguments of this kind, their tuples taken apart; None where no kernels can be had.

        Where only known floats make a straight line of both passes, it is one for these.
        """
        values = open_seeds(addressable(leaves(values, self._types)), self._open)
        if has_tuples(values):
            tell_unless_auto(self._planner.graph, TUPLES)
            return None
        has_floats = any(isinstance(value, float) for value in values)
        found = self._found(values, settled=False, or_settled=has_floats)
        if isinstance(found, CPair) or not has_floats:
            return found
        settled = self._found(values, settled=True)
        return settled if found is None or isinstance(settled, CPair) else found

    def _found(self, values: Sequence[Any], *, settled: bool, or_settled: bool = False) -> Pair | None:
        """As of a graph: see `CGraph`."""
        key = (settled, program_key(values, settled))
        found = self._restored.get(key, _UNPLANNED)
        if found is not _UNPLANNED:
            return found
        made = self._sizes.get(key)
        if made is None and "_planner" in self.__dict__ and key in self._planner.pairs:
            return self._planner.pairs[key]
        made = made or self._kept_for(values, key, settled)
        if made is not None:
            return made
        if or_settled and isinstance(self._kept_for(values, (True, program_key(values, True)), True), CPair):
            self._restored[key] = None
            return None
        return self._made(values, key, settled=settled)

    def _made(self, values: Sequence[Any], key: Hashable, *, settled: bool) -> Pair | None:
        made = self._planner.plan(values, key, settled)
        if isinstance(made, CPair):
            if made.keep is None:
                made.keep = lambda pair, backward: self._kept.put(key, lambda: pair.data(backward))
        elif made is not None and made.gradient is made.exact_gradient:
            self._kept.put(key, lambda: {"parts": parts_data(made.gradient)})
        return made

    def _kept_for(self, values: Sequence[Any], key: Hashable, settled: bool) -> Pair | None:
        """The pair planned for a class of such values, or kept for them or for a class; None where there is none."""
        sizes = self._sizes
        found = sizes.find(values, key, settled) or self._restore(values, key, settled)
        found = found or sizes.restore(values, key, settled)
        if isinstance(found, KeptPair) and found.plan is None:
            like = without_memory(values)
            found.plan = lambda: self._planned_pair(like, key, settled)
        return found

    def _planned_pair(self, values: Sequence[Any], key: Hashable, settled: bool) -> CPair:
        made = self._planner.exact(values, key, settled)
        assert isinstance(made, CPair)
        return made

    def _restore(self, values: Sequence[Any], key: Hashable, settled: bool) -> Pair | None:
        """The pair that was kept for such values; None where there is none."""
        data = self._kept.get(key)
        if data is None:
            return None
        like = without_memory(values)

        def plan() -> Pair:
            made = self._planner.plan(like, key, settled)
            assert made is not None
            return made

        found = KeptParts(data["parts"], plan) if "parts" in data else KeptOpenPair(data).closed(())
        if found is not None:
            if len(self._restored) >= MAX_SHAPES:
                self._restored.pop(next(iter(self._restored)), None)
            self._restored[key] = found
        return found

    def _whole_lists(self) -> Collection[int]:
        from ....compiler.shapes.open_lists import whole_lists

        return whole_lists(self._planner.graph)

    @cached_property
    def _open(self) -> frozenset[int]:
        """The inputs that are seeds, and numbers like them."""
        return kept_open_inputs(self._types, self._kept, lambda: self._planner.graph)

    @cached_property
    def _planner(self) -> PairPlanner:
        from .pair_planning import PairPlanner

        return PairPlanner(self._callee, self._sizes)


def _text(callee: Callee) -> str:
    """All that the derivatives of a function follow from."""
    graphs = [graph for each in reachable(callee, callee.schema.name) for graph in graphs_of(each)]
    return "\n".join(graph.text(with_spans=True, alone=True) for graph in graphs)


_DERIVATIVES: WeakKeyDictionary[Compiled, CDerivatives] = WeakKeyDictionary()
FORGETTING.add(_DERIVATIVES.clear)


def c_derivatives_of(function: Compiled) -> CDerivatives:
    """The derivatives of a function; they live as long as it does."""
    found = _DERIVATIVES.get(function)
    return found if found is not None else _DERIVATIVES.setdefault(function, CDerivatives(function))

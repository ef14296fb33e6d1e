"""A function and its gradients on NumPy arrays by kernels in C: differentiated for the shapes at hand.

It has the methods of `Differentiated` that a pullback needs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ....compiler.autodiff.flatten import flatten_signature, leaves
from ....compiler.autodiff.gradient import Gradient
from ....compiler.autodiff.wrapper import differentiable_graph
from ....compiler.codegen.c.module import supports
from ....compiler.fusion.fuse import Unfusable, pair_gradient, planned_pair
from ....compiler.fusion.refusals import Unsettled
from ....compiler.fusion.seeds import open_inputs, open_seeds
from ....compiler.kernel_ir.layout import Layout
from ....compiler.scheduling.cpu import split_for_cpu
from ....compiler.shapes.propagate import ShapeError
from ....compiler.specialize.optionals import specialize_optionals
from ....compiler.types.sizes import Symbols
from ....lang.collection import collection_paused
from ...execution.compilation import prepare_on_device
from ...execution.compiled import Compiled
from ...execution.differentiated import Differentiated, fitted_gradients
from ...execution.executor import may_run_again
from ...execution.function_executor import FORGETTING
from ...execution.gradients import is_floating
from ..notices import tell_of_ops
from ..size_classes import ClosedPlans, SizeClasses
from .graph import TUPLES, addressable, described, has_compiler, has_tuples, loaded
from .kernel import thread_count
from .layouts import layout_of, seen_array
from .pairs import PLANNING, ClosedPair, ClosedParts, CPair, CParts, OpenPair, OpenParts, Pair
from .program import IN_VAIN, CProgram

MAX_SHAPES = 64
"""Of one function; beyond, the one that came first is forgotten."""


def _has_gradient(known: Any) -> bool:
    """Whether what is known of an argument says that it may have a gradient."""
    if isinstance(known, list):
        return any(map(_has_gradient, known))
    return isinstance(known, Layout) and known.dtype.is_floating


def residuals_of(gradient: Gradient, values: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """What a backward takes of the arguments and results of its forward."""
    return [*(values[i] for i in gradient.captured_inputs), *(results[i] for i in gradient.captured_outputs)]


class CDifferentiated:
    """A pair at work on the arguments of one call; `otherwise` gives what stands in where it has no program."""

    seed = staticmethod(Differentiated.seed)
    is_floating = staticmethod(Differentiated.is_floating)

    def __init__(self, pair: Pair, otherwise: Callable[[], Differentiated]) -> None:
        self.pair = pair
        self._otherwise = otherwise
        self._is_over = False

    def run(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs, and what the backward needs of the forward."""
        gradient = self.pair.gradient
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
            return fitted_gradients(self.pair.gradient, values, found)
        if not may_run_again(self.pair.gradient.f):
            return Differentiated(self.pair.exact_gradient).pull_back(values, seeds, residuals)
        # What is wrong, the ops of the source say best.
        _, residuals = self._otherwise().run(values)
        return self._otherwise().pull_back(values, seeds, residuals)

    def _by_kernels(self, seeds: Sequence[Any], residuals: Sequence[Any]) -> list[Any] | None:
        program = self.pair.backward(seeds)
        if program is None:
            return None
        given = [*(seeds[i] for i in self.pair.gradient.input_vjps), *addressable(residuals)]
        return program.run(given, thread_count())


class CDerivatives:
    """Every pair of a function made so far."""

    def __init__(self, function: Compiled) -> None:
        graph = differentiable_graph(function.callee).copy()
        prepare_on_device(graph)
        self._types = [value.type for value in graph.inputs]
        self._graph = flatten_signature(graph)
        self._open = open_inputs(self._graph)
        self._pairs: dict[Hashable, Pair | None] = {}
        self._closed: ClosedPlans[ClosedPair | ClosedParts] = ClosedPlans()
        self._classes: SizeClasses[OpenPair | OpenParts] = SizeClasses(seen_array)

    def pair(self, values: Sequence[Any]) -> Pair | None:
        """The pair for arguments of this kind, their tuples taken apart; None where no kernels can be had.

        Where only known floats make a straight line of both passes, it is one for these.
        """
        values = open_seeds(addressable(leaves(values, self._types)), self._open)
        if has_tuples(values):
            tell_of_ops(self._graph, TUPLES)
            return None
        found = self._kept(values, settled=False)
        if isinstance(found, CPair) or not any(isinstance(value, float) for value in values):
            return found
        settled = self._kept(values, settled=True)
        return settled if found is None or isinstance(settled, CPair) else found

    def _kept(self, values: Sequence[Any], *, settled: bool) -> Pair | None:
        key = (settled, described(values, settled))
        found = self._closed.get(key)
        if found is not None:
            return found
        if key not in self._pairs and not self._closed.close(key, self._classes.find(values, settled)):
            with PLANNING, collection_paused():
                found = self._closed.close(key, self._classes.plan(values, settled, self._open_pair(settled)))
                if found is not None:
                    return found
                if len(self._pairs) >= MAX_SHAPES:
                    del self._pairs[next(iter(self._pairs))]
                self._pairs.setdefault(key, self._made(values, settled))
        return self._closed.get(key) or self._pairs[key]

    def _open_pair(self, settled: bool) -> Callable[[Sequence[Any], Symbols], OpenPair | OpenParts]:
        def plan(given: Sequence[Any], symbols: Symbols) -> OpenPair | OpenParts:
            absent = tuple([i for i, value in enumerate(given) if value is None])
            wanted = [_has_gradient(known) for known in given]
            gradient = pair_gradient(specialize_optionals(self._graph, absent), given, wanted)
            try:
                return OpenPair(planned_pair(gradient, given, supports, split_for_cpu), symbols, settled=settled)
            except Unsettled:
                raise
            except Unfusable:
                return OpenParts(gradient)

        return plan

    def _made(self, values: Sequence[Any], settled: bool) -> Pair | None:
        absent = tuple([i for i, value in enumerate(values) if value is None])
        graph = specialize_optionals(self._graph, absent)
        wanted = [is_floating(value) for value in values]
        if not any(wanted):
            return None
        given = [layout_of(value, settled) for value in values]
        try:
            gradient = pair_gradient(graph, given, wanted)
            pair = planned_pair(gradient, given, supports, split_for_cpu)
            pair.backward(pair.usual_seeds())
        except (ShapeError, Unsettled):
            return None
        except Unfusable:
            return CParts(gradient) if has_compiler() else None
        forward = loaded(lambda: CProgram(pair.forward), lambda refusal: tell_of_ops(gradient.f, refusal))
        return None if forward is None else CPair(pair, forward, settled=settled)


_DERIVATIVES: WeakKeyDictionary[Compiled, CDerivatives] = WeakKeyDictionary()
FORGETTING.add(_DERIVATIVES.clear)


def c_derivatives_of(function: Compiled) -> CDerivatives:
    """The derivatives of a function; they live as long as it does."""
    found = _DERIVATIVES.get(function)
    return found if found is not None else _DERIVATIVES.setdefault(function, CDerivatives(function))

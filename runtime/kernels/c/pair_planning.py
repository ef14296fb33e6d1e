"""What plans both passes of a function for kernels in C: differentiated for the shapes at hand, or for open ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ....compiler.autodiff.differentiable import differentiable_graph
from ....compiler.autodiff.flatten import flatten_signature
from ....compiler.codegen.c.module import supports
from ....compiler.fusion.fuse import Unfusable, pair_gradient, planned_pair
from ....compiler.fusion.refusals import Unsettled
from ....compiler.ir.graph import Callee
from ....compiler.scheduling.cpu import split_for_cpu
from ....compiler.shapes.propagate import ShapeError
from ....compiler.specialize.optionals import specialize_optionals
from ....compiler.types.open_sizes import Symbols
from ....lang.collection import collection_paused
from ...execution.compilation import prepare_on_device
from ...execution.gradients import can_have_gradient
from ..notices import tell_unless_auto
from .compiler import has_compiler
from .kept.classes import SizedPlans
from .layouts import layout_of
from .loading import loaded
from .pair import PLANNING, Pair
from .pairs import CParts, OpenPair, OpenParts, built_pair

MAX_SHAPES = 64
"""Of one function; beyond, the one that came first is forgotten."""


class PairPlanner:
    """Every pair of a function planned so far: `pairs` are those for given sizes, None of what has no kernels; `sizes`
    has those for classes."""

    def __init__(self, callee: Callee, sizes: SizedPlans[Pair]) -> None:
        graph = differentiable_graph(callee).copy()
        prepare_on_device(graph)
        self.graph = flatten_signature(graph)
        self.pairs: dict[Hashable, Pair | None] = {}
        self._sizes = sizes

    def plan(self, values: Sequence[Any], key: Hashable, settled: bool) -> Pair | None:
        """The pair for such values, planned where none is yet; None where no kernels can be had."""
        with PLANNING, collection_paused():
            if key in self.pairs:
                return self.pairs[key]
            found = self._sizes.plan(values, key, settled, self._open_pair(values, settled))
            return self.exact(values, key, settled) if found is None else found

    def exact(self, values: Sequence[Any], key: Hashable, settled: bool) -> Pair | None:
        """The pair for these very sizes, of no class."""
        with PLANNING, collection_paused():
            if key not in self.pairs:
                if len(self.pairs) >= MAX_SHAPES:
                    del self.pairs[next(iter(self.pairs))]
                self.pairs[key] = self._made(values, settled)
            return self.pairs[key]

    def _open_pair(
        self, values: Sequence[Any], settled: bool
    ) -> Callable[[Sequence[Any], Symbols], OpenPair | OpenParts]:
        # Of a list of tensors that are not alike nothing is known but what the values say, here as in every such call.
        wanted = [can_have_gradient(value) for value in values]

        def plan(given: Sequence[Any], symbols: Symbols) -> OpenPair | OpenParts:
            absent = tuple([i for i, value in enumerate(given) if value is None])
            gradient = pair_gradient(specialize_optionals(self.graph, absent), given, wanted)
            try:
                return OpenPair(planned_pair(gradient, given, supports, split_for_cpu), symbols, settled=settled)
            except Unsettled:
                raise
            except Unfusable:
                return OpenParts(gradient)

        return plan

    def _made(self, values: Sequence[Any], settled: bool) -> Pair | None:
        absent = tuple([i for i, value in enumerate(values) if value is None])
        graph = specialize_optionals(self.graph, absent)
        wanted = [can_have_gradient(value) for value in values]
        if not any(wanted):
            return None
        given = [layout_of(value, settled) for value in values]
        try:
            gradient = pair_gradient(graph, given, wanted)
            pair = planned_pair(gradient, given, supports, split_for_cpu)
            usual = pair.backward(pair.usual_seeds())
        except (ShapeError, Unsettled):
            return None
        except Unfusable:
            return CParts(gradient) if has_compiler() else None
        return loaded(
            lambda: built_pair(pair, usual, settled=settled), lambda refusal: tell_unless_auto(gradient.f, refusal)
        )

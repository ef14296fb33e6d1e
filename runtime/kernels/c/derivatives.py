"""A function and its gradients on NumPy arrays by kernels in C: differentiated for the shapes at hand.

It has the methods of `Differentiated` that a pullback needs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from threading import RLock
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from ....compiler.autodiff.flatten import flatten_signature, leaves
from ....compiler.autodiff.gradient import Gradient
from ....compiler.autodiff.wrapper import differentiable_graph
from ....compiler.codegen.c.module import supports
from ....compiler.fusion.fuse import FusedPair, Unfusable, closed_gradient, pair_gradient, planned_pair
from ....compiler.fusion.refusals import Unsettled
from ....compiler.fusion.seeds import open_inputs, open_seeds
from ....compiler.ir.graph import Graph
from ....compiler.kernel_ir.layout import Layout
from ....compiler.ops.arrays import numpy_dtype
from ....compiler.ops.meta import UNKNOWN
from ....compiler.scheduling.cpu import split_for_cpu
from ....compiler.shapes.propagate import ShapeError
from ....compiler.specialize.close import take_open_sizes
from ....compiler.specialize.optionals import specialize_optionals
from ....compiler.types.sizes import Guards, Symbols, closed, values_of_atoms
from ....lang.collection import collection_paused
from ...execution.compilation import prepare_on_device
from ...execution.compiled import Compiled
from ...execution.differentiated import Differentiated, fitted_gradients
from ...execution.executor import may_run_again
from ...execution.function_executor import FORGETTING
from ...execution.gradients import is_floating
from ...failures.failure import RuntimeFailure
from ..notices import tell_of_ops
from .graph import TUPLES, CGraph, addressable, described, has_compiler, has_tuples, loaded
from .kernel import thread_count
from .program import IN_VAIN, CProgram, OutOfRange
from .size_classes import MAX_CLOSED, SizeClasses, layout_of

MAX_SHAPES = 64
"""Of one function; beyond, the one that came first is forgotten."""
MAX_KINDS = 16
"""Of gradients, for which a backward is planned with open sizes."""
_PLANNING = RLock()


class Pair(Protocol):
    """Both passes for arguments of given layouts."""

    @property
    def gradient(self) -> Gradient:
        """What they compute; sizes in it may be open."""

    @property
    def exact_gradient(self) -> Gradient:
        """The same for the sizes at hand, to be run by ops."""

    @property
    def forward(self) -> Run:
        """What gives the results of `gradient.f`."""

    def backward(self, seeds: Sequence[Any]) -> Run | None:
        """What gives the gradients, for one per output; None where there are no kernels for these."""


class Run(Protocol):
    """One pass."""

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """The results, for one value per input. Raises: what is IN_VAIN."""


class CPair:
    """Both passes as straight lines: the forward, and a backward for each kind of gradients.

    `settled` says that it is for the very floats that it was planned for.
    """

    def __init__(self, pair: FusedPair, forward: CProgram, *, settled: bool) -> None:
        self.gradient = pair.gradient
        self.settled = settled
        self.forward = forward
        self._exact_pair = pair
        self._backward: dict[Hashable, CProgram | None] = {}

    @property
    def exact_gradient(self) -> Gradient:
        """The gradient for the sizes at hand, to be run by ops."""
        return self.gradient

    def usual_seeds(self) -> list[Any]:
        """Arrays like those that gradients of the outputs usually are; None for an output that has no gradient."""
        return _like(self._fused().usual_seeds())

    def _fused(self) -> FusedPair:
        """What both passes are planned from, for the sizes at hand."""
        return self._exact_pair

    def backward(self, seeds: Sequence[Any]) -> CProgram | None:
        """The program of the gradients, for one per output; None where none can be made."""
        key = described(seeds, True)
        if key not in self._backward:
            with _PLANNING, collection_paused():
                if key not in self._backward:
                    self._backward[key] = self._made(seeds)
        return self._backward[key]

    def _made(self, seeds: Sequence[Any]) -> CProgram | None:
        given = [None if seed is None else layout_of(seed, True) for seed in seeds]
        return loaded(lambda: CProgram(self._fused().backward(given)), self._refused)

    def _refused(self, refusal: Exception) -> None:
        tell_of_ops(self.gradient.df, refusal)


class ClosedPair(CPair):
    """A pair for sizes that were put in the place of open ones."""

    def __init__(self, pair: OpenPair, atoms: Sequence[int]) -> None:
        self.gradient = pair.pair.gradient
        self.settled = pair.settled
        self.forward = pair.forward.closed(atoms)
        self._open = pair
        self._atoms = atoms
        self._backward = {}

    def _fused(self) -> FusedPair:
        return self._closed

    @cached_property
    def _closed(self) -> FusedPair:
        return self._open.pair.closed(self._atoms)

    @property
    def exact_gradient(self) -> Gradient:
        return self._closed.gradient

    def usual_seeds(self) -> list[Any]:
        return _like([seed and seed.closed(self._atoms) for seed in self._open.pair.usual_seeds()])

    def _made(self, seeds: Sequence[Any]) -> CProgram | None:
        found = self._open.backward(seeds, self._atoms)
        return super()._made(seeds) if found is None else found


class OpenPair:
    """Both passes for open sizes: the forward, and the backward for each kind of gradients that was met."""

    def __init__(self, pair: FusedPair, symbols: Symbols, *, settled: bool) -> None:
        self.pair = pair
        self.settled = settled
        self.forward = CProgram(pair.forward, symbols)
        self._symbols = symbols
        self._usual = pair.usual_seeds()
        self._backwards: list[tuple[list[Any], Guards | None, CProgram]] = []
        self._backwards.append((self._usual, None, CProgram(pair.backward(self._usual), symbols)))
        self._guards = symbols.noted

    def closed(self, atoms: Sequence[int]) -> ClosedPair:
        """The pair for given sizes."""
        return ClosedPair(self, atoms)

    def backward(self, seeds: Sequence[Any], atoms: Sequence[int]) -> CProgram | None:
        """The program of the gradients for given sizes; None where there is none for open ones."""
        wanted = [self._opened(*pair, atoms) for pair in zip(seeds, self._usual, strict=True)]
        given = atoms[: self._symbols.count]
        for found, guards, program in self._backwards:
            if found == wanted:
                atoms = values_of_atoms(self._symbols, given)
                if guards is None or guards.hold(atoms):
                    return program.closed(atoms)
        if UNKNOWN in wanted or len(self._backwards) >= MAX_KINDS:
            return None
        with self._symbols.for_others(given, self._guards):
            try:
                program = CProgram(self.pair.backward(wanted), self._symbols)
            except Exception:
                # Whatever was in the way, the program for the sizes as they are tells.
                return None
            self._backwards.append((wanted, self._symbols.noted, program))
        return program.closed(values_of_atoms(self._symbols, given))

    def _opened(self, seed: Any, usual: Layout | None, atoms: Sequence[int]) -> Any:
        """A gradient in terms of open sizes: of elements in order, or the same along some dimensions; else UNKNOWN."""
        if seed is None:
            return None
        if usual is None or not isinstance(seed, np.ndarray):
            return UNKNOWN
        found, plain = layout_of(seed, True), usual.closed(atoms)
        if (found.shape, found.dtype) != (plain.shape, plain.dtype):
            return UNKNOWN
        strides = zip(found.strides, plain.strides, usual.strides, found.shape, strict=True)
        opened = []
        for own, other, stride, size in strides:
            if size > 1 and own not in (0, other):
                return UNKNOWN
            opened.append(0 if size > 1 and own == 0 else stride)
        return Layout(usual.shape, usual.dtype, tuple(opened))


class CParts:
    """Both passes as plans, of which kernels run the straight stretches."""

    def __init__(self, gradient: Gradient) -> None:
        self.gradient = gradient
        self.forward = _Pass(CGraph(gradient.f), gradient.f)
        self._backward = _Pass(CGraph(gradient.df), gradient.f)

    @property
    def exact_gradient(self) -> Gradient:
        """The gradient."""
        return self.gradient

    def backward(self, seeds: Sequence[Any]) -> _Pass:
        """What gives the gradients, whichever are there."""
        return self._backward


class OpenParts:
    """Both passes as plans that take what follows from open sizes."""

    def __init__(self, gradient: Gradient) -> None:
        self.gradient = gradient
        forward, self.taken = take_open_sizes(gradient.f)
        backward, self.taken_back = take_open_sizes(gradient.df)
        self.forward, self.backward = CGraph(forward), CGraph(backward)

    def closed(self, atoms: Sequence[int]) -> ClosedParts:
        """For given sizes."""
        return ClosedParts(self, atoms)


class ClosedParts(CParts):
    """Parts for sizes that were put in the place of open ones."""

    def __init__(self, parts: OpenParts, atoms: Sequence[int]) -> None:
        self.gradient = parts.gradient
        self._atoms = atoms
        self.forward = _Pass(parts.forward, self.gradient.f, closed(parts.taken, atoms))
        self._backward = _Pass(parts.backward, self.gradient.f, closed(parts.taken_back, atoms))

    @cached_property
    def _exact(self) -> Gradient:
        return closed_gradient(self.gradient, self._atoms)

    @property
    def exact_gradient(self) -> Gradient:
        return self._exact


class _Pass:
    """One pass, planned for what it meets. What fails is told by a second run, where the `forward` may have one.

    `taken` are further inputs of its graph.
    """

    def __init__(self, graph: CGraph, forward: Graph, taken: Sequence[Any] = ()) -> None:
        self._graph = graph
        self._forward = forward
        self._taken = taken

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """The results. What is wrong with the data, the function's own ops are to say."""
        try:
            results = self._graph.run([*values, *self._taken])
        except RuntimeFailure as failure:
            if not may_run_again(self._forward):
                raise
            raise OutOfRange from failure
        if results is None:
            raise OutOfRange
        return results


def _has_gradient(known: Any) -> bool:
    """Whether what is known of an argument says that it may have a gradient."""
    if isinstance(known, list):
        return any(map(_has_gradient, known))
    return isinstance(known, Layout) and known.dtype.is_floating


def _like(layouts: Sequence[Any]) -> list[Any]:
    """An array like each layout of floats; None for anything else."""
    return [
        np.empty(layout.shape, numpy_dtype(layout.dtype))
        if isinstance(layout, Layout) and layout.dtype.is_floating
        else None
        for layout in layouts
    ]


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
        self._closed: dict[Hashable, ClosedPair | ClosedParts] = {}
        self._classes: SizeClasses[OpenPair | OpenParts] = SizeClasses()

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
        if key not in self._pairs and not self._close(key, self._classes.find(values, settled)):
            with _PLANNING, collection_paused():
                found = self._close(key, self._classes.plan(values, settled, self._open_pair(settled)))
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

    def _close(
        self, key: Hashable, found: tuple[OpenPair | OpenParts, list[int]] | None
    ) -> ClosedPair | ClosedParts | None:
        """Keep the pair for the sizes at hand, where there is one for open sizes."""
        if found is None:
            return None
        if len(self._closed) >= MAX_CLOSED:
            self._closed.pop(next(iter(self._closed)), None)
        pair, atoms = found
        return self._closed.setdefault(key, pair.closed(atoms))

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


__all__ = ["CDerivatives", "CDifferentiated", "CPair", "CParts", "Pair", "c_derivatives_of"]

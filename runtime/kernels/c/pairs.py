"""Both passes of a function by kernels in C: as straight lines or as plans, for given sizes or for open ones.

PlannedPair, CParts      for the sizes at hand
OpenPair, OpenParts      for a class of sizes; `closed` gives, for sizes of it, a
ClosedPair, ClosedParts  which are the first two again
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ....compiler.autodiff.gradient import Gradient
from ....compiler.codegen.text import Unsupported
from ....compiler.fusion.fuse import FusedPair, closed_gradient
from ....compiler.fusion.in_place import UNREAD, StillUsed, donating
from ....compiler.fusion.program import Program
from ....compiler.kernel_ir.layout import Layout
from ....compiler.ops.arrays import numpy_dtype
from ....compiler.ops.meta import UNKNOWN
from ....compiler.specialize.close import take_open_sizes
from ....compiler.types.guards import Guards, values_of_atoms
from ....compiler.types.open_sizes import Symbols, closed
from ....lang.collection import collection_paused
from ..failure import KernelFailure
from ..notices import tell_unless_auto
from ..size_classes import REFUSALS
from .graph import CGraph
from .kept.plans import JsonValue, Unkept
from .layouts import layout_of, program_key
from .loading import loaded
from .pair import PLANNING, CPair, pair_data, widths_of_graphs
from .parts import PassInParts
from .planned import PlannedProgram, atoms_at_hand, built_together, written_program
from .program import CProgram

MAX_KINDS = 16
"""Of gradients, for which a backward is planned with open sizes."""


class PlannedPair(CPair):
    """Both passes as straight lines, planned in this process."""

    def __init__(
        self, pair: FusedPair, forward: CProgram, usual: PlannedProgram | None = None, *, settled: bool
    ) -> None:
        gradient = pair.gradient
        super().__init__(gradient, widths_of_graphs(gradient.f, gradient.df), settled=settled)
        self._gradient = gradient
        self._forward = forward
        self._exact_pair = pair
        self._usual = usual

    @property
    def forward(self) -> CProgram:
        return self._forward

    @property
    def planned(self) -> PlannedPair:
        return self

    @property
    def gradient(self) -> Gradient:
        return self._gradient

    @property
    def exact_gradient(self) -> Gradient:
        return self._gradient

    def usual_seeds(self) -> list[Any]:
        return _like(self._fused().usual_seeds())

    def _fused(self) -> FusedPair:
        """What both passes are planned from, for the sizes at hand."""
        return self._exact_pair

    def data(self, backward: CProgram) -> JsonValue:
        if not isinstance(self._forward, PlannedProgram) or not isinstance(backward, PlannedProgram):
            raise Unkept
        return pair_data(self, self._forward.open, backward.open, _shapes(self._fused().usual_seeds()))

    def donating(self, seeds: Sequence[Any], donated: Sequence[int]) -> CProgram | None:
        key = (tuple(donated), program_key(seeds, True))
        if key not in self._backward:
            with PLANNING, collection_paused():
                if key not in self._backward:
                    self._backward[key] = loaded(lambda: self._donating(seeds, donated), self._refused)
        return self._backward[key]

    def _donating(self, seeds: Sequence[Any], donated: Sequence[int]) -> CProgram:
        gradient = self.gradient
        places: dict[int, int] = {}
        for i in donated:
            if i not in gradient.captured_inputs:
                raise StillUsed(UNREAD)
            places[len(gradient.input_vjps) + gradient.captured_inputs.index(i)] = gradient.output_vjps.index(i)
        given = [None if seed is None else layout_of(seed, True) for seed in seeds]
        return PlannedProgram(donating(self._fused().backward(given), places))

    def _made(self, seeds: Sequence[Any]) -> CProgram | None:
        if self._usual is not None and program_key(seeds, True) == program_key(self.usual_seeds(), True):
            return self._usual
        given = [None if seed is None else layout_of(seed, True) for seed in seeds]
        return loaded(lambda: PlannedProgram(self._fused().backward(given)), self._refused)

    def _refused(self, refusal: Exception) -> None:
        tell_unless_auto(self.gradient.df, refusal)


def built_pair(pair: FusedPair, usual: Program, *, settled: bool) -> PlannedPair:
    """A pair, with its backward for the gradients that are usual: two compilers at once. Raises: KernelFailure,
    Unsupported."""
    forward = written_program(pair.forward)
    try:
        programs = built_together([forward, written_program(usual)])
    except (KernelFailure, Unsupported):
        # Why there is no backward is told where one is asked for.
        programs = [PlannedProgram(forward)]
    return PlannedPair(pair, *programs, settled=settled)


class ClosedPair(PlannedPair):
    """A pair for sizes that were put in the place of open ones."""

    def __init__(self, pair: OpenPair, atoms: Sequence[int]) -> None:
        super().__init__(pair.pair, pair.forward.closed(atoms), settled=pair.settled)
        self._open = pair
        self._atoms = atoms

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
        self._symbols = symbols
        self._usual = pair.usual_seeds()
        forward = written_program(pair.forward, symbols)
        backward = written_program(pair.backward(self._usual), symbols)
        self.forward, usual = built_together([forward, backward], symbols)
        self._backwards: list[tuple[list[Any], Guards | None, PlannedProgram]] = [(self._usual, None, usual)]
        self._guards = symbols.noted

    def closed(self, atoms: Sequence[int]) -> ClosedPair:
        """The pair for given sizes."""
        return ClosedPair(self, atoms)

    def data(self) -> JsonValue:
        """What keeps it, with its backward for the usual gradients. Raises: Unkept."""
        (_, _, usual), *_ = self._backwards
        pair = self.closed(atoms_at_hand(self._symbols))
        return pair_data(pair, self.forward.open, usual.open, _shapes(self._usual))

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
                program = PlannedProgram(self.pair.backward(wanted), self._symbols)
            except REFUSALS:
                # The program for the sizes as they are tells.
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
        self.forward = PassInParts(CGraph(gradient.f), lambda: gradient.f)
        self._backward = PassInParts(CGraph(gradient.df), lambda: gradient.f)

    @property
    def places(self) -> Gradient:
        """The gradient."""
        return self.gradient

    @property
    def exact_gradient(self) -> Gradient:
        """The gradient."""
        return self.gradient

    def backward(self, seeds: Sequence[Any]) -> PassInParts:
        """What gives the gradients, whichever are there."""
        return self._backward


class OpenParts:
    """Both passes as plans that take what follows from open sizes."""

    def __init__(self, gradient: Gradient) -> None:
        self.gradient = gradient
        forward, self.taken = take_open_sizes(gradient.f)
        backward, self.taken_back = take_open_sizes(gradient.df)
        self.forward, self.backward = CGraph(forward), CGraph(backward)

    def data(self) -> JsonValue:
        """What keeps it. Raises: Unkept."""
        raise Unkept

    def closed(self, atoms: Sequence[int]) -> ClosedParts:
        """For given sizes."""
        return ClosedParts(self, atoms)


class ClosedParts(CParts):
    """Parts for sizes that were put in the place of open ones."""

    def __init__(self, parts: OpenParts, atoms: Sequence[int]) -> None:
        gradient = self.gradient = parts.gradient
        self._atoms = atoms
        self.forward = PassInParts(parts.forward, lambda: gradient.f, closed(parts.taken, atoms))
        self._backward = PassInParts(parts.backward, lambda: gradient.f, closed(parts.taken_back, atoms))

    @cached_property
    def _exact(self) -> Gradient:
        return closed_gradient(self.gradient, self._atoms)

    @property
    def exact_gradient(self) -> Gradient:
        return self._exact


def _shapes(layouts: Sequence[Any]) -> list[tuple[tuple[int, ...], str] | None]:
    """Shape and dtype of what `_like` gives for each layout."""
    return [
        (layout.shape, layout.dtype.name) if isinstance(layout, Layout) and layout.dtype.is_floating else None
        for layout in layouts
    ]


def _like(layouts: Sequence[Any]) -> list[Any]:
    """An array like each layout of floats; None for anything else."""
    return [
        np.empty(layout.shape, numpy_dtype(layout.dtype))
        if isinstance(layout, Layout) and layout.dtype.is_floating
        else None
        for layout in layouts
    ]

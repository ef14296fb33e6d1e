"""Programs for a device with kernels: differentiated for the shapes at hand, with as little saved as pays.

What a node keeps is decided by what kernels can compute again for nothing, and that follows from shapes. So a program
becomes one for each combination of them, with a Gradient of its own; its backward is such a program in turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch

from ...compiler.analysis.draws import runs_any
from ...compiler.autodiff import Gradient
from ...compiler.fusion.fuse import Unfusable, kernel_gradient
from ...compiler.fusion.seeds import open_inputs
from ...compiler.fusion.unasked import float_key, is_unasked, open_seeds
from ...compiler.ir.graph import Graph
from ...compiler.ops.registry import Trait
from ...compiler.shapes.open_lists import whole_lists
from ...compiler.shapes.propagate import ShapeError
from ...compiler.specialize.optionals import specialize_optionals
from ...lang.collection import collection_paused
from ...lang.diagnostics import CompileError
from ..execution.compilation import prepare_on_device
from ..execution.differentiated import CompiledGraph, Differentiated, PatternKey
from ..kernels.runner import given
from ..kernels.size_classes import SeenTensor, SizeClasses
from ..kernels.size_families import ClosedPlans
from ..values.torch_dtypes import dtypes_of_torch
from .second_derivatives import SecondPullback
from .sized import ClassGradient, SizedDifferentiated

_DTYPE_OF = dtypes_of_torch()

MAX_SHAPES = 64
"""Of one program; beyond, the one that came first is forgotten."""
_MAKING = RLock()


class _Unsettled(Exception):
    """What would be computed depends on elements, or on floats that are not given."""


class Pullbacks:
    """What second derivatives of a program are made of, where it is differentiated once: for any sizes."""

    def __init__(self, program: CompiledGraph) -> None:
        self._of = partial(SecondPullback, program.graph, program.name, whole=program.whole)
        self._found: dict[PatternKey, SecondPullback] = {}

    def of(self, key: PatternKey) -> SecondPullback:
        """For one kind of call."""
        found = self._found.get(key)
        return found if found is not None else self._found.setdefault(key, self._of(key=key))


class KernelProgram(CompiledGraph):
    """A program for arguments of given layouts."""

    def __init__(self, program: CompiledGraph, arguments: Sequence[Any], pullbacks: Pullbacks) -> None:
        super().__init__(program.graph, program.name, whole=program.whole)
        self._arguments = arguments
        self._pullbacks = pullbacks
        self._unsettled: set[PatternKey] = set()

    def settles(self, key: PatternKey) -> bool:
        """Whether what is known of the arguments is enough to differentiate it."""
        if key in self._unsettled:
            return False
        try:
            self.differentiate(key)
        except _Unsettled:
            self._unsettled.add(key)
            return False
        return True

    def _compiled(self, key: PatternKey) -> Differentiated | CompileError:
        try:
            gradient, repeats = _gradient_for(self, self._arguments, key)
        except (Unfusable, ShapeError) as error:
            raise _Unsettled from error
        except CompileError as error:
            return error
        found = Differentiated(gradient, self.name)
        if not repeats:
            found.pullback = self._pullbacks.of(key)
        return found


class ClassProgram:
    """A program differentiated for a class of sizes."""

    def __init__(self, program: CompiledGraph, key: PatternKey, arguments: Sequence[Any], pullbacks: Pullbacks) -> None:
        gradient, repeats = _gradient_for(program, arguments, key)
        self._pullback = None if repeats else pullbacks.of(key)
        self._of_class = ClassGradient(gradient, program.name)
        # No more of the program than this: what is known of it goes with it.
        self._graph, self._name, self._whole = program.graph, program.name, program.whole

    def closed(self, atoms: Sequence[int]) -> SizedProgram:
        """The program for sizes at which atoms have these values."""
        found: Differentiated = SizedDifferentiated(self._of_class, atoms)
        found.pullback = self._pullback
        return SizedProgram(self._graph, self._name, found, whole=self._whole)


class SizedProgram(CompiledGraph):
    """A program for given sizes, differentiated for the one kind of call that its class is for."""

    def __init__(self, graph: Graph, name: str, found: Differentiated, *, whole: bool) -> None:
        super().__init__(graph, name, whole=whole)
        self._found = found

    def differentiate(self, key: PatternKey) -> Differentiated:
        """What it was made of."""
        return self._found


class KernelPrograms:
    """What one program has become."""

    def __init__(self, program: CompiledGraph) -> None:
        self.open = open_inputs(program.graph)
        self._pullbacks = Pullbacks(program)
        self._exact: dict[Hashable, KernelProgram] = {}
        self._sized: ClosedPlans[SizedProgram] = ClosedPlans()
        self._classes: dict[PatternKey, SizeClasses[ClassProgram]] = {}

    def find(
        self, program: CompiledGraph, values: Sequence[Any], settled: bool, key: PatternKey
    ) -> CompiledGraph | None:
        """The program for values of these shapes, to be differentiated for a key; None where that cannot be."""
        described = (settled, *[_key(value, settled) for value in values])
        found = self._sized.get((key, described))
        if found is not None:
            return found
        exact = self._exact.get(described)
        if exact is not None:
            return exact if exact.settles(key) else None
        with _MAKING:
            return self._made(program, values, settled, key, described)

    def _made(
        self, program: CompiledGraph, values: Sequence[Any], settled: bool, key: PatternKey, described: Hashable
    ) -> CompiledGraph | None:
        found = self._of_class(program, values, settled, key, described)
        if found is not None:
            return found
        if described not in self._exact:
            if len(self._exact) >= MAX_SHAPES:
                del self._exact[next(iter(self._exact))]
            known = [given(_without_elements(value), settled) for value in values]
            self._exact[described] = KernelProgram(program, known, self._pullbacks)
        exact = self._exact[described]
        return exact if exact.settles(key) else None

    def _of_class(
        self, program: CompiledGraph, values: Sequence[Any], settled: bool, key: PatternKey, described: Hashable
    ) -> SizedProgram | None:
        """The program by one for a class of sizes, where there is one."""
        classes = self._classes.setdefault(key, SizeClasses(_seen, lambda: whole_lists(program.graph)))
        with collection_paused():
            found = classes.find(values, settled) or classes.plan(
                values, settled, lambda known, symbols: ClassProgram(program, key, known, self._pullbacks)
            )
        return self._sized.close((key, described), found)


_PROGRAMS: WeakKeyDictionary[CompiledGraph, KernelPrograms] = WeakKeyDictionary()


def kernel_program(
    program: CompiledGraph, values: Sequence[Any], key: PatternKey, *, any_floats: bool = False
) -> CompiledGraph:
    """The program for values of these shapes, to be differentiated for a key: of any floats where that can be, and with
    `any_floats` only so.

    Where control flow depends on elements, the program itself: it runs op by op, and what is wrong with the data comes
    up where it runs.
    """
    programs = _PROGRAMS.get(program)
    if programs is None:
        programs = _PROGRAMS.setdefault(program, KernelPrograms(program))
    values = open_seeds(values, programs.open)
    if any_floats and any(map(_is_asked, values)):
        return program
    for settled in (False,) if any_floats else (False, True):
        if settled and not any(isinstance(value, float) for value in values):
            break
        found = programs.find(program, values, settled, key)
        if found is not None:
            return found
    return program


def _gradient_for(program: CompiledGraph, arguments: Sequence[Any], key: PatternKey) -> tuple[Gradient, bool]:
    """The gradient for what is known of arguments, and whether it is to be differentiated in turn.

    Raises: Unfusable, ShapeError; CompileError (E408).
    """
    absent = [i for i, wanted in enumerate(key) if wanted is None]
    graph, wanted = specialize_optionals(program.graph, absent), [bool(wanted) for wanted in key]
    if program.whole:
        prepare_on_device(graph)
    # Computed once more, these would draw other numbers, or print once more.
    or_once = not runs_any(graph, Trait.RANDOM | Trait.SIDE_EFFECT)
    with collection_paused():
        return kernel_gradient(graph, arguments, wanted, or_once=or_once)


def _is_asked(value: Any) -> bool:
    """Whether it is a float, or has one, with a program of its own. Lists nest as types do, so this recurses."""
    if isinstance(value, list):
        return any(map(_is_asked, value))
    return isinstance(value, float) and not is_unasked(value, settled=False)


def _key(value: Any, settled: bool) -> Hashable:
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.shape)
    if isinstance(value, list):
        return tuple([_key(item, settled) for item in value])
    if isinstance(value, float):
        return float_key(value, settled)
    return (type(value), value)


def _seen(value: Any) -> SeenTensor | None:
    """What a program depends on of a tensor: what is kept does not hang on how arguments lie in memory."""
    return SeenTensor(value.shape, None, _DTYPE_OF[value.dtype]) if isinstance(value, torch.Tensor) else None


def _without_elements(value: Any) -> Any:
    """A tensor of the shape and dtype, contiguous."""
    if isinstance(value, torch.Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device="meta")
    return [_without_elements(item) for item in value] if isinstance(value, list) else value

"""Programs for a device with kernels: differentiated for the shapes at hand, with as little saved as pays.

What a node keeps is decided by what kernels can compute again for nothing, and that follows from shapes. So a program
becomes one for each combination of them, with a Gradient of its own; its backward is such a program in turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch

from ...compiler.autodiff import Gradient
from ...compiler.fusion.fuse import Unfusable, kernel_gradient
from ...compiler.fusion.seeds import open_inputs, open_seeds
from ...compiler.shapes.propagate import ShapeError
from ...compiler.specialize.optionals import specialize_optionals
from ...lang.collection import collection_paused
from ..execution.compilation import prepare_on_device
from ..execution.differentiated import CompiledGraph, Key
from ..kernels.runner import given

MAX_SHAPES = 64
"""Of one program; beyond, the one that came first is forgotten."""
_MAKING = RLock()
_OPEN: WeakKeyDictionary[CompiledGraph, frozenset[int]] = WeakKeyDictionary()
"""The inputs that are numbers that need not be known."""
_PROGRAMS: WeakKeyDictionary[CompiledGraph, dict[Hashable, KernelProgram]] = WeakKeyDictionary()


class _Unsettled(Exception):
    """What would be computed depends on elements, or on floats that are not given."""


class KernelProgram(CompiledGraph):
    """A program for arguments of given layouts."""

    def __init__(self, program: CompiledGraph, arguments: Sequence[Any]) -> None:
        super().__init__(program.graph, program.name, whole=program.whole)
        self._arguments = arguments
        self._unsettled: set[Key] = set()

    def settles(self, key: Key) -> bool:
        """Whether what is known of the arguments is enough to differentiate it."""
        if key in self._unsettled:
            return False
        try:
            self.differentiate(key)
        except _Unsettled:
            self._unsettled.add(key)
            return False
        return True

    def _gradient(self, wanted: Sequence[bool], absent: Sequence[int]) -> Gradient:
        graph = specialize_optionals(self.graph, absent)
        if self.whole:
            prepare_on_device(graph)
        try:
            with collection_paused():
                return kernel_gradient(graph, self._arguments, wanted)
        except (Unfusable, ShapeError) as error:
            raise _Unsettled from error


def kernel_program(program: CompiledGraph, values: Sequence[Any], key: Key) -> CompiledGraph:
    """The program for values of these shapes, to be differentiated for a key: of any floats where that can be.

    Where control flow depends on elements, the program itself: it runs op by op, and what is wrong with the data comes
    up where it runs.
    """
    for settled in (False, True):
        if settled and not any(isinstance(value, float) for value in values):
            break
        found = _known(program, values, settled)
        if found.settles(key):
            return found
    return program


def _known(program: CompiledGraph, values: Sequence[Any], settled: bool) -> KernelProgram:
    if program not in _OPEN:
        _OPEN[program] = open_inputs(program.graph)
    values = open_seeds(values, _OPEN[program])
    key = (settled, *[_key(value, settled) for value in values])
    known = _PROGRAMS.get(program)
    found = known.get(key) if known is not None else None
    if found is not None:
        return found
    with _MAKING:
        programs = _PROGRAMS.setdefault(program, {})
        if key not in programs:
            if len(programs) >= MAX_SHAPES:
                del programs[next(iter(programs))]
            programs[key] = KernelProgram(program, [given(_without_elements(v), settled) for v in values])
        return programs[key]


def _key(value: Any, settled: bool) -> Hashable:
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.shape)
    if isinstance(value, list):
        return tuple([_key(item, settled) for item in value])
    if isinstance(value, float):
        return (float, value.hex() if settled else None)
    return (type(value), value)


def _without_elements(value: Any) -> Any:
    """A tensor of the shape and dtype, contiguous: what is kept does not hang on how arguments lie in memory."""
    if isinstance(value, torch.Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device="meta")
    return [_without_elements(item) for item in value] if isinstance(value, list) else value

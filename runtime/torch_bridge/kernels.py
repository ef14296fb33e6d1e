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
from ...compiler.shapes import ShapeError
from ...compiler.specialize import specialize_optionals
from ...lang.collection import collection_paused
from ..kernels.runner import given
from ..tape.program import Program

MAX_SHAPES = 64
"""Of one program; beyond, the one that came first is forgotten."""
_MAKING = RLock()
_PROGRAMS: WeakKeyDictionary[Program, dict[Hashable, KernelProgram]] = WeakKeyDictionary()


class KernelProgram(Program):
    """A program for arguments of given layouts."""

    def __init__(self, program: Program, arguments: Sequence[Any]) -> None:
        super().__init__(program.graph, program.name)
        self._arguments = arguments

    def _differentiate(self, wanted: Sequence[bool], absent: Sequence[int]) -> Gradient:
        graph = specialize_optionals(self.graph, absent)
        with collection_paused():
            for settled in (False, True):
                try:
                    return kernel_gradient(graph, [given(value, settled) for value in self._arguments], wanted)
                except (Unfusable, ShapeError):
                    continue
        # Control flow that elements decide: op by op, and what is wrong with the data comes up where it runs.
        return super()._differentiate(wanted, absent)


def kernel_program(program: Program, values: Sequence[Any]) -> Program:
    """The program for values of these shapes."""
    if isinstance(program, KernelProgram):
        return program
    key = tuple([_key(value) for value in values])
    known = _PROGRAMS.get(program)
    found = known.get(key) if known is not None else None
    if found is not None:
        return found
    with _MAKING:
        programs = _PROGRAMS.setdefault(program, {})
        if key not in programs:
            if len(programs) >= MAX_SHAPES:
                del programs[next(iter(programs))]
            programs[key] = KernelProgram(program, [_without_elements(value) for value in values])
        return programs[key]


def _key(value: Any) -> Hashable:
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.shape)
    if isinstance(value, list):
        return tuple([_key(item) for item in value])
    return (type(value), value)


def _without_elements(value: Any) -> Any:
    """A tensor of the shape and dtype that keeps no memory alive."""
    if isinstance(value, torch.Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device="meta")
    return [_without_elements(item) for item in value] if isinstance(value, list) else value

"""The derivatives of one function, compiled as they are asked for and kept.

What is compiled depends on which arguments are floating tensors and which optional ones are there; under a policy of
recomputation, on the shapes too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...compiler.autodiff import Gradient, differentiate
from ...compiler.autodiff.differentiable import differentiable_graph
from ...compiler.autodiff.flatten import flatten_signature, leaves
from ...compiler.ir.graph import Graph
from ...compiler.ops.meta import Abstract, Meta
from ...compiler.recompute import Policy, Recomputed
from ...compiler.specialize.optionals import specialize_optionals
from ...compiler.types.types import TensorType, TupleType, Type
from ...lang.diagnostics import CompileError
from ...lang.light_dataclasses import replace
from .argument_spec import Signature, seen_type
from .compilation import prepare_gradient
from .compiled import Compiled
from .differentiated import CompiledGraph, Differentiated
from .function_executor import FORGETTING
from .gradients import can_have_gradient

MAX_REMATERIALIZED = 64
"""Gradients under a policy that are kept for a function, one for each kind and shape of arguments."""
MAX_PROGRAMS = 64
"""Kinds of arguments for which a function's gradients are kept; the first are dropped first."""


class Derivatives:
    """Every gradient of a function made so far."""

    def __init__(self, function: Compiled) -> None:
        self._graph = differentiable_graph(function.callee)
        self.input_types = [value.type for value in self._graph.inputs]
        self.output_types = [value.type for value in self._graph.outputs]
        self._flat = flatten_signature(self._graph)
        self._signature = Signature(self._flat)
        self._programs: dict[Hashable, CompiledGraph] = {}
        self._rematerialized: dict[Hashable, tuple[Differentiated, Recomputed]] = {}
        self._last: tuple[Hashable, tuple[Gradient, Graph]] | None = None
        self._lock = RLock()

    def differentiate(self, values: Sequence[Any]) -> Differentiated:
        """The gradient for arguments of this kind; CompileError (E408) where an op has none."""
        flat = leaves(values, self.input_types)
        key = self._signature.key(flat)
        program = self._programs.get(key)
        if program is None:
            with self._lock:
                program = self._programs.get(key) or self._program(key, flat)
        found = program.differentiate(tuple([None if v is None else can_have_gradient(v) for v in flat]))
        if isinstance(found, CompileError):
            raise CompileError(found.diagnostics)
        return found

    def _program(self, key: Hashable, flat: Sequence[Any]) -> CompiledGraph:
        """The function for tensors of these dtypes and ranks: what depends on them is decided before its gradient."""
        graph = self._flat.copy()
        for value, given in zip(graph.inputs, flat, strict=True):
            if isinstance(value.type, TensorType) and isinstance(given, np.ndarray):
                value.type = seen_type(value.type, given)
        while len(self._programs) >= MAX_PROGRAMS:
            del self._programs[next(iter(self._programs))]
        program = self._programs[key] = CompiledGraph(graph, self._graph.title, whole=True, temporaries=False)
        return program

    def rematerialize(
        self, values: Sequence[Any], policy: Policy, wrt: Sequence[int] | None = None
    ) -> tuple[Differentiated, Recomputed]:
        """The gradient for arguments of these shapes under a policy, and what the policy decided.

        With `wrt`, the parameters with gradients, by number; else every floating argument is one.
        """
        from ...compiler.recompute.driver import recompute

        wanted = range(len(values)) if wrt is None else wrt
        mask = [_each(type, i in wanted) for i, type in enumerate(self.input_types)]
        flat = leaves(values, self.input_types)
        asked = zip(leaves(mask, self.input_types), flat, strict=True)
        requires_grad = tuple([is_asked and can_have_gradient(value) for is_asked, value in asked])
        absent = tuple([i for i, value in enumerate(flat) if value is None])
        shapes = [_abstract(value) for value in flat]
        key = (policy, requires_grad, _hashable(shapes))
        with self._lock:
            if key not in self._rematerialized:
                gradient, primal = self._straight(shapes, requires_grad, absent)
                recomputed = recompute(gradient, shapes, policy, primal)
                while len(self._rematerialized) >= MAX_REMATERIALIZED:
                    del self._rematerialized[next(iter(self._rematerialized))]
                self._rematerialized[key] = (
                    Differentiated(recomputed.gradient, self._graph.title, shapes),
                    recomputed,
                )
            return self._rematerialized[key]

    def _straight(
        self, shapes: Sequence[Abstract], requires_grad: tuple[bool, ...], absent: Sequence[int]
    ) -> tuple[Gradient, Graph]:
        """The gradient of the program written out for arguments of these shapes, and that program; the last is kept."""
        from ...compiler.specialize.straighten import straighten

        key = (requires_grad, _hashable(shapes))
        if self._last is None or self._last[0] != key:
            graph = prepare_gradient(specialize_optionals(flatten_signature(self._graph), absent))
            graph = straighten(graph, shapes)
            gradient = differentiate(graph, requires_grad, temporaries=False)
            self._last = key, (replace(gradient, f=straighten(gradient.f, shapes, keep_pairs=False)), graph)
        return self._last[1]


def _each(type: Type, value: Any) -> Any:
    """A value in place of every leaf of a parameter."""
    return tuple([_each(element, value) for element in type.elements]) if isinstance(type, TupleType) else value


def _abstract(value: Any) -> Abstract:
    """What is known of an argument before it runs: shapes and dtypes of arrays, and everything else."""
    if isinstance(value, list):
        return [_abstract(item) for item in value]
    return Meta.of(value) if isinstance(value, np.ndarray) else value


def _hashable(value: Abstract) -> Hashable:
    if isinstance(value, list):
        return tuple([_hashable(item) for item in value])
    # 1, 1.0 and True are equal and different arguments.
    return (type(value), value)


_DERIVATIVES: WeakKeyDictionary[Compiled, Derivatives] = WeakKeyDictionary()


def derivatives_of(function: Compiled) -> Derivatives:
    """The derivatives of a function; they live as long as it does."""
    found = _DERIVATIVES.get(function)
    return found if found is not None else _DERIVATIVES.setdefault(function, Derivatives(function))


FORGETTING.add(_DERIVATIVES.clear)

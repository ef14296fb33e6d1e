"""The derivatives of one function, compiled as they are asked for and kept.

What is compiled depends on which arguments are floating tensors and which optional ones are there; a pullback, also
on which outputs have a gradient. What is compiled under a policy of recomputation depends on the shapes too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...compiler.autodiff import Gradient, differentiate
from ...compiler.autodiff.flatten import flatten_signature, leaves
from ...compiler.autodiff.wrapper import differentiable_graph
from ...compiler.ops.meta import Meta
from ...compiler.recompute import Policy, Recomputed, recompute
from ...compiler.shapes.propagate import Abstract
from ...compiler.specialize.optionals import specialize_optionals
from ...compiler.specialize.straighten import straighten
from ...compiler.types.types import TupleType, Type
from .compiled import Compiled
from .linearized import Linearized, is_floating, optimized

MAX_REMATERIALIZED = 64
"""Linearisations under a policy that are kept for a function, one for each kind and shape of arguments."""


class Derivatives:
    """Every linearisation of a function made so far."""

    def __init__(self, function: Compiled) -> None:
        self._graph = differentiable_graph(function.callee)
        self.input_types = [value.type for value in self._graph.inputs]
        self.output_types = [value.type for value in self._graph.outputs]
        self._known: dict[tuple[tuple[bool, ...], tuple[int, ...]], Linearized] = {}
        self._rematerialized: dict[Hashable, tuple[Linearized, Recomputed]] = {}
        self._last: tuple[Hashable, Gradient] | None = None
        self._lock = RLock()

    def linearize(self, values: Sequence[Any]) -> Linearized:
        """The linearisation for arguments of this kind."""
        values = leaves(values, self.input_types)
        requires_grad = tuple([is_floating(value) for value in values])
        absent = tuple([i for i, value in enumerate(values) if value is None])
        key = (requires_grad, absent)
        with self._lock:
            if key not in self._known:
                graph = specialize_optionals(flatten_signature(self._graph), absent)
                self._known[key] = Linearized(differentiate(graph, requires_grad, temporaries=False))
            return self._known[key]

    def rematerialize(
        self, values: Sequence[Any], policy: Policy, wrt: Sequence[int] | None = None
    ) -> tuple[Linearized, Recomputed]:
        """The linearisation for arguments of these shapes under a policy, and what the policy decided.

        With `wrt`, the parameters with gradients, by number; else every floating argument is one.
        """
        wanted = range(len(values)) if wrt is None else wrt
        mask = [_each(type, i in wanted) for i, type in enumerate(self.input_types)]
        flat = leaves(values, self.input_types)
        requires_grad = tuple([m and is_floating(v) for m, v in zip(leaves(mask, self.input_types), flat, strict=True)])
        absent = tuple([i for i, value in enumerate(flat) if value is None])
        shapes = [_abstract(value) for value in flat]
        key = (policy, requires_grad, _hashable(shapes))
        with self._lock:
            if key not in self._rematerialized:
                recomputed = recompute(self._straight(shapes, requires_grad, absent), shapes, policy)
                while len(self._rematerialized) >= MAX_REMATERIALIZED:
                    del self._rematerialized[next(iter(self._rematerialized))]
                self._rematerialized[key] = Linearized(recomputed.gradient, shapes), recomputed
            return self._rematerialized[key]

    def _straight(self, shapes: Sequence[Abstract], requires_grad: tuple[bool, ...], absent: Sequence[int]) -> Gradient:
        """The gradient of the program written out for arguments of these shapes; the last one is kept."""
        key = (requires_grad, _hashable(shapes))
        if self._last is None or self._last[0] != key:
            graph = straighten(specialize_optionals(flatten_signature(self._graph), absent), shapes)
            gradient = differentiate(graph, requires_grad, temporaries=False)
            self._last = key, replace(gradient, f=straighten(gradient.f, shapes, keep_pairs=False))
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


FORGETTING: set[Callable[[], None]] = set()
"""What drops whatever else was compiled by formulas."""


def forget_derivatives() -> None:
    """Drop every linearisation that was compiled: what they were compiled by has changed."""
    _DERIVATIVES.clear()
    for forget in list(FORGETTING):
        forget()


__all__ = [
    "FORGETTING",
    "Derivatives",
    "Linearized",
    "derivatives_of",
    "forget_derivatives",
    "is_floating",
    "optimized",
]

"""The derivatives of one function, compiled as they are asked for and kept.

What is compiled depends on which arguments are floating tensors and which optional ones are there; a pullback, also
on which outputs have a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..compiler.autodiff import differentiate
from ..compiler.autodiff.flatten import flatten_signature, leaves
from ..compiler.autodiff.wrapper import differentiable_graph
from ..compiler.ops.arrays import dtype_of
from ..compiler.specialize import specialize_optionals
from .function import Function
from .linearized import Linearized, optimized


def is_floating(value: Any) -> bool:
    """Whether a value can have a gradient: a floating array, or a list with one in it."""
    if isinstance(value, list):
        return any(is_floating(item) for item in value)
    return isinstance(value, np.ndarray) and dtype_of(value).is_floating


class Derivatives:
    """Every linearisation of a function made so far."""

    def __init__(self, function: Function) -> None:
        self._graph = differentiable_graph(function.callee)
        self.input_types = [value.type for value in self._graph.inputs]
        self.output_types = [value.type for value in self._graph.outputs]
        self._known: dict[tuple[tuple[bool, ...], tuple[int, ...]], Linearized] = {}
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


_DERIVATIVES: WeakKeyDictionary[Function, Derivatives] = WeakKeyDictionary()


def derivatives_of(function: Function) -> Derivatives:
    """The derivatives of a function; they live as long as it does."""
    found = _DERIVATIVES.get(function)
    return found if found is not None else _DERIVATIVES.setdefault(function, Derivatives(function))


__all__ = ["Derivatives", "Linearized", "derivatives_of", "is_floating", "optimized"]

"""Second derivatives of what kernels differentiate once: the backward is made anew of the arguments, and recorded.

    y = f(x)                                      kernels, which keep what pays
    g = torch.autograd.grad(y, x, s, …)           kernels, by what was kept
    g = torch.autograd.grad(…, create_graph=True) a call of `f's backward (s, x)`, which computes again what it needs

Kernels have the calls of functions with a backward of their own written out. What such a call gave has a derivative
that is the function's to tell, which nothing that was kept knows of; the call in the program itself does.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any

import torch

from ...compiler.autodiff import differentiate
from ...compiler.autodiff.joint import pullback_graph
from ...compiler.ir.graph import Graph, backward_of
from ...compiler.specialize.optionals import specialize_optionals
from ...lang.light_dataclasses import dataclass
from ..execution.compilation import prepare_gradient
from ..execution.differentiated import CompiledGraph, Differentiated, Pattern, PatternKey
from ..execution.gradients import specialized
from ..failures.failure import RuntimeFailure
from .places import NestedPlaces, put_together

_MAKING = RLock()


class SecondPullback:
    """The backward of a program for one kind of call, as programs of the gradients and the arguments."""

    def __init__(self, graph: Graph, name: str, key: PatternKey, *, whole: bool) -> None:
        self._graph = graph
        self._name = name
        self._key = key
        self._whole = whole
        self._whole_gradient: Differentiated | None = None
        self._joint: Graph | None = None
        self._programs: dict[Pattern, CompiledGraph] = {}

    @property
    def differentiated(self) -> Differentiated:
        """What it is the backward of; made when it is first asked for."""
        with _MAKING:
            if self._whole_gradient is None:
                absent = [i for i, wanted in enumerate(self._key) if wanted is None]
                graph = specialize_optionals(self._graph, absent)
                if self._whole:
                    graph = prepare_gradient(graph)
                gradient = differentiate(graph, [bool(wanted) for wanted in self._key], temporaries=False)
                self._joint = pullback_graph(gradient)
                self._whole_gradient = Differentiated(gradient, self._name)
            return self._whole_gradient

    def program(self, pattern: Pattern) -> CompiledGraph:
        """What computes the gradients, for those of the outputs, of these dtypes, and the arguments."""
        whole = self.differentiated
        with _MAKING:
            found = self._programs.get(pattern)
            if found is None:
                assert self._joint is not None
                graph = specialized(self._joint, whole.types_of(pattern))
                found = self._programs[pattern] = CompiledGraph(graph, backward_of(self._name))
            return found


@dataclass(slots=True)
class KeptArguments:
    """The arguments of a call, with the versions that its tensors had."""

    layouts: Sequence[NestedPlaces]
    tensors: Sequence[Any]
    versions: Sequence[int]

    @staticmethod
    def of(layouts: Sequence[NestedPlaces], tensors: Sequence[Any]) -> KeptArguments:
        """Those of a call that is made now."""
        return KeptArguments(layouts, tensors, [_version(tensor) for tensor in tensors])

    def values(self, name: str) -> list[Any]:
        """RuntimeFailure where one was written into since, as torch has it for what it keeps."""
        for tensor, version in zip(self.tensors, self.versions, strict=True):
            if _version(tensor) != version:
                message = (
                    "an argument was written into since the call: "
                    f"it is at version {_version(tensor)}, expected version {version}"
                )
                note = "a second derivative computes the backward from the arguments: write into a copy, `x.clone()`"
                raise RuntimeFailure("R003", name, message, notes=[note])
        return put_together([*self.layouts], self.tensors)


def _version(tensor: Any) -> int:
    return 0 if not isinstance(tensor, torch.Tensor) or tensor.is_inference() else tensor._version

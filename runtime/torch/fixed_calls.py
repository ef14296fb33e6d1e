"""Recorded calls on a device with lists among what goes in, or what a backward takes, prepared as other calls are.

loss(x, weights: List[Tensor])     the kinds of all tensors are looked at once; what follows from them is known
backward                           which gradients come, and numbers that were kept, say how it runs
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from ...compiler.fusion.unasked import float_key
from ..settings.modes import TOUCHED, usual_backend
from .devices import DeviceMemory, FixedRun
from .node import NUMPY_DTYPE, GradscriptFunction, StepCall, is_transformed, named
from .places import NestedPlaces, TensorPlace, each, put_together, take_apart
from .steps import Step, step_of
from .tensors import is_forward_mode

MAX_BACKWARDS = 32
"""Kinds of gradients of outputs and of numbers kept, of one call; beyond, all are forgotten."""
Gradients = Callable[[Sequence[Any]], list[Any]]


class ListCall:
    """Calls with arguments of one kind. `rest` are the values of the arguments that a call leaves out."""

    quick = None

    def __init__(self, device: str, step: Step, fixed: FixedRun, rest: Sequence[Any]) -> None:
        self.step = step
        self.fixed = fixed
        self.device = device
        self._rest = rest
        self._apply = named(GradscriptFunction, step.name).apply
        self._backwards: dict[Hashable, Gradients] = {}

    def __call__(self, args: Sequence[Any], arrays: list[Any] | None = None) -> Any:
        """The result."""
        tensors: list[Any] = []
        layouts = take_apart([*args, *self._rest] if self._rest else args, tensors)
        call = _FixedCall(self, layouts)
        row = self._apply(call, *tensors)
        results = put_together(call.outputs[: self.step.num_real], row)
        return results[0] if len(results) == 1 else tuple(results)

    def gradients(self, vjps: Sequence[Any], captures: Sequence[NestedPlaces], values: Sequence[Any]) -> Any:
        """The gradients of arguments by what is kept for the like; None where the usual node finds them.

        What is kept follows from the kinds of arguments only where the host decides all.
        """
        if torch.is_grad_enabled() or is_transformed() or is_forward_mode() or not self.fixed.is_settled:
            return None
        key = (usual_backend() if TOUCHED.any else "", *map(_kind, vjps), _frozen(captures))
        if None in key[1:-1]:
            return None
        run = self._backwards.get(key)
        if run is None:
            if len(self._backwards) >= MAX_BACKWARDS:
                self._backwards.clear()
            run = self._backwards[key] = self._backward(vjps, values)
        return run(values)

    def _backward(self, vjps: Sequence[Any], values: Sequence[Any]) -> Gradients:
        program = self.step.backward(tuple([None if vjp is None else NUMPY_DTYPE[vjp.dtype] for vjp in vjps]))
        found = step_of(program, (False,) * len(values)).on(self.device)
        prepared = found.fixed(values)
        return found if prepared is None else prepared.run


class _FixedCall(StepCall):
    """One of these calls."""

    __slots__ = ("_call",)

    def __init__(self, call: ListCall, arguments: list[NestedPlaces]) -> None:
        super().__init__(call.step, arguments)
        self._call = call

    def again(self) -> StepCall:
        """The same call, to be run on other tensors."""
        return StepCall(self.step, self.arguments)

    def run(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        step = self.step
        values = put_together(self.arguments, tensors)
        memory = DeviceMemory(values)
        found = self._call.fixed.run(values)
        for i in step.repeated:
            found[i] = None
        # A temporary may be a view of an argument or of an output; a result may not.
        results = each(found[: step.num_real], memory.owned) + each(found[step.num_real :], memory.shared)
        row: list[Any] = []
        self.outputs = take_apart(results, row)
        for i, first in step.repeated.items():
            self.outputs[i] = self.outputs[first]
        return tuple(row)

    def remember(self, ctx: Any, tensors: Sequence[Any], row: Sequence[Any]) -> None:
        super().remember(ctx, tensors, row)
        ctx.kept.by_kind = self._call.gradients


def _kind(vjp: Any) -> Hashable:
    """What a backward depends on of the gradient of an output; None where it is none that is told of here."""
    if vjp is None:
        return "none"
    if type(vjp) is not torch.Tensor or vjp.layout is not torch.strided or vjp.is_neg():
        return None
    return (vjp.dtype, vjp.shape, vjp.stride(), vjp.device)


def _frozen(layouts: Any) -> Hashable:
    """Layouts as a key: numbers as what plans depend on of them. They nest as deep as types, so this recurses."""
    if type(layouts) is list:
        return tuple([_frozen(item) for item in layouts])
    if type(layouts) is TensorPlace:
        return ()
    return float_key(layouts, settled=False) if type(layouts) is float else (type(layouts), layouts)

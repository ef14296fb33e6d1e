"""Recorded calls on a device with lists among what goes in, or what a backward takes, prepared as other calls are.

loss(x, weights: List[Tensor])     the kinds of all tensors are looked at once; what follows from them is known
backward                           which gradients come, and numbers that were kept, say how it runs
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from ...settings.modes import TOUCHED, usual_backend
from ..call_layout import CallLayout, Listed, key_of_captures, places_of
from ..devices import DeviceMemory, FixedRun
from ..kinds import is_batch_of_gradients
from ..places import NestedPlaces, each, leaves_of, put_together, take_apart
from ..recorded.kept_places import NUMPY_DTYPE, KeptPlaces
from ..recorded.node import GradscriptFunction, StepCall, is_transformed, named
from ..steps import Step, step_of
from ..tensors import is_forward_mode

MAX_BACKWARDS = 32
"""Kinds of gradients of outputs and of numbers kept, of one call; beyond, all are forgotten."""
GradientsRun = Callable[[Sequence[Any]], list[Any]]


class ListCall:
    """Calls with arguments of one kind. `rest` are the values of the arguments that a call leaves out."""

    quick = None

    def __init__(self, device: str, step: Step, fixed: FixedRun, rest: Sequence[Any]) -> None:
        self.step = step
        self.fixed = fixed
        self.device = device
        self._rest = rest
        self._apply = named(GradscriptFunction, step.name).apply
        self._backwards: dict[Hashable, ListedBackward] = {}
        self._layout: CallLayout | None = None

    def __call__(self, args: Sequence[Any], arrays: list[Any] | None = None) -> Any:
        """The result."""
        tensors: list[Any] = []
        values = [*args, *self._rest] if self._rest else args
        call = _FixedCall(self, values, take_apart(values, tensors))
        row = self._apply(call, *tensors)
        results = put_together(call.outputs[: self.step.num_real], row)
        return results[0] if len(results) == 1 else tuple(results)

    def layout(
        self, listed: Listed, call: StepCall, results: Sequence[Any], tensors: Sequence[Any]
    ) -> CallLayout | None:
        """Where everything stands, for such results of what ran; None where that is to be found in each call."""
        found = self._layout
        if found is None or found.listed is not listed:
            found = self._layout = CallLayout(listed, call, results, tensors)
        return found if found.holds else None

    def gradients(self, vjps: Sequence[Any], captures: Sequence[NestedPlaces], values: Sequence[Any]) -> Any:
        """The gradients of arguments by what is kept for the like; None where the usual node finds them.

        What is kept follows from the kinds of arguments only where the host decides all.
        """
        backward = self._found_backward(vjps, key_of_captures(captures, self.step.seeds_kept), values)
        return None if backward is None else backward.run(values)

    def row_of_gradients(self, kept: KeptPlaces, vjps: Sequence[Any], captures: Hashable, values: Sequence[Any]) -> Any:
        """The same in a row; the captures are those of a key."""
        backward = self._found_backward(vjps, captures, values)
        return None if backward is None else backward.row(kept, values)

    def _found_backward(self, vjps: Sequence[Any], captures: Hashable, values: Sequence[Any]) -> ListedBackward | None:
        if torch.is_grad_enabled() or is_transformed() or is_forward_mode() or not self.fixed.is_settled:
            return None
        key = (usual_backend() if TOUCHED.any else "", *map(_kind, vjps), captures)
        if None in key[1:-1]:
            return None
        run = self._backwards.get(key)
        if run is None:
            if len(self._backwards) >= MAX_BACKWARDS:
                self._backwards.clear()
            run = self._backwards[key] = self._backward(vjps, values)
        return run

    def _backward(self, vjps: Sequence[Any], values: Sequence[Any]) -> ListedBackward:
        program = self.step.backward(tuple([None if vjp is None else NUMPY_DTYPE[vjp.dtype] for vjp in vjps]))
        step = step_of(program, (False,) * len(values))
        if self.device == "cpu":
            listed = step.listed_run()
            return ListedBackward(listed.run, listed)
        found = step.on(self.device)
        prepared = found.fixed(values)
        return ListedBackward(found if prepared is None else prepared.run, prepared)


class ListedBackward:
    """What gives gradients, and, once they were looked at, where they stand in a row of those of tensors."""

    def __init__(self, run: GradientsRun, fixed: FixedRun | None) -> None:
        self.run = run
        self._run_listed = getattr(fixed, "run_listed", None)
        self._listed: Listed | None = None
        self._places: list[int] = []

    def row(self, kept: KeptPlaces, values: Sequence[Any]) -> list[Any]:
        """The gradients of the arguments' tensors in a row, each of the shape of its tensor."""
        results, listed = (self.run(values), None) if self._run_listed is None else self._run_listed(values)
        if listed is None or listed is not self._listed:
            row = kept.spread(results)
            self._listed, self._places = listed, places_of(kept.arguments, results)
            return row
        row = [None] * len(kept.shapes)
        for place, gradient in zip(self._places, leaves_of(results), strict=True):
            if place >= 0:
                row[place] = gradient
        return row


class _FixedCall(StepCall):
    """One of these calls."""

    __slots__ = ("_call", "_layout", "_values")

    def __init__(self, call: ListCall, values: Sequence[Any], arguments: list[NestedPlaces]) -> None:
        super().__init__(call.step, arguments)
        self._call = call
        self._values = values
        self._layout: CallLayout | None = None

    def again(self) -> StepCall:
        """The same call, to be run on other tensors."""
        return StepCall(self.step, self.arguments)

    def run(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        step, fixed = self.step, self._call.fixed
        run_listed = getattr(fixed, "run_listed", None)
        found, listed = (fixed.run(self._values), None) if run_listed is None else run_listed(self._values)
        for i in step.repeated:
            found[i] = None
        if listed is not None and not is_forward_mode() and not is_transformed():
            layout = self._call.layout(listed, self, found, tensors)
            row = None if layout is None else layout.row(self, found)
            if row is not None:
                self._layout = layout
                return row
        memory = DeviceMemory(self._values)
        # A temporary may be a view of an argument or of an output; a result may not.
        results = each(found[: step.num_real], memory.owned) + each(found[step.num_real :], memory.shared)
        made: list[Any] = []
        self.outputs = take_apart(results, made)
        for i, first in step.repeated.items():
            self.outputs[i] = self.outputs[first]
        return tuple(made)

    def remember(self, ctx: Any, tensors: Sequence[Any], row: Sequence[Any]) -> None:
        if self._layout is not None:
            kept: KeptPlaces = self._layout.remember(
                ctx, self, tensors, row, self._call.row_of_gradients, self._call.step.seeds_kept
            )
        else:
            super().remember(ctx, tensors, row)
            kept = ctx.kept
        kept.by_kind = self._call.gradients


def _kind(vjp: Any) -> Hashable:
    """What a backward depends on of the gradient of an output; None where it is none that is told of here."""
    if vjp is None:
        return "none"
    if type(vjp) is not torch.Tensor or vjp.layout is not torch.strided or vjp.is_neg() or is_batch_of_gradients(vjp):
        return None
    return (vjp.dtype, vjp.shape, vjp.stride(), vjp.device)

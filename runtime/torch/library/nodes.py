"""The node of torch's autograd for an op: its forward and its backward are ops, which torch's modes see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import _SingleLevelFunction

from ..kinds import is_batch_of_gradients
from ..node import named, note_source
from ..places import NestedPlaces, TensorPlace, places, put_together, take_apart
from .halves import Halves

below_autograd: Callable[[], Any] = torch._C._AutoDispatchBelowAutograd


class OpCall:
    """A call of the halves of a function, as ops of torch."""

    def __init__(self, halves: Halves, forward: Any, backward: Any, arguments: list[NestedPlaces]) -> None:
        self.halves = halves
        self.forward = forward
        self.backward = backward
        self.arguments = arguments
        self.outputs: list[NestedPlaces] = []

    def run(self, ctx: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
        values = put_together(self.arguments, tensors)
        with below_autograd():
            results = as_list(self.forward(*values))
        row: list[Any] = []
        self.outputs = take_apart(results, row)
        active = {self._position(i) for i in self.halves.vjps}
        with_gradient = set(places([layout for i, layout in enumerate(self.outputs) if i in active]))
        without = [t for i, t in enumerate(row) if i not in with_gradient or not t.is_floating_point()]
        if without:
            ctx.mark_non_differentiable(*without)
        ctx.set_materialize_grads(False)
        saved: list[Any] = []
        ctx.layouts = take_apart(self.halves.arguments_of_backward(values, results), saved)
        ctx.save_for_backward(*saved)
        ctx.call = self
        return tuple(row)

    def gradients(self, ctx: Any, given: Sequence[Any]) -> list[Any]:
        """The gradients of the arguments' tensors, in a row."""
        row: list[Any] = [None] * sum(1 for _ in places(self.arguments))
        if all(gradient is None for gradient in given):
            return row
        vjps = [_vjp(self.outputs[self._position(i)], given) for i in self.halves.vjps]
        taken = put_together(ctx.layouts, ctx.saved_tensors)
        layouts = [self.arguments[i] for i in self.halves.wanted]
        mask = [any(ctx.needs_input_grad[1 + place] for place in places([layout])) for layout in layouts]
        # A batch comes before what records, and goes one by one through an op, of tensors alone.
        of_batch = any(isinstance(gradient, torch.Tensor) and is_batch_of_gradients(gradient) for gradient in given)
        backward = self.halves.backward_recorded if of_batch else lambda row: as_list(self.backward(*row))
        results = backward([*vjps, *taken, mask])
        for layout, result in zip(layouts, results, strict=True):
            _spread(layout, result, row)
        return row

    def _position(self, output: int) -> int:
        """Of an output of the gradient's forward among the results of the op."""
        halves = self.halves
        return output if output < halves.num_real else halves.num_real + halves.saved.index(output)


class OpFunction(_SingleLevelFunction):  # type: ignore[misc] # torch is not typed here
    """`apply(call, *tensors)` gives the tensors of the results."""

    @staticmethod
    def forward(ctx: Any, call: OpCall, *tensors: Any) -> tuple[Any, ...]:
        note_source(ctx, call.halves.span)
        return call.run(ctx, tensors)

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        return (None, *ctx.call.gradients(ctx, given))


def record_op(call: OpCall, tensors: Sequence[Any]) -> list[Any]:
    """The results of the forward op, recorded as one node that has the function's name."""
    row = named(OpFunction, call.halves.name).apply(call, *tensors)
    return put_together(call.outputs, row)


def as_list(result: Any) -> list[Any]:
    """What an op gives, one result or several, as a list. An op of one list gives a list of one."""
    return [*result] if isinstance(result, tuple) else [result]


def _vjp(layout: NestedPlaces, given: Sequence[Any]) -> Any:
    if type(layout) is TensorPlace:
        return given[layout]
    return [_vjp(item, given) for item in layout] if isinstance(layout, list) else None


def _spread(layout: NestedPlaces, result: Any, row: list[Any]) -> None:
    if type(layout) is TensorPlace:
        row[layout] = result
    elif isinstance(layout, list) and result is not None:
        for item, gradient in zip(layout, result, strict=True):
            _spread(item, gradient, row)

"""The node of torch's autograd for an op: its forward and its backward are ops, which torch's modes see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ....compiler.ir.graph import backward_of
from ..array_runs import SingleLevelFunction
from ..kinds import has_dispatch, is_batch_of_gradients
from ..places import NestedPlaces, TensorPlace, places, put_together, take_apart
from ..recorded.node import is_transformed, named, note_source
from ..symbolic import Untraceable
from ..tracing import leave_to_python
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

    def run(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The tensors of the results, in a row."""
        results = as_list(self.forward(*put_together(self.arguments, tensors)))
        row: list[Any] = []
        self.outputs = take_apart(results, row)
        return tuple(row)

    def remember(self, ctx: Any, tensors: Sequence[Any], row: Sequence[Any]) -> None:
        """Tell torch which results have gradients, and what to keep for backward."""
        values, results = put_together(self.arguments, tensors), put_together(self.outputs, row)
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


class OpFunction(SingleLevelFunction):
    """`apply(call, *tensors)` gives the tensors of the results."""

    @staticmethod
    def forward(ctx: Any, call: OpCall, *tensors: Any) -> tuple[Any, ...]:
        note_source(ctx, call.halves.span)
        with below_autograd():
            row = call.run(tensors)
        call.remember(ctx, tensors, row)
        return row

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        return (None, *ctx.call.gradients(ctx, given))


class TransformedOp(torch.autograd.Function):  # type: ignore[misc] # torch is not typed here
    """The same under torch.func.grad, which records it level by level."""

    @staticmethod
    def forward(call: OpCall, *tensors: Any) -> tuple[Any, ...]:
        return call.run(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        call, *tensors = inputs
        call.remember(ctx, tensors, output)

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        return (None, *ctx.call.gradients(ctx, given))


class TransformedBackward(torch.autograd.Function):  # type: ignore[misc] # torch is not typed here
    """The backward op under torch.func.grad, for ops that cannot be seen through: it ends there."""

    @staticmethod
    def forward(call: BackwardCall, *tensors: Any) -> tuple[Any, ...]:
        return call.run(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.call = inputs[0]

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        halves: Halves = ctx.call.halves
        message = "what is in a tensor decides of these gradients: derivatives of them cannot be traced"
        note = "take second derivatives outside of what is compiled"
        raise Untraceable("R003", backward_of(halves.name), message, span=halves.span, notes=[note])


# Compiled autograd reads what nodes run.
leave_to_python(OpFunction.backward, TransformedOp.backward)


class BackwardCall:
    """A call of a backward as an op."""

    def __init__(self, halves: Halves, backward: Any, arguments: list[NestedPlaces]) -> None:
        self.halves = halves
        self.backward = backward
        self.arguments = arguments
        self.outputs: list[NestedPlaces] = []

    def run(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The tensors of the gradients, in a row."""
        row: list[Any] = []
        self.outputs = take_apart(as_list(self.backward(*put_together(self.arguments, tensors))), row)
        return tuple(row)


def record_op(call: OpCall, tensors: Sequence[Any]) -> list[Any]:
    """The results of the forward op, recorded as one node that has the function's name."""
    function = TransformedOp if is_transformed() else OpFunction
    row = named(function, call.halves.name).apply(call, *tensors)
    return put_together(call.outputs, row)


def record_backward(halves: Halves, backward: Any, arguments: Sequence[Any]) -> list[Any]:
    """The gradients that the backward op gives, recorded by torch.func.grad."""
    tensors: list[Any] = []
    call = BackwardCall(halves, backward, take_apart(arguments, tensors))
    row = TransformedBackward.apply(call, *tensors)
    return put_together(call.outputs, row)


def is_only_recorded() -> bool:
    """Whether of torch.func's transforms none but `grad` and `vjp` run."""
    levels = torch._C._functorch.get_interpreter_stack() or []
    return all(level.key() == torch._C._functorch.TransformType.Grad for level in levels)


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
    elif isinstance(layout, list) and result:
        # Where none of a list was wanted, the op gives an empty one.
        for item, gradient in zip(layout, result, strict=True):
            _spread(item, gradient, row)


def is_stand_in(value: Any) -> bool:
    """Whether a value is a tensor of torch.func's, or holds one, below which is one that has no memory."""
    if isinstance(value, list | tuple):
        return any(map(is_stand_in, value))
    if not isinstance(value, torch.Tensor):
        return False
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        value = torch._C._functorch.get_unwrapped(value)
    return has_dispatch(value) or value.is_meta

"""The node of torch's autograd for a recorded call.

Forward runs a step and hands torch everything that backward needs: arguments by `save_for_backward`, and temporaries
as further outputs of the node, saved likewise. So torch checks their versions, calls its hooks for saved tensors, frees
them, and gives them back with their past: backward runs the program of the gradients on them, and where torch records
that (`create_graph`), it is a recorded call like any other, with gradients for the temporaries too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.autograd import forward_ad

from ....compiler.autodiff.marked_results import ResultMark
from ....lang.source import Span
from ...execution.differentiated import CompiledGraph, PatternKey
from ...failures.failure import RuntimeFailure
from ...settings.modes import runs_c
from ..devices import DeviceMemory
from ..flags import flags_of, gradient_key, is_floating, key_of
from ..kernels import kernel_program
from ..kinds import BY_OPS, SYMBOLIC, is_batch_of_gradients
from ..mixed_dtypes import for_dtypes
from ..places import NestedPlaces, TensorPlace, each, moved, places, put_together, take_apart
from ..routines.products import on_tensors
from ..second_derivatives import KeptArguments
from ..sized import SizedGraph
from ..steps import Step, step_of
from ..symbolic import SymbolicMemory
from ..tensors import (
    TensorMemory,
    device_of,
    has_tangent,
    is_forward_mode,
    kind_of_gradient,
    on_device,
    requires_grad,
    without_tangent,
)
from ..tracing import leave_to_python
from ..transforms import run_per_gradient, run_per_sample
from .kept_places import KeptPlaces

MAX_NAMES = 4096
"""Names that nodes have classes of; those beyond go without."""
NO_MARKS: Mapping[int, ResultMark] = {}


class StepCall:
    """One call of a step. `run` takes the tensors of its arguments in a row and gives those of its outputs.

    `outputs` is the layout of these, known after `run`; a value that is no tensor stands in it.
    """

    __slots__ = ("arguments", "marks", "outputs", "step")

    def __init__(self, step: Step, arguments: list[NestedPlaces], marks: Mapping[int, ResultMark] = NO_MARKS) -> None:
        self.step = step
        self.arguments = arguments
        self.marks = marks
        self.outputs: list[NestedPlaces] = []

    def again(self) -> StepCall:
        """The same call, to be run on other tensors."""
        return StepCall(self.step, self.arguments, self.marks)

    def run(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        values = put_together(self.arguments, tensors)
        for i in self.step.numbers:
            if isinstance(values[i], torch.Tensor):
                # One of a batch's: each sample has its own.
                values[i] = int(values[i])
        device = device_of(tensors)
        memory: TensorMemory | DeviceMemory | SymbolicMemory
        if device == "cpu":
            memory = TensorMemory()
            arrays = memory.arrays(values)
            found = on_tensors(self.step.run, arrays)
        else:
            memory = SymbolicMemory(values) if device == SYMBOLIC else DeviceMemory(values)
            found = self.step.on(device)(on_device(values))
        for i in self.step.repeated:
            found[i] = None
        # A temporary may be a view of an argument or of an output; a result may not.
        count = self.step.num_real
        results = each(found[:count], memory.owned) + each(found[count:], memory.shared)
        row: list[Any] = []
        self.outputs = take_apart(results, row)
        for i, first in self.step.repeated.items():
            self.outputs[i] = self.outputs[first]
        if is_forward_mode():
            # A tangent is laid out as its tensor is, and written to.
            row = [tensor.contiguous() if 0 in tensor.stride() else tensor for tensor in row]
        return tuple(row)

    def remember(self, ctx: Any, tensors: Sequence[Any], row: Sequence[Any]) -> None:
        """Tell torch which outputs have gradients, and what to keep for backward."""
        step = self.step
        vjps = [self.outputs[i] for i in step.input_vjps]
        with_gradient = set(places(vjps))
        with_gradient -= {place for i, mark in self.marks.items() for place in self._lacking(self.outputs[i], mark)}
        without = [t for i, t in enumerate(row) if i not in with_gradient or not t.is_floating_point()]
        if without:
            ctx.mark_non_differentiable(*without)
        ctx.set_materialize_grads(False)
        saved: list[Any] = []
        captures = moved([self.arguments[i] for i in step.captured_inputs], tensors, saved)
        captures += moved([self.outputs[i] for i in step.captured_outputs], row, saved)
        ctx.save_for_backward(*saved)
        differentiable: list[Any] = []
        if is_forward_mode() or is_transformed():
            ctx.save_for_forward(*saved)
            differentiable = [kind_of_gradient(t) if i in with_gradient else () for i, t in enumerate(row)]
        lists = [layout for layout in vjps if type(layout) is list]
        ctx.kept = KeptPlaces(
            step,
            run_program,
            captures,
            vjps,
            [self.arguments[i] for i in step.output_vjps],
            {place: kind_of_gradient(row[place]) for place in places(lists)} if lists else {},
            [tensor.shape for tensor in tensors],
            differentiable,
            None if step.pullback is None else KeptArguments.of(self.arguments, tensors),
        )

    def _lacking(self, layout: NestedPlaces, mark: Any) -> Iterator[TensorPlace]:
        """The places of tensors that require no gradient, whatever the step may say."""
        pending = [(layout, self.outputs[mark] if type(mark) is int else mark)]
        while pending:
            layout, found = pending.pop()
            if isinstance(found, list | tuple) and layout is not None:
                pending += zip(layout, found, strict=True)
            elif not found:
                yield from places([layout])


_finds_anomalies: Callable[[], bool] = torch.is_anomaly_enabled


def note_source(ctx: Any, span: Span) -> None:
    """In torch's anomaly mode, have the traceback of a node end with the function's own line."""
    if not _finds_anomalies() or not span.source.text:
        return
    line = span.source.line(span.line).strip()
    ctx.metadata.get("traceback_", []).append(f'  File "{span.source.filename}", line {span.line}\n    {line}\n')


class GradscriptFunction(torch.autograd.Function):  # type: ignore[misc] # torch is not typed here
    """A recorded call: `apply(call, *tensors)` gives the tensors of the outputs."""

    @staticmethod
    def forward(ctx: Any, call: StepCall, *tensors: Any) -> tuple[Any, ...]:
        if _finds_anomalies():
            note_source(ctx, call.step.graph.span)
        row = call.run(tensors)
        call.remember(ctx, tensors, row)
        return row

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        saved = [without_tangent(tensor) for tensor in ctx.saved_tensors]
        return tuple(ctx.kept.tangents(saved, tangents[1:]))

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        return _gradients(ctx, ctx.saved_tensors, given)


def _gradients(ctx: Any, saved: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
    if all(gradient is None for gradient in given):
        return (None,) * (1 + len(ctx.kept.shapes))
    return (None, *ctx.kept.gradients(saved, given))


class TransformedFunction(GradscriptFunction):
    """The same under torch.func, in the form that it takes apart: grad and jvp record it level by level, vmap runs its
    parts on batches."""

    generate_vmap_rule = True

    @staticmethod
    def forward(call: StepCall, *tensors: Any) -> tuple[Any, ...]:  # type: ignore[override] # the form without a ctx
        return call.run(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        call, *tensors = inputs
        call.remember(ctx, tensors, output)

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        # A pullback may be called when the transform that made it is over.
        saved = [_unwrap_if_dead(tensor) for tensor in ctx.saved_tensors]
        alive = [None if gradient is None else _unwrap_if_dead(gradient) for gradient in given]
        return _gradients(ctx, saved, alive)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        # torch calls this with forward mode off, which would leave out what an outer jvp moves: a zero, silently.
        with forward_ad._set_fwd_grad_enabled(True):
            return GradscriptFunction.jvp(ctx, *tangents)


# Compiled autograd (`torch._dynamo.compiled_autograd`) reads what nodes run.
leave_to_python(GradscriptFunction.backward, TransformedFunction.backward)


class SampledFunction(TransformedFunction):
    """The same of a step in which torch's ops, which know batches, are not all: vmap runs it once per sample."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: StepCall, *tensors: Any) -> tuple[tuple[Any, ...], Any]:
        return run_per_sample(SampledFunction.apply, info, in_dims[1:], call, tensors)


# --- calls ---


def named(function: Any, name: str) -> Any:
    """The class of a node under the name of what is called: what torch shows, profiles and complains about."""
    return _NAMED.get((function, name)) or _name(function, name)


def _name(function: Any, name: str) -> Any:
    if not name.isidentifier() or len(_NAMED) >= MAX_NAMES:
        return function
    return _NAMED.setdefault((function, name), type(function)(name, (function,), {}))


_NAMED: dict[tuple[Any, str], Any] = {}
_unwrap_if_dead: Callable[[Any], Any] = torch._C._functorch.unwrap_if_dead
is_transformed: Callable[[], bool] = torch._C._are_functorch_transforms_active
"""Whether a transform of torch.func is running."""


def run_program(program: CompiledGraph, values: Sequence[Any], *, passes_on: bool = False) -> list[Any]:
    """The outputs, recorded if torch records now and a tensor among the values requires a gradient.

    With `passes_on`, a value that is returned as it came is the very tensor, where nothing is recorded.
    """
    if is_transformed():
        return _transformed(step_of(program, key_of(values, is_floating)), values)
    if program.asks or (program.is_undecided and torch.is_grad_enabled() and requires_grad(values)):
        program = program.answered(flags_of(values))
    results = _run_answered(program, values, passes_on=passes_on)
    return results[: program.num_results] if program.marks else results


def _run_answered(program: CompiledGraph, values: Sequence[Any], *, passes_on: bool) -> list[Any]:
    if any(map(_is_batch, values)):
        return _run_batch(_run_recorded, _run_answered, program, values, passes_on=passes_on)
    return _run_recorded(program, values, passes_on=passes_on)


def _run_recorded(program: CompiledGraph, values: Sequence[Any], *, passes_on: bool) -> list[Any]:
    if is_forward_mode() and has_tangent(values):
        return record(GradscriptFunction, step_of(program, key_of(values, is_floating)), values)
    key = gradient_key(values) if torch.is_grad_enabled() else ()
    if True in key:
        step, given = _step_of_recorded(program, values, key)
        if step.input_vjps:
            return record(GradscriptFunction, step, given, program.marks)
    return run_plainly(program, values, passes_on=passes_on)


def _step_of_recorded(program: CompiledGraph, values: Sequence[Any], key: PatternKey) -> tuple[Step, Sequence[Any]]:
    """The step of a call in which some values require a gradient, and what it takes."""
    device = device_of(values)
    if device in BY_OPS and not (device == "cpu" and runs_c()):
        return step_of(for_dtypes(program, values), key), values
    if isinstance(program, SizedGraph):
        # One program for all sizes, which are arguments of it.
        numbers = program.sized.numbers
        program, values, key = program.of_class, [*values, *numbers], (*key, *[False for _ in numbers])
    found = kernel_program(program, on_device(values), key)
    return step_of(for_dtypes(program, values) if found is program else found, key), values


def _transformed(step: Step, values: Sequence[Any]) -> list[Any]:
    """The outputs under transforms of torch.func; of batches by ops that know these, or else sample by sample."""
    if step.is_batchable:
        try:
            return record(TransformedFunction, step, values)
        except RuntimeFailure:
            pass  # What one sample cannot do either is told of that one.
    return record(SampledFunction, step, values)


def record(
    function: type[GradscriptFunction], step: Step, values: Sequence[Any], marks: Mapping[int, ResultMark] = NO_MARKS
) -> list[Any]:
    """The real outputs of a step, recorded as one node."""
    tensors: list[Any] = []
    call = StepCall(step, take_apart(values, tensors), marks)
    row = named(function, step.name).apply(call, *tensors)
    return put_together(call.outputs[: step.num_real], row)


def run_plainly(program: CompiledGraph, values: Sequence[Any], *, passes_on: bool) -> list[Any]:
    """The outputs, nothing recorded."""
    device = device_of(values)
    if device == SYMBOLIC and any(map(_is_batch, values)):
        return _run_batch(_run_unrecorded, run_plainly, program, values, passes_on=passes_on)
    return _run_unrecorded(program, values, passes_on=passes_on)


def _run_unrecorded(program: CompiledGraph, values: Sequence[Any], *, passes_on: bool) -> list[Any]:
    device = device_of(values)
    if device != "cpu":
        # Where no gradient is asked for, tracers see nothing of modes: what they record is differentiable later.
        is_free = device == SYMBOLIC and not requires_grad(values)
        with contextlib.nullcontext() if is_free else torch.no_grad():
            return step_of(program, (False,) * len(values)).on(device)(on_device(values))
    memory = TensorMemory()
    arrays = memory.arrays(values)
    return each(on_tensors(program.run, arrays), memory.passed_on if passes_on else memory.owned)


def _run_batch(
    at_once: Callable[..., list[Any]],
    one_by_one: Callable[..., list[Any]],
    program: CompiledGraph,
    values: Sequence[Any],
    *,
    passes_on: bool,
) -> list[Any]:
    """The outputs for a batch of gradients: one by one where ops that know batches are not all that there is to do
    with them. torch has fewer of these here than under `torch.func.vmap`."""
    if step_of(program, (False,) * len(values)).is_batchable:
        try:
            return at_once(program, values, passes_on=passes_on)
        except RuntimeFailure:
            pass  # What one gradient cannot do either is told of that one.
    return run_per_gradient(partial(one_by_one, program, passes_on=passes_on), values)


def _is_batch(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_batch, value))
    return isinstance(value, torch.Tensor) and is_batch_of_gradients(value)

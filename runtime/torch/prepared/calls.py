"""Calls on tensors, prepared: what follows from the kinds of the arguments alone is found once, and kept by them.

A call on few elements costs what the host does for it, so it does no more than to look up what it is (recent.py), run
the program, and hand torch what the backward needs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import torch

from ....compiler.analysis.draws import is_random
from ....compiler.autodiff.marked_results import ResultMark
from ....compiler.types.types import BOOL, is_tensor
from ...settings.modes import TOUCHED, usual_backend
from ..array_runs import (
    SingleLevelFunction,
    has_quick_calls,
    new_kinds,
    quick_call,
    quick_node,
    remember,
)
from ..devices import DeviceMemory, FixedRun
from ..kinds import PLAIN, SYMBOLIC, dispatch_keys, kind_of
from ..places import NestedPlaces, TensorPlace, each
from ..recorded.kept_places import NUMPY_DTYPE, KeptPlaces, fits
from ..recorded.node import NO_MARKS, is_transformed, named, run_program
from ..second_derivatives import KeptArguments
from ..steps import Step, step_of
from ..tracing import leave_to_python
from .fixed_calls import ListCall

TorchValues = Sequence[Any]
PreparedRun = Callable[[TorchValues], list[Any]]
MAX_BACKWARDS = 32
"""Kinds of gradients of outputs, of one call; beyond, all are forgotten."""

CONSTANTS = (int, bool, str, type(None))
"""What is part of what a call is by its value."""
_PLAIN = PLAIN
_grad_enabled: Callable[[], bool] = torch.is_grad_enabled


def is_plain(value: Any) -> bool:
    """Whether a value, one that signatures tell of, is a tensor as kernels and plans take it, or none."""
    if type(value) is list:
        return all(map(is_plain, value))
    if not isinstance(value, torch.Tensor):
        return True
    return kind_of(value) not in (SYMBOLIC, "meta") and value.layout is torch.strided and not value.is_neg()


class PlainCall:
    """Of which nothing is recorded. `rest` are the values of the arguments that a call leaves out."""

    __slots__ = ("_rest", "fixed", "quick")

    def __init__(self, fixed: FixedRun, rest: TorchValues) -> None:
        self.fixed = fixed
        self._rest = rest
        self.quick = quick_call(fixed, self, rest, None)

    def __call__(self, args: TorchValues, arrays: list[Any] | None = None) -> Any:
        """The result; `arrays` has, where it is there, arrays for the tensors among the arguments."""
        if self._rest:
            args = [*args, *self._rest]
            arrays = None if arrays is None else [*arrays, *self._rest]
        results = self.fixed.run(args) if arrays is None else self.fixed.run(args, arrays)  # type: ignore[call-arg]
        return results[0] if len(results) == 1 else tuple(results)


class NodeCall:
    """Of which torch records a node. Its row holds the outputs that are tensors, each once."""

    def __init__(
        self,
        device: str,
        step: Step,
        fixed: FixedRun,
        values: TorchValues,
        rest: TorchValues,
        marks: Mapping[int, ResultMark] = NO_MARKS,
    ) -> None:
        self.step = step
        self.fixed = fixed
        self._device = device
        self._rest = rest
        tensors = [i for i, output in enumerate(step.graph.outputs) if is_tensor(output.type)]
        distinct = [i for i in tensors if i not in step.repeated]
        place = {i: distinct.index(step.repeated.get(i, i)) for i in tensors}
        self._row = distinct if len(distinct) < len(step.graph.outputs) else None
        # Behind the results stand those marks that a run decides; of two that are one, the first is there.
        asked = [(place[i], mark) for i, mark in marks.items() if type(mark) is int]
        self._results = [place[i] for i in range(step.num_real - len({mark for _, mark in asked}))]
        self._asked = [(i, step.repeated.get(mark, mark)) for i, mark in asked]
        self._never = {place[i] for i, mark in marks.items() if mark is False}
        self._num_real = sum(i < step.num_real for i in distinct)
        self._is_all_new = all(fixed.is_new[i] for i in distinct)
        self._tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
        self._takes_all = len(self._tensors) == len(values)
        self._shapes = [values[i].shape for i in self._tensors]
        self._at_inputs = [i for i in step.captured_inputs if i in self._tensors]
        self._at_outputs = [place[i] for i in step.captured_outputs if i in place]
        self._saved_inputs, self._saved_outputs = _taker(self._at_inputs), _taker(self._at_outputs)
        self._numbers = [(n, i) for n, i in enumerate(step.captured_inputs) if i not in self._tensors]
        outputs = enumerate(step.captured_outputs, len(step.captured_inputs))
        self._computed_numbers = [(n, i) for n, i in outputs if i not in place]
        self._has_numbers = bool(self._numbers or self._computed_numbers)
        kept = [(n, step.graph.inputs[i]) for n, i in self._numbers]
        kept += [(n, step.graph.outputs[i]) for n, i in self._computed_numbers]
        # Seeds are other ones in each call, and decide nothing. On the CPU the way that a branch went does.
        self._seeds = frozenset(n for n, value in kept if is_random(value.node))
        self._settling = [n for n, value in kept if value.type == BOOL or (device != "cpu" and n not in self._seeds)]
        self._vjps = [None if i in step.repeated else place[i] for i in step.input_vjps]
        self._outputs: list[NestedPlaces] = [TensorPlace(place[i]) for i in step.input_vjps]
        self._arguments = [TensorPlace(self._tensors.index(i)) for i in step.output_vjps]
        self._places = {i: TensorPlace(place) for place, i in enumerate(self._tensors)}
        self._without: list[int] | None = None
        self._backwards: dict[Hashable, PreparedRun | None] = {}
        self._known_backwards = new_kinds()
        self._apply = named(PreparedFunction, step.name).apply
        self.quick = self._made_quick()

    def _made_quick(self) -> Any:
        """The same without Python; None where that cannot be."""
        if not has_quick_calls():
            return None
        return quick_call(
            self.fixed,
            self,
            self._rest,
            self._results,
            apply=named(quick_node(), self.step.name).apply,
            backwards=self._known_backwards,
            tensors=self._tensors,
            row=self._row if self._row is not None else range(len(self.step.graph.outputs)),
            saved_inputs=self._at_inputs,
            saved_outputs=self._at_outputs,
            vjps=[-1 if place is None else place for place in self._vjps],
            marked=[place for place, _ in self._asked],
            marks=[mark for _, mark in self._asked],
            numbers=[n for n, _ in (*self._numbers, *self._computed_numbers)],
            number_sources=[*[i for _, i in self._numbers], *[-1 - i for _, i in self._computed_numbers]],
            places=self._arguments,
            shapes=[tuple(self._shapes[place]) for place in self._arguments],
            arguments=self.arguments if self.step.pullback is not None else None,
        )

    def __call__(self, args: TorchValues, arrays: list[Any] | None = None) -> Any:
        """The result; `arrays` has, where it is there, arrays for the tensors among the arguments."""
        if self._rest:
            args = [*args, *self._rest]
            arrays = None if arrays is None else [*arrays, *self._rest]
        row = self._apply(self, args, arrays, *(args if self._takes_all else [args[i] for i in self._tensors]))
        if len(self._results) == 1:
            return row[self._results[0]]
        return tuple([row[i] for i in self._results])

    @staticmethod
    def forward(
        ctx: Any, self: NodeCall, values: TorchValues, arrays: list[Any] | None, *tensors: Any
    ) -> tuple[Any, ...]:
        """The row of outputs; what backward needs is kept in `ctx`. It is the node's own, for the sake of speed."""
        results = self.fixed.run(values) if arrays is None else self.fixed.run(values, arrays)  # type: ignore[call-arg]
        row = self.recorded(ctx, values, results)
        ctx.call = self
        return row

    def recorded(self, ctx: Any, values: TorchValues, results: TorchValues) -> tuple[Any, ...]:
        """The row of a program's results; what backward needs is kept in `ctx`."""
        row = results if self._row is None else [results[i] for i in self._row]
        if not self._is_all_new:
            memory = DeviceMemory(values)
            row = each(row[: self._num_real], memory.owned) + each(row[self._num_real :], memory.shared)
        fixed = without = self._without if self._without is not None else self._find_without(row)
        if self._asked:
            without = [*fixed, *(place for place, mark in self._asked if not results[mark])]
        if without:
            # What a branch that was not taken would have kept is None.
            ctx.mark_non_differentiable(*[row[i] for i in without if row[i] is not None])
        # What `set_materialize_grads` and `save_for_backward` do, without two calls.
        ctx.materialize_grads = False
        ctx.to_save = (*self._saved_inputs(values), *self._saved_outputs(row))
        if self.step.pullback is not None:
            ctx.given = self.arguments(values)
        if self._has_numbers:
            numbers = [(n, values[i]) for n, i in self._numbers]
            ctx.numbers = numbers + [(n, results[i]) for n, i in self._computed_numbers]
        if self.quick is not None and self._is_all_new:
            self.quick.settle(fixed)
        return tuple(row)

    def arguments(self, values: TorchValues) -> KeptArguments:
        """What a second derivative computes the backward from."""
        layouts = [self._places.get(i, value) for i, value in enumerate(values)]
        return KeptArguments.of(layouts, [values[i] for i in self._tensors])

    def _find_without(self, row: TorchValues) -> list[int]:
        """The places of outputs that have no gradient, whichever branches a call takes."""
        found = [
            i
            for i, tensor in enumerate(row)
            if TensorPlace(i) not in self._outputs
            or i in self._never
            or (tensor is not None and not tensor.is_floating_point())
        ]
        self._without = found
        return found

    def gradients(self, ctx: Any, given: TorchValues, saved: TorchValues) -> TorchValues:
        """The gradients of the tensors, in a row."""
        captures = [*saved]
        if self._has_numbers:
            for n, value in ctx.numbers:
                captures.insert(n, value)
        if self.step.pullback is not None and _grad_enabled():
            return self._kept(captures, ctx.given).gradients((), given)
        values = [*[None if place is None else given[place] for place in self._vjps], *captures]
        results = self._known_backwards(values)
        if results is NotImplemented:
            run = self._backward(values)
            if run is None:
                return self._kept(captures).gradients((), given)
            results = run(values)
        row: list[Any] = [None] * len(self._tensors)
        for place, result in zip(self._arguments, results, strict=True):
            shape = self._shapes[place]
            if result is not None and result.shape != shape and not fits(shape, result.shape):
                return self._kept(captures).gradients((), given)
            row[place] = result
        return row

    def _backward(self, values: TorchValues) -> PreparedRun | None:
        """What gives the gradients for these of the outputs and what was saved; None where the usual node does."""
        told = _is_told if self._device == "cpu" else _is_told_with_lists
        if _grad_enabled() or is_transformed() or not all(map(told, values)):
            return None
        vjps = values[: len(self._vjps)]
        pattern = (
            usual_backend() if TOUCHED.any else "",
            *[_described(values[len(self._vjps) + n]) for n in self._settling],
            *[
                None if vjp is None else (dispatch_keys(vjp).raw_repr(), vjp.dtype, vjp.shape, vjp.stride())
                for vjp in vjps
            ],
        )
        try:
            return self._backwards[pattern]
        except KeyError:
            return self._prepare_backward(pattern, vjps, values)

    def _kept(self, captures: list[Any], arguments: KeptArguments | None = None) -> KeptPlaces:
        """What the usual node keeps, for what is differentiated in turn and for what goes wrong."""
        return KeptPlaces(
            self.step, run_program, captures, self._outputs, self._arguments, {}, self._shapes, (), arguments
        )

    def _prepare_backward(self, pattern: Hashable, vjps: TorchValues, values: TorchValues) -> PreparedRun | None:
        if len(self._backwards) >= MAX_BACKWARDS:
            self._backwards.clear()
        self._backwards[pattern] = run = self._made_backward(vjps, values)
        return run

    def _made_backward(self, vjps: TorchValues, values: TorchValues) -> PreparedRun | None:
        if all(vjp is None for vjp in vjps):
            return lambda values: [None] * len(self._arguments)
        if not all(map(is_plain, values)) or usual_backend() is None:
            return None
        program = self.step.backward(tuple([None if vjp is None else NUMPY_DTYPE[vjp.dtype] for vjp in vjps]))
        step = step_of(program, (False,) * len(values))
        if self._device != "cpu":
            found = step.on(self._device)
            prepared = found.fixed(values)
            return found if prepared is None else prepared.run
        fixed = step.array_run(values, passes_on=True)
        seeds = frozenset(len(vjps) + n for n in self._seeds)
        remember(self._known_backwards, fixed.quick, values, fixed, seeds)
        return fixed.run


class PreparedFunction(SingleLevelFunction):
    """The node of a NodeCall: `apply(call, values, arrays, *tensors)` gives its row. Under no transform."""

    forward = staticmethod(NodeCall.forward)

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        return (None, None, None, *ctx.call.gradients(ctx, given, ctx.saved_tensors))


leave_to_python(PreparedFunction.backward)

PreparedCall: TypeAlias = PlainCall | NodeCall | ListCall


def _taker(places: Sequence[int]) -> Callable[[TorchValues], TorchValues]:
    """What gives what is at some places of a row."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


def _gradient_kind(vjp: torch.Tensor) -> Hashable:
    """What decides how a backward runs of the gradient of an output."""
    return (dispatch_keys(vjp).raw_repr(), vjp.dtype, vjp.shape, vjp.stride())


def _is_told(value: Any) -> bool:
    """Whether signatures tell all there is to know of a value, elements and floats aside."""
    return type(value) in _PLAIN or _is_constant(value)


def _is_told_with_lists(value: Any) -> bool:
    """The same where what is saved may have lists of constants in it, as the sizes of a tensor."""
    return all(map(_is_told_with_lists, value)) if type(value) is list else _is_told(value)


def _described(value: Any) -> Hashable:
    """What is saved besides tensors, as far as it may decide how a backward runs: floats are parameters of kernels."""
    if type(value) is list:
        return tuple(map(_described, value))
    return float if type(value) is float else value


def _is_constant(value: Any) -> bool:
    return type(value) is float or type(value) in CONSTANTS

"""Calls on a device, prepared: what follows from the kinds of the arguments alone is found once, and kept by them.

A call on few elements costs what the host does for it, so it does no more than to look up what it is (`signature`),
run the program, and hand torch what the backward needs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import torch
from torch.autograd import forward_ad

from ...compiler.types.types import Type, is_tensor, leaf_of
from ..execution.differentiated import Program
from .devices import DeviceMemory, FixedRun, GraphRun
from .kernels import kernel_program
from .kinds import is_on_cpu
from .node import NUMPY_DTYPE, Kept, fits, gradient_key, is_transformed
from .places import Layout, Place, each
from .steps import Step, step_of

Values = Sequence[Any]

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_CONSTANTS = (int, bool, str, type(None))
_grad_enabled: Callable[[], bool] = torch.is_grad_enabled


def signature(values: Values) -> Hashable:
    """What decides how a call runs, apart from elements and floats; None unless all tensors are plain ones of a device
    and nothing is transformed."""
    if is_transformed() or forward_ad._current_level >= 0:
        return None
    key: list[Hashable] = [_grad_enabled()]
    try:
        for value in values:
            kind = type(value)
            if kind in _PLAIN:
                if is_on_cpu(value) or value.layout is not torch.strided or value.is_neg():
                    return None
                key += (value.device, value.dtype, value.shape, value.stride(), value.requires_grad)
            elif kind is float:
                key.append(float)
            elif kind in _CONSTANTS:
                key.append((kind, value))
            else:
                return None
    except RuntimeError:
        # Nested tensors have no shape.
        return None
    return tuple(key)


class PlainCall:
    """Of which nothing is recorded. `rest` are the values of the arguments that a call leaves out."""

    __slots__ = ("_rest", "_run")

    def __init__(self, fixed: FixedRun, rest: Values) -> None:
        self._run = fixed.run
        self._rest = rest

    def __call__(self, args: Values) -> Any:
        results = self._run([*args, *self._rest])
        return results[0] if len(results) == 1 else tuple(results)


class NodeCall:
    """Of which torch records a node. Its row holds the outputs that are tensors, each once."""

    def __init__(self, device: str, step: Step, fixed: FixedRun, values: Values, rest: Values) -> None:
        self.step = step
        self._device = device
        self._run = fixed.run
        self._rest = rest
        tensors = [i for i, output in enumerate(step.graph.outputs) if is_tensor(output.type)]
        distinct = [i for i in tensors if i not in step.repeated]
        place = {i: distinct.index(step.repeated.get(i, i)) for i in tensors}
        self._row = distinct if len(distinct) < len(step.graph.outputs) else None
        self._results = [place[i] for i in range(step.num_real)]
        self._num_real = sum(i < step.num_real for i in distinct)
        self._is_all_new = all(fixed.is_new[i] for i in distinct)
        self._tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
        self._shapes = [values[i].shape for i in self._tensors]
        self._saved_inputs = [i for i in step.captured_inputs if i in self._tensors]
        self._saved_outputs = [place[i] for i in step.captured_outputs if i in place]
        self._numbers = [(n, i) for n, i in enumerate(step.captured_inputs) if i not in self._tensors]
        outputs = enumerate(step.captured_outputs, len(step.captured_inputs))
        self._computed_numbers = [(n, i) for n, i in outputs if i not in place]
        self._vjps = [None if i in step.repeated else place[i] for i in step.input_vjps]
        self._outputs: list[Layout] = [Place(place[i]) for i in step.input_vjps]
        self._arguments = [Place(self._tensors.index(i)) for i in step.output_vjps]
        self._without: list[int] | None = None
        self._backwards: dict[Hashable, GraphRun] = {}

    def __call__(self, args: Values) -> Any:
        values = [*args, *self._rest]
        row = PreparedFunction.apply(self, values, *[values[i] for i in self._tensors])
        if len(self._results) == 1:
            return row[self._results[0]]
        return tuple([row[i] for i in self._results])

    def forward(self, ctx: Any, values: Values) -> tuple[Any, ...]:
        """The row of outputs; what backward needs is kept in `ctx`."""
        results = self._run(values)
        row = results if self._row is None else [results[i] for i in self._row]
        if not self._is_all_new:
            memory = DeviceMemory(values)
            row = each(row[: self._num_real], memory.owned) + each(row[self._num_real :], memory.shared)
        without = self._without if self._without is not None else self._find_without(row)
        if without:
            ctx.mark_non_differentiable(*[row[i] for i in without])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*[values[i] for i in self._saved_inputs], *[row[i] for i in self._saved_outputs])
        ctx.call = self
        ctx.numbers = [(n, values[i]) for n, i in self._numbers] + [(n, results[i]) for n, i in self._computed_numbers]
        return tuple(row)

    def _find_without(self, row: Values) -> list[int]:
        """The places of outputs that have no gradient."""
        found = [i for i, tensor in enumerate(row) if Place(i) not in self._outputs or not tensor.is_floating_point()]
        self._without = found
        return found

    def gradients(self, numbers: Values, saved: Values, given: Values) -> list[Any]:
        """The gradients of the tensors, in a row."""
        vjps = [None if place is None else _negated(given[place]) for place in self._vjps]
        captures = self._captures(numbers, saved)
        if _grad_enabled() or is_transformed():
            return self._kept(captures).gradients((), given)
        pattern = tuple([None if vjp is None else vjp.dtype for vjp in vjps])
        run = self._backwards.get(pattern) or self._backward(pattern, len(vjps) + len(captures))
        row: list[Any] = [None] * len(self._tensors)
        for place, result in zip(self._arguments, run([*vjps, *captures]), strict=True):
            shape = self._shapes[place]
            if result is not None and result.shape != shape and not fits(result.shape, shape):
                return self._kept(captures).gradients((), given)
            row[place] = result
        return row

    def _captures(self, numbers: Values, saved: Values) -> list[Any]:
        captures = [*saved]
        for n, value in numbers:
            captures.insert(n, value)
        return captures

    def _kept(self, captures: list[Any]) -> Kept:
        """What the usual node keeps, for what is differentiated in turn and for what goes wrong."""
        return Kept(self.step, captures, self._outputs, self._arguments, {}, self._shapes)

    def _backward(self, pattern: Sequence[Any], count: int) -> Callable[[Values], list[Any]]:
        if all(dtype is None for dtype in pattern):
            return lambda values: [None] * len(self._arguments)
        program = self.step.backward(tuple([None if dtype is None else NUMPY_DTYPE[dtype] for dtype in pattern]))
        run = self._backwards[pattern] = step_of(program, (False,) * count).on(self._device)
        return run


class PreparedFunction(torch.autograd.Function):  # type: ignore[misc] # torch is not typed here
    """The node of a NodeCall: `apply(call, values, *tensors)` gives its row."""

    @staticmethod
    def forward(ctx: Any, call: NodeCall, values: Values, *tensors: Any) -> tuple[Any, ...]:
        return call.forward(ctx, values)

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        saved, call = ctx.saved_tensors, ctx.call
        return (None, None, *call.gradients(ctx.numbers, saved, given))


PreparedCall: TypeAlias = PlainCall | NodeCall


def prepare(program: Program, device: str, args: Values, values: Values) -> PreparedCall | None:
    """The call of a program with such arguments, which were bound to `values`; None where it cannot be prepared."""
    rest = values[len(args) :]
    if any(value is not arg for value, arg in zip(values, args, strict=False)) or not all(map(_is_constant, rest)):
        return None
    key = gradient_key(values) if _grad_enabled() else ()
    step = step_of(kernel_program(program, values, key), key) if True in key else None
    if step is None or not step.input_vjps:
        fixed = step_of(program, (False,) * len(values)).on(device).fixed(values)
        return None if fixed is None else PlainCall(fixed, rest)
    fixed = step.on(device).fixed(values)
    outputs = step.graph.outputs
    if fixed is None or not all(is_tensor(output.type) for output in outputs[: step.num_real]):
        return None
    if any(_is_list_of_tensors(output.type) for output in outputs):
        return None
    return NodeCall(device, step, fixed, values, rest)


def _negated(gradient: Any) -> Any:
    """A gradient that torch has put off negating is negated."""
    return gradient if gradient is None or not gradient.is_neg() else gradient.resolve_neg()


def _is_list_of_tensors(type: Type) -> bool:
    return not is_tensor(type) and is_tensor(leaf_of(type))


def _is_constant(value: Any) -> bool:
    return type(value) is float or type(value) in _CONSTANTS

"""What works on values and is not recorded, on tensors of a device: `f.forward`, `f.backward`, `gs.vjp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...compiler.autodiff.flatten import flatten_signature, leaves, rebuilt
from ...compiler.ir.graph import Graph
from ...compiler.types.schema import Argument
from ..execution.binding import Binder
from ..execution.compiled import Compiled
from ..execution.differentiated import CompiledGraph
from ..failures.failure import RuntimeFailure
from ..tape.programs import program_of
from ..values.recorded import RecordedCall
from ..values.unsuitable import Unsuitable
from .places import each
from .recorded.node import run_plainly, run_program
from .tensors import check_devices, checked


class Bound:
    """Arguments of a function as its graph takes them, tensors where they are."""

    def __init__(self, name: str, arguments: Sequence[Argument], graph: Graph) -> None:
        self._name = name
        self._arguments = arguments
        self._graph = graph
        self._binder = Binder(name, arguments, graph.span, checked)

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """One value per parameter; RuntimeFailure for what does not fit."""
        try:
            values = self._binder.bind(tuple(args), kwargs)
        except RecordedCall as call:
            message = f"a {type(call.taker).__name__} stands where a tensor is needed"
            raise RuntimeFailure("R002", self._name, message, span=self._graph.span) from None
        check_devices(self._name, self._arguments, values, self._graph.span)
        return values


class Half:
    """One graph of a pair: the forward, whose last result is the context, or the backward, which takes that first."""

    def __init__(self, name: str, arguments: Sequence[Argument], graph: Graph) -> None:
        self._bound = Bound(name, arguments, graph)
        self._program = CompiledGraph(flatten_signature(graph), graph.title)
        self._inputs = [value.type for value in graph.inputs]
        self._outputs = [value.type for value in graph.outputs]

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        flat = leaves(self._bound(args, kwargs), self._inputs)
        with torch.no_grad():
            results = run_plainly(self._program, each(flat, _without_history), passes_on=True)
        return rebuilt(iter(results), self._outputs)


class RecordedFunction:
    """A function recorded by torch, with the methods of `Differentiated` that a pullback needs."""

    def __init__(self, function: Compiled) -> None:
        self._bound = Bound(function.name, function.schema.arguments, function.graph)
        self._program, _ = program_of(function)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        return self._bound(args, kwargs)

    def run(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs, and what the backward needs: the arguments and outputs that torch recorded."""
        with torch.enable_grad():
            inputs = each(values, _leaf)
            outputs = run_program(self._program, inputs)
        return each(outputs, _without_history), [inputs, outputs]

    def pull_back(self, values: Sequence[Any], seeds: Sequence[Any], residuals: Sequence[Any]) -> list[Any]:
        """One gradient per argument, given one per output; in a list, zeros for what no output depends on."""
        inputs, outputs = residuals
        pairs = [pair for output, seed in zip(outputs, seeds, strict=True) for pair in _seeded(output, seed)]
        wanted = [t for value in inputs for t in _tensors(value) if t.requires_grad]
        found: list[Any] = [None] * len(wanted)
        if pairs and wanted:
            ends, given = zip(*pairs, strict=True)
            found = list(torch.autograd.grad(ends, wanted, given, retain_graph=True, allow_unused=True))
        gradient = {id(tensor): gradient for tensor, gradient in zip(wanted, found, strict=True)}
        return [_gradient(value, gradient) for value in inputs]

    # --- gradients of outputs ---

    @staticmethod
    def can_have_gradient(output: Any) -> bool:
        return any(tensor.is_floating_point() for tensor in _tensors(output))

    @staticmethod
    def seed(given: Any, output: Any) -> Any:
        """The gradient of an output as a tensor beside it; Unsuitable for what is none."""
        try:
            return torch.as_tensor(given, dtype=output.dtype, device=output.device)
        except (RuntimeError, TypeError, ValueError) as error:
            raise Unsuitable(f"a Tensor is needed: {error}") from None


def _seeded(output: Any, seed: Any) -> list[tuple[Any, Any]]:
    """Recorded outputs with their gradients."""
    if isinstance(output, list):
        given = seed if seed is not None else [None] * len(output)
        return [pair for item, one in zip(output, given, strict=True) for pair in _seeded(item, one)]
    is_recorded = seed is not None and isinstance(output, torch.Tensor) and output.requires_grad
    return [(output, seed)] if is_recorded else []


def _gradient(value: Any, gradient: Mapping[int, Any]) -> Any:
    if not isinstance(value, list):
        return gradient.get(id(value))
    found = [_gradient(item, gradient) for item in value]
    if all(item is None for item in found):
        return None
    return [torch.zeros_like(v) if g is None else g for v, g in zip(value, found, strict=True)]


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def _without_history(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _leaf(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().requires_grad_(value.is_floating_point())

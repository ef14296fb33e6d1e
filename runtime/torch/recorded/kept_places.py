"""What the node of a recorded call keeps besides tensors, and the gradients of its arguments that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ....compiler.ir.graph import backward_of
from ....compiler.ops.arrays import numpy_dtype
from ....lang.light_dataclasses import dataclass
from ...failures.failure import RuntimeFailure
from ..places import NestedPlaces, TensorPlace, places, put_together
from ..second_derivatives import KeptArguments
from ..steps import Step
from ..tensors import DTYPE_OF
from ..transforms import transposed

NUMPY_DTYPE = {torch_dtype: numpy_dtype(dtype) for torch_dtype, dtype in DTYPE_OF.items()}


@dataclass(slots=True)
class KeptPlaces:
    """What a node keeps besides tensors: where captures, gradients of outputs and those of arguments stand."""

    step: Step
    run: Callable[..., list[Any]]
    """What runs a program of gradients on values: it may be recorded in turn, as a node of this kind."""
    captures: list[NestedPlaces]
    outputs: list[NestedPlaces]
    arguments: list[NestedPlaces]
    metadata: dict[int, tuple[Any, ...]]
    """Of outputs that stand in lists: shape, dtype, device; nothing where they are not floating."""
    shapes: list[Any]
    row: Sequence[tuple[Any, ...]] = ()
    """Of outputs, where they may have tangents: shape, dtype, device; nothing of those without a gradient."""
    given: KeptArguments | None = None
    """The arguments, where second derivatives are made of them."""
    by_kind: Callable[[Sequence[Any], Sequence[NestedPlaces], Sequence[Any]], Any] | None = None
    """What gives the gradients for those of outputs, what is kept, and both as values, where such are known already."""

    def tangents(self, saved: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The tangents of the outputs' tensors, in a row, for those of the arguments' tensors.

        Gradients are linear in those of the outputs, so what goes forward is the transpose of what goes backward.
        """
        seeded = [i for i, like in enumerate(self.row) if like]
        moved = [i for i, tangent in enumerate(given) if tangent is not None]
        row: list[Any] = [None] * len(self.row)

        def backward(*gradients: Any) -> list[Any]:
            seeds = dict(zip(seeded, gradients, strict=True))
            found = self.gradients(saved, [seeds.get(i) for i in range(len(row))])
            return [found[i] for i in moved]

        likes = [self.row[i] for i in seeded]
        for i, tangent in zip(seeded, transposed(backward, likes, [given[i] for i in moved]), strict=True):
            row[i] = tangent
        return row

    def gradients(self, saved: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The gradients of the arguments' tensors, in a row."""
        vjps = [self._vjp(layout, given) for layout in self.outputs]
        if self.step.repeated:
            self._clear_repeated(vjps, len(given))
        if self.given is not None and torch.is_grad_enabled():
            return self._recorded(self.given, vjps)
        values = [*vjps, *put_together(self.captures, saved)]
        results = None if self.by_kind is None else self.by_kind(vjps, self.captures, values)
        if results is None:
            program = self.step.backward(tuple([pattern_of_tensor(vjp) for vjp in vjps]))
            results = self.run(program, values, passes_on=True)
        return self.spread(results)

    def spread(self, results: Sequence[Any]) -> list[Any]:
        """Gradients of arguments, as values, in the row. RuntimeFailure, where one does not fit."""
        row: list[Any] = [None] * len(self.shapes)
        for i, layout, result in zip(self.step.output_vjps, self.arguments, results, strict=True):
            self._spread(self.step.inputs[i], layout, result, row)
        return row

    def _recorded(self, kept: KeptArguments, vjps: list[Any]) -> list[Any]:
        """The same, made anew of the arguments, so that it differentiates again."""
        pullback, by_output = self.step.pullback, dict(zip(self.step.input_vjps, vjps, strict=True))
        assert pullback is not None
        gradient = pullback.differentiated.gradient
        seeds = [by_output.get(i) for i in gradient.input_vjps]
        program = pullback.program(tuple([pattern_of_tensor(seed) for seed in seeds]))
        results = self.run(program, [*seeds, *kept.values(self.step.name)])
        row: list[Any] = [None] * len(self.shapes)
        for i, result in zip(gradient.output_vjps, results, strict=True):
            self._spread(self.step.inputs[i], kept.layouts[i], result, row)
        return row

    def _clear_repeated(self, vjps: list[Any], count: int) -> None:
        """The gradients of outputs that are one value have met at the first of them."""
        for position, i in enumerate(self.step.input_vjps):
            if i in self.step.repeated:
                vjps[position] = self._vjp(self.outputs[position], [None] * count)

    def _vjp(self, layout: NestedPlaces, given: Sequence[Any]) -> Any:
        """The gradient of one output; of a list, a list, with None for what is undefined in it."""
        if type(layout) is TensorPlace:
            return given[layout]
        if not isinstance(layout, list) or all(given[p] is None for p in places(layout)):
            return None
        return self._elements(layout, given)

    def _elements(self, layout: list[NestedPlaces], given: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for item in layout:
            if isinstance(item, list):
                found.append(self._elements(item, given))
            else:
                found.append(given[item] if type(item) is TensorPlace else None)
        return found

    def _spread(self, name: str, layout: NestedPlaces, result: Any, row: list[Any]) -> None:
        """Put gradients in the row; torch itself sums one whose argument was broadcast, and casts it."""
        if type(layout) is TensorPlace:
            if result is not None and not fits(self.shapes[layout], result.shape):
                raise self._unfit(name, result.shape, self.shapes[layout])
            row[layout] = result
        elif isinstance(layout, list) and result is not None:
            for item, gradient in zip(layout, result, strict=True):
                self._spread(name, item, gradient, row)

    def _unfit(self, name: str, shape: Sequence[int], wanted: Sequence[int]) -> RuntimeFailure:
        message = f"the gradient of '{name}' has shape {list(shape)}, the argument {list(wanted)}"
        note = "a backward returns gradients in the shapes of the inputs: `.sum_to_size(x.size())`"
        op = backward_of(self.step.name)
        return RuntimeFailure("R101", op, message, argument=name, span=self.step.graph.span, notes=[note])


def pattern_of_tensor(vjp: Any) -> Any:
    """The part of a Pattern for one gradient."""
    if vjp is None:
        return None
    return list if isinstance(vjp, list) else NUMPY_DTYPE[vjp.dtype]


def fits(shape: Sequence[int], wider: Sequence[int]) -> bool:
    """Whether a tensor of the one shape broadcasts to the other."""
    if shape == wider:
        return True
    if len(shape) > len(wider):
        return False
    return all(size in (1, target) for size, target in zip(reversed(shape), reversed(wider), strict=False))

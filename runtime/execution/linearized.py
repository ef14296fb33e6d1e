"""A Gradient ready to run: the forward plan, and one backward plan per pattern of gradients that are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.autodiff import Gradient
from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Graph
from ...compiler.ops.arrays import Array, dtype_of
from ...compiler.ops.meta import UNKNOWN, Meta
from ...compiler.pipeline import run_recipe
from ...compiler.shapes.propagate import Abstract, ShapeError, propagate_shapes
from ...compiler.specialize.settle import settle_shapes
from ...compiler.types.dtypes import BY_CODE, DType
from ...compiler.types.types import UNDEFINED, TensorType, Type, is_tensor
from ..failures.failed_node import misfit
from ..failures.failure import RuntimeFailure
from ..plans.build import build_plan
from ..plans.interpreter import execute, run_plan
from ..plans.plan import ExecutionPlan
from ..values.arrays import to_array


class Linearized:
    """A Gradient, ready to run, on arguments with their tuples taken apart: of any shape, or of `shapes` alone.

    Outputs and residuals of `run` are what `pull_back` takes.
    """

    def __init__(self, gradient: Gradient, shapes: Sequence[Abstract] | None = None) -> None:
        self.gradient = gradient
        self._known = self._known_values(shapes)
        self.forward = build_plan(optimized(gradient.f))
        self._backward: dict[tuple[DType | None, ...], ExecutionPlan] = {}

    def run(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs, and what the backward needs of the forward."""
        return self.parted(values, run_plan(self.forward, values))

    def parted(self, values: Sequence[Any], results: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs, and what the backward needs, of the results of the forward plan."""
        gradient = self.gradient
        residuals = [values[i] for i in gradient.captured_inputs]
        residuals += [results[i] for i in gradient.captured_outputs]
        return [*results[: gradient.num_real_outputs]], residuals

    def pull_back(self, values: Sequence[Any], seeds: Sequence[Any], residuals: Sequence[Any]) -> list[Any]:
        """One gradient per argument, given one per output."""
        vjps = self.vjps(seeds)
        plan = self.backward(vjps)
        return self.fitted(values, plan, run_plan(plan, [*vjps, *residuals]))

    def pull_back_once(self, values: Sequence[Any], seeds: Sequence[Any], residuals: list[Any]) -> list[Any]:
        """As `pull_back`, but `residuals` is emptied: each is freed after its last use."""
        vjps = self.vjps(seeds)
        plan = self.backward(vjps)
        registers = [*vjps, *residuals, *plan.template]
        residuals.clear()
        return self.fitted(values, plan, execute(plan, registers))

    @staticmethod
    def is_floating(output: Any) -> bool:
        return is_floating(output)

    @staticmethod
    def seed(given: Any, output: Any) -> Any:
        """The gradient of an output as an array in its dtype; Unsuitable for what is none."""
        return to_array(given).astype(output.dtype, copy=False)

    def vjps(self, seeds: Sequence[Any]) -> list[Any]:
        """What the backward takes first, given one gradient per output."""
        return [seeds[i] if i < len(seeds) else None for i in self.gradient.input_vjps]

    def backward(self, vjps: Sequence[Any]) -> ExecutionPlan:
        """The plan for gradients of these dtypes, some of them undefined."""
        pattern = tuple([_known_dtype(vjp) for vjp in vjps])
        plan = self._backward.get(pattern)
        if plan is None:
            df = specialized(self.gradient.df, [_gradient_type(dtype) for dtype in pattern])
            plan = self._backward[pattern] = build_plan(aggregated(settled(df, self._abstract(vjps))))
        return plan

    def _known_values(self, shapes: Sequence[Abstract] | None) -> list[Abstract] | None:
        """What is known of what the backward takes of the forward; None where that is nothing."""
        if shapes is None:
            return None
        gradient = self.gradient
        try:
            known = propagate_shapes(gradient.f, shapes)
        except ShapeError:
            return None
        captured = [gradient.f.inputs[i] for i in gradient.captured_inputs]
        captured += [gradient.f.outputs[i] for i in gradient.captured_outputs]
        return [known.get(value, UNKNOWN) for value in captured]

    def _abstract(self, vjps: Sequence[Any]) -> list[Abstract] | None:
        """What is known of what the backward takes."""
        if self._known is None:
            return None
        return [*[Meta.of(v) if isinstance(v, np.ndarray) else UNKNOWN for v in vjps], *self._known]

    def fitted(self, values: Sequence[Any], plan: ExecutionPlan, results: Sequence[Any]) -> list[Any]:
        """One gradient per argument, of the results of a backward plan; none is another's array.

        One that did not come this time, because of the way that branches and loops went, is one of zeros.
        """
        gradients: list[Any] = [None] * len(values)
        taken: set[int] = set()
        for index, result, output in zip(self.gradient.output_vjps, results, plan.graph.outputs, strict=True):
            if output.type != UNDEFINED:
                gradients[index] = _own(_fitted(self.gradient, index, result, values[index]), taken)
        return gradients


def fitted_gradients(gradient: Gradient, values: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """One gradient per argument, of the results of a backward in which it is settled which of them are undefined."""
    gradients: list[Any] = [None] * len(values)
    taken: set[int] = set()
    for index, result in zip(gradient.output_vjps, results, strict=True):
        if result is not None:
            gradients[index] = _own(_fitted(gradient, index, result, values[index]), taken)
    return gradients


def _fitted(whole: Gradient, index: int, gradient: Any, primal: Any) -> Any:
    """A gradient in its argument's dtype; RuntimeFailure where a formula gave it another shape."""
    if isinstance(primal, list):
        gradient = [None] * len(primal) if gradient is None else gradient
        return [_fitted(whole, index, g, p) for g, p in zip(gradient, primal, strict=True)]
    if gradient is None:
        return np.zeros_like(primal)
    if gradient.shape != primal.shape:
        value = whole.f.inputs[index]
        raise RuntimeFailure(
            "R101",
            whole.df.title,
            f"the gradient of '{value.name_hint}' has shape {list(gradient.shape)}, the argument {list(primal.shape)}",
            argument=value.name_hint,
            span=whole.f.span,
            notes=["a backward returns gradients in the shapes of the inputs: `.sum_to_size(x.size())`"],
        )
    return gradient.astype(primal.dtype, copy=False)


def _own(gradient: Any, taken: set[int]) -> Any:
    """A gradient as an array that no other argument has: a copy, where one gradient is that of two."""
    if isinstance(gradient, list):
        return [_own(item, taken) for item in gradient]
    if gradient is None or id(gradient) not in taken:
        taken.add(id(gradient))
        return gradient
    return gradient.copy()


def is_floating(value: Any) -> bool:
    """Whether a value can have a gradient: a floating array, or a list with one in it."""
    if isinstance(value, list):
        return any(is_floating(item) for item in value)
    return isinstance(value, np.ndarray) and dtype_of(value).is_floating


def _gradient_type(dtype: DType | None) -> Type:
    return UNDEFINED if dtype is None else TensorType(dtype)


def _known_dtype(vjp: Array | list[Array] | None) -> DType | None:
    if vjp is None:
        return None
    return dtype_of(vjp) if isinstance(vjp, np.ndarray) else BY_CODE[6]


def specialized(df: Graph, types: Sequence[Type]) -> Graph:
    """A copy of a backward for gradients of known types, one for each that it takes: UNDEFINED for one that is not
    there. A list keeps the type that it has."""
    graph = df.copy()
    first = graph.body.param.next
    assert first is not None
    builder = Builder(graph, before=first)
    for value, type in zip(graph.inputs, types, strict=False):
        if type == UNDEFINED:
            value.replace_uses_with(builder.node("prim::AutogradZero", (), [UNDEFINED]).output)
        elif is_tensor(value.type):
            value.type = type
    return graph


def settled(graph: Graph, known: Sequence[Abstract] | None = None) -> Graph:
    """A copy for execution of a graph in which gradients may be undefined: what they make undefined is not there.

    `known` are the abstract values of its inputs, for a graph that is to run on such alone.
    """
    copied = graph.copy()
    settle(copied, known)
    return copied


def settle(graph: Graph, known: Sequence[Abstract] | None = None) -> None:
    """As `settled`, in place."""
    run_recipe(graph, "settle_gradients")
    if known is not None:
        try:
            settle_shapes(graph, known, unroll=False)
        except ShapeError as error:
            raise misfit(error) from error
    run_recipe(graph, "run")


def aggregated(df: Graph) -> Graph:
    """A settled graph of gradients, in which those that meet have become sums of any number of terms; in place."""
    run_recipe(df, "aggregate")
    return df


def optimized(graph: Graph) -> Graph:
    """A copy of a graph for execution: calls inlined, what is computed twice computed once."""
    copied = graph.copy()
    run_recipe(copied, "run")
    return copied

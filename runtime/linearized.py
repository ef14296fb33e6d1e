"""A Gradient ready to run: the forward plan, and one backward plan per pattern of gradients that are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compiler.autodiff import Gradient
from ..compiler.builder import Builder
from ..compiler.dtypes import BY_CODE, DType
from ..compiler.ir import Graph
from ..compiler.ops.arrays import Array, dtype_of
from ..compiler.passes.inline_functions import inline_functions
from ..compiler.passes.lower_grad_of import lower_grad_of
from ..compiler.passes.specialize_autograd_zero import specialize_autograd_zero
from ..compiler.pipeline import SIMPLIFY, run_passes
from ..compiler.types import UNDEFINED, TensorType, is_tensor
from .failure import RuntimeFailure
from .interpreter import run_plan
from .plan import ExecutionPlan, build_plan


class Linearized:
    """A Gradient, ready to run, on arguments with their tuples taken apart.

    Outputs and residuals of `run` are what `pull_back` takes.
    """

    def __init__(self, gradient: Gradient) -> None:
        self.gradient = gradient
        self._forward = build_plan(optimized(gradient.f))
        self._backward: dict[tuple[DType | None, ...], ExecutionPlan] = {}

    def run(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs, and what the backward needs of the forward."""
        gradient = self.gradient
        results = run_plan(self._forward, values)
        residuals = [values[i] for i in gradient.captured_inputs]
        residuals += [results[i] for i in gradient.captured_outputs]
        return results[: gradient.num_real_outputs], residuals

    def pull_back(self, values: Sequence[Any], seeds: Sequence[Any], residuals: Sequence[Any]) -> list[Any]:
        """One gradient per argument, given one per output."""
        vjps = [seeds[i] if i < len(seeds) else None for i in self.gradient.input_vjps]
        pattern = tuple([_known_dtype(vjp) for vjp in vjps])
        plan = self._backward.get(pattern)
        if plan is None:
            plan = self._backward[pattern] = build_plan(self._specialized(pattern))
        results = run_plan(plan, [*vjps, *residuals])
        gradients: list[Any] = [None] * len(values)
        for index, result in zip(self.gradient.output_vjps, results, strict=True):
            gradients[index] = self._fitted(index, result, values[index])
        return gradients

    def _specialized(self, pattern: Sequence[DType | None]) -> Graph:
        """`df` for gradients that are there (their dtype) or not (None)."""
        graph = self.gradient.df.copy()
        first = graph.body.param.next
        assert first is not None
        builder = Builder(graph, before=first)
        for value, dtype in zip(graph.inputs, pattern, strict=False):
            if dtype is None:
                value.replace_uses_with(builder.node("prim::AutogradZero", (), [UNDEFINED]).output)
            elif is_tensor(value.type):
                value.type = TensorType(dtype)
        specialize_autograd_zero(graph)
        lower_grad_of(graph)
        return optimized(graph)

    def _fitted(self, index: int, gradient: Any, primal: Any) -> Any:
        """A gradient in its argument's dtype; RuntimeFailure where a formula gave it another shape."""
        if gradient is None:
            return None
        if isinstance(gradient, list):
            return [self._fitted(index, g, p) for g, p in zip(gradient, primal, strict=True)]
        if gradient.shape != primal.shape:
            value = self.gradient.f.inputs[index]
            raise RuntimeFailure(
                "R101",
                self.gradient.f.name,
                f"the gradient of '{value.name_hint}' has shape {list(gradient.shape)}, "
                f"the argument {list(primal.shape)}",
                argument=value.name_hint,
                span=self.gradient.f.span,
                notes=["a backward returns gradients in the shapes of the inputs: `.sum_to_size(x.size())`"],
            )
        return gradient.astype(primal.dtype, copy=False)


def _known_dtype(vjp: Array | list[Array] | None) -> DType | None:
    if vjp is None:
        return None
    return dtype_of(vjp) if isinstance(vjp, np.ndarray) else BY_CODE[6]


def optimized(graph: Graph) -> Graph:
    """A copy of a graph for execution: calls inlined, what is computed twice computed once."""
    copied = graph.copy()
    inline_functions(copied)
    run_passes(copied, SIMPLIFY, verify_between=False)
    return copied

"""The node under torch.func: grad, vjp and jacrev record it level by level, vmap runs it once per sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..failure import RuntimeFailure
from .node import Call, GradscriptFunction


class TransformedFunction(GradscriptFunction):
    """As GradscriptFunction, in the form that torch.func takes apart."""

    @staticmethod
    def forward(call: Call, *tensors: Any) -> tuple[Any, ...]:  # type: ignore[override] # the form without a ctx
        return call.run(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        call, *tensors = inputs
        call.remember(ctx, tensors, output)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: Call, *tensors: Any) -> tuple[tuple[Any, ...], Any]:
        """One call per sample; their outputs, stacked along a new first dimension."""
        if not info.batch_size:
            raise _failure(call, "vmap over no samples", "a batch holds one sample at least")
        samples = [call.again() for _ in range(info.batch_size)]
        rows = [
            TransformedFunction.apply(sample, *_sample(tensors, in_dims[1:], i)) for i, sample in enumerate(samples)
        ]
        call.outputs = samples[0].outputs
        if any(sample.outputs != call.outputs for sample in samples) or not _alike(rows):
            message = "under vmap, the samples take different paths or give outputs of different shapes"
            raise _failure(call, message, "call the function once per sample")
        stacked = tuple([torch.stack(column) for column in zip(*rows, strict=True)])
        return stacked, (0,) * len(stacked)


def _sample(tensors: Sequence[Any], dims: Sequence[int | None], index: int) -> list[Any]:
    return [t if dim is None else t.select(dim, index) for t, dim in zip(tensors, dims, strict=True)]


def _alike(rows: Sequence[Sequence[Any]]) -> bool:
    kinds = [[(tensor.shape, tensor.dtype) for tensor in row] for row in rows]
    return all(kind == kinds[0] for kind in kinds)


def _failure(call: Call, message: str, note: str) -> RuntimeFailure:
    return RuntimeFailure("R101", call.step.name, message, span=call.step.graph.span, notes=[note])

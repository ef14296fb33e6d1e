"""A call under torch.func.vmap: once per sample, the outputs stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import torch

from ..failures.failure import RuntimeFailure
from .places import Layout
from .steps import Step


class Repeatable(Protocol):
    """A call of a step that can be made again."""

    step: Step
    outputs: list[Layout]

    def again(self) -> Self: ...


Apply = Callable[..., Sequence[Any]]
"""Runs a call on tensors in a row, and gives those of its outputs."""


def run_per_sample(
    apply: Apply, count: int, dims: Sequence[int | None], call: Repeatable, tensors: Sequence[Any]
) -> tuple[tuple[Any, ...], Any]:
    """One call per sample; their outputs, stacked along a new first dimension, and where that is.

    `dims` says which dimension of each tensor goes over the samples; RuntimeFailure where samples differ in kind.
    """
    if not count:
        raise _failure(call, "vmap over no samples", "a batch holds one sample at least")
    samples = [call.again() for _ in range(count)]
    rows = [apply(sample, *_sample(tensors, dims, i)) for i, sample in enumerate(samples)]
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


def _failure(call: Repeatable, message: str, note: str) -> RuntimeFailure:
    return RuntimeFailure("R101", call.step.name, message, span=call.step.graph.span, notes=[note])

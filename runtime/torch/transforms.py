"""What torch.func asks of a call: under vmap, a run per sample; in forward mode, the transpose of its backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import torch

from ..failures.failure import RuntimeFailure
from .places import Layout
from .steps import Step
from .symbolic import draws_numbers


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
        if draws_numbers(call.step.graph):
            message = "under vmap, a function that draws random numbers has a seed per sample, and a gradient of none"
            raise _failure(call, message, "draw outside, and pass what was drawn; or call the function per sample")
        message = "under vmap, the samples take different paths or give outputs of different shapes"
        raise _failure(call, message, "call the function once per sample")
    stacked = tuple([torch.stack(column) for column in zip(*rows, strict=True)])
    return stacked, (0,) * len(stacked)


def transposed(
    function: Callable[..., Sequence[Any]], likes: Sequence[tuple[Any, ...]], given: Sequence[Any]
) -> Sequence[Any]:
    """What the transpose of a linear function makes of `given`, one for each of its results, by torch.func.vjp.

    Its arguments are like `likes`: shape, dtype, device. A result that is None depends on none of them.
    """
    zeros = [torch.zeros(shape, dtype=dtype, device=device) for shape, dtype, device in likes]
    if not zeros:
        return []

    moved: list[Any] = []

    def present(*arguments: Any) -> tuple[Any, ...]:
        pairs = [(r, g) for r, g in zip(function(*arguments), given, strict=True) if r is not None]
        moved.extend([g.to(r.dtype) for r, g in pairs])
        # There is always a result, as torch.func.vjp wants it.
        return (*[r for r, _ in pairs], arguments[0] * 0)

    _, pull_back = torch.func.vjp(present, *zeros)
    pulled: Sequence[Any] = pull_back((*moved, zeros[0]))
    return pulled


def _sample(tensors: Sequence[Any], dims: Sequence[int | None], index: int) -> list[Any]:
    return [t if dim is None else t.select(dim, index) for t, dim in zip(tensors, dims, strict=True)]


def _alike(rows: Sequence[Sequence[Any]]) -> bool:
    kinds = [[(tensor.shape, tensor.dtype) for tensor in row] for row in rows]
    return all(kind == kinds[0] for kind in kinds)


def _failure(call: Repeatable, message: str, note: str) -> RuntimeFailure:
    return RuntimeFailure("R101", call.step.name, message, span=call.step.graph.span, notes=[note])

"""What torch.func asks of a call: under vmap, a run per sample; in forward mode, the transpose of its backward."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import torch

from ..failures.failure import RuntimeFailure
from ..settings.random import local_seed, next_seed
from .kinds import is_batch_of_gradients
from .places import NestedPlaces, TensorPlace, put_together, take_apart
from .steps import Step
from .symbolic import draws_numbers


class Repeatable(Protocol):
    """A call of a step that can be made again."""

    step: Step
    outputs: list[NestedPlaces]

    def again(self) -> Self: ...


Apply = Callable[..., Sequence[Any]]
"""Runs a call on tensors in a row, and gives those of its outputs."""


def run_per_sample(
    apply: Apply, info: Any, dims: Sequence[int | None], call: Repeatable, tensors: Sequence[Any]
) -> tuple[tuple[Any, ...], Any]:
    """One call per sample; their outputs, stacked along a new first dimension, and where that is.

    `info` is torch's, of the batch; `dims` says which dimension of each tensor goes over the samples. Random numbers
    are drawn for each sample, the same ones or different ones as vmap was told. RuntimeFailure where it was told
    neither, and where samples differ in kind.
    """
    if not info.batch_size:
        raise _failure(call, "vmap over no samples", "a batch holds one sample at least")
    draws = draws_numbers(call.step.graph)
    if draws and info.randomness == "error":
        message = "random numbers are drawn under vmap, which was not told whether samples have the same ones"
        raise _failure(call, message, "`torch.func.vmap(…, randomness='different')`, or 'same'")
    samples = [call.again() for _ in range(info.batch_size)]
    seed = next_seed() if draws and info.randomness == "same" else None
    rows: list[list[Any]] = []
    for i, sample in enumerate(samples):
        with contextlib.nullcontext() if seed is None else local_seed(seed):
            rows.append([*apply(sample, *_sample(tensors, dims, i))])
    _stack_numbers(samples, rows)
    call.outputs = samples[0].outputs
    if any(sample.outputs != call.outputs for sample in samples) or not _alike(rows):
        message = "under vmap, the samples take different paths or give outputs of different shapes"
        raise _failure(call, message, "call the function once per sample")
    stacked = tuple([torch.stack(column) for column in zip(*rows, strict=True)])
    return stacked, (0,) * len(stacked)


def _stack_numbers(samples: Sequence[Repeatable], rows: Sequence[list[Any]]) -> None:
    """Have whole numbers that samples do not share, such as seeds, be tensors, one for each sample."""
    for i, found in enumerate(zip(*[sample.outputs for sample in samples], strict=False)):
        if all(type(value) is int for value in found) and len(set(found)) > 1:
            for sample, row, value in zip(samples, rows, found, strict=True):
                sample.outputs[i] = TensorPlace(len(row))
                row.append(torch.tensor(value))


def run_per_gradient(run: Callable[[Sequence[Any]], Sequence[Any]], values: Sequence[Any]) -> list[Any]:
    """As `run` of values of which some are a batch of gradients (`is_grads_batched`): once for each, then a batch."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    flat: list[Any] = []
    layouts = take_apart(values, flat)
    batched = {i: torch._remove_batch_dim(t, level, 0, 0) for i, t in enumerate(flat) if is_batch_of_gradients(t)}
    count = len(next(iter(batched.values())))
    rows: list[list[Any]] = []
    found: list[list[NestedPlaces]] = []
    for sample in range(count):
        row: list[Any] = []
        tensors = [batched[i][sample] if i in batched else tensor for i, tensor in enumerate(flat)]
        found.append(take_apart(run(put_together(layouts, tensors)), row))
        rows.append(row)
    if any(layout != found[0] for layout in found) or not _alike(rows):
        message = "in a batch of gradients, some take different paths, or give gradients of different shapes"
        raise RuntimeFailure("R101", "", message, notes=["ask for one gradient after the other"])
    stacked = [torch._add_batch_dim(torch.stack(column), 0, level) for column in zip(*rows, strict=True)]
    return put_together(found[0], stacked)


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

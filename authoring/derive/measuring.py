"""What a pair costs on arguments, and how exact it is: bytes kept, work and kernels of the backward, error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...lang.diagnostics import CompileError
from ...lang.light_dataclasses import dataclass
from ...runtime.face.function import Function
from ...runtime.failures.failure import RuntimeFailure
from ...runtime.kernels.failure import KernelFailure
from ..trials.arguments.draws import Rng
from ..trials.arguments.examples import examples_beside
from ..trials.arguments.inputs import InputSearch
from ..trials.arguments.recipes import example_recipe
from ..trials.evaluation import Subject
from ..trials.leaves import map_arrays
from .exact import Exact, evaluate_exactly, exact
from .exact_numbers import NotExact

_FAILURES = (RuntimeFailure, CompileError, KernelFailure, ValueError, TypeError)


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one call in float32; None for what could not be found out.

    `error` is how far an element of a gradient is from the reference, over the largest of that gradient.
    """

    saved_bytes: int | None = None
    flops: int | None = None
    kernels: int | None = None
    error: float | None = None


def arguments_of(function: Function, seed: int = 0) -> list[Any] | None:
    """Arguments in float64 on which a function runs: its author's, or the first that a search finds."""
    rng = Rng(seed)
    beside = examples_beside(function)
    try:
        subject = Subject(function)
        recipe = example_recipe(beside[0][0]) if beside else InputSearch(subject).first_fit()
        return recipe.make(rng) if recipe is not None else None
    except _FAILURES:
        return None


@dataclass(frozen=True, slots=True)
class ReferenceGradients:
    """Gradients that errors are told against, and in what they were computed: float128, or else float64."""

    gradients: list[Any] | None
    precision: str


def reference_gradients(function: Function, arguments: Sequence[Any] | None) -> ReferenceGradients:
    """The gradients of a function with a backward, of arguments that are as float32 has them."""
    if arguments is None:
        return ReferenceGradients(None, "float64")
    rounded = [map_arrays(value, lambda array: _short(array).astype(array.dtype)) for value in arguments]
    try:
        found = _in_113_bits(function, [map_arrays(value, _exactly) for value in rounded])
        return ReferenceGradients([_nearest(value) for value in found], "float128")
    except (NotExact, *_FAILURES):
        return ReferenceGradients(gradients(function, rounded), "float64")


def _exactly(array: Any) -> Any:
    return exact(array) if array.dtype == np.float64 else array


def _in_113_bits(function: Function, arguments: Sequence[Any]) -> list[Any]:
    pair = function.callee.pair
    assert pair is not None
    *results, context = evaluate_exactly(pair.forward, [*arguments, *_defaults(function, len(arguments))])
    return evaluate_exactly(pair.backward, [context, *(_seeds(results[i]) for i in pair.grad_outputs)])


def _seeds(result: Any) -> Any:
    if isinstance(result, list):
        return [_seeds(item) for item in result]
    return exact(weights_like(result.near)) if isinstance(result, Exact) else None


def weights_like(array: Any) -> Any:
    """A gradient for a result, exact in every dtype and not the same everywhere: of ones alone that of softmax is 0."""
    return (1 + np.arange(array.size).reshape(array.shape) % 5 / 4).astype(array.dtype)


def _defaults(function: Function, given: int) -> list[Any]:
    return [argument.default for argument in function.schema.arguments[given:]]


def _nearest(value: Any) -> Any:
    """A gradient in what holds the most of it and subtracts."""
    return value.numbers if isinstance(value, Exact) else value


def costs(function: Function, arguments: Sequence[Any] | None, reference: ReferenceGradients) -> Costs:
    """What a function with a backward costs on arguments, and how far its gradients are from the reference's."""
    if arguments is None:
        return Costs()
    short = [map_arrays(value, _short) for value in arguments]
    try:
        listing = function.kernels(*short)
        kernels, flops = len(listing.backward), sum(kernel.flops for kernel in listing.backward)
        saved: int | None = listing.saved_bytes
    except _FAILURES:
        return Costs(error=_error(gradients(function, short), reference.gradients))
    return Costs(saved, flops, kernels, _error(gradients(function, short), reference.gradients))


def gradients(function: Function, arguments: Sequence[Any]) -> list[Any] | None:
    """The gradients of a sum of what a function gives, with weights; None where it does not run."""
    try:
        *results, context = function.forward(*arguments)
        results = list(results[0]) if len(results) == 1 and isinstance(results[0], tuple) else results
        seeds = [map_arrays(result, weights_like) for result in results if isinstance(result, np.ndarray | list)]
        pair = function.callee.pair
        wanted = [seeds[i] for i in pair.grad_outputs] if pair is not None and len(seeds) == len(results) else seeds
        found = function.backward(context, *wanted)
    except _FAILURES:
        return None
    return list(found) if isinstance(found, tuple) else [found]


def _short(array: Any) -> Any:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _error(found: Sequence[Any] | None, reference: Sequence[Any] | None) -> float | None:
    if found is None or reference is None:
        return None
    errors = [0.0]
    for ours, theirs in zip(found, reference, strict=True):
        if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray) and ours.shape == theirs.shape and ours.size:
            wide = ours.astype(theirs.dtype) if theirs.dtype != object else exact(ours.astype(np.float64)).numbers
            errors.append(float(abs(wide - theirs).max() / max(abs(theirs).max(), 1e-300)))
    return max(errors)

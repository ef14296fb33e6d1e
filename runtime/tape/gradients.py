"""Gradients on their way from node to node: sums, and the shape and dtype that each must have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.ops.registry import OPS
from ..failures.failure import RuntimeFailure
from ..operands.snippets import operate
from .node import GradientValue, Metadata
from .value import TapeValue


def added(left: GradientValue, right: GradientValue) -> GradientValue:
    """The sum of two gradients, of which either may be undefined."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, TapeValue) or isinstance(right, TapeValue):
        return left + right
    return np.asarray(left + right)


def fitted(gradient: GradientValue, metadata: Metadata, name: str) -> GradientValue:
    """A gradient in the shape and dtype of what it is the gradient of.

    Where that was broadcast to the gradient's shape, the sum over what it was broadcast to. RuntimeFailure where the
    shapes do not fit.
    """
    if gradient is None:
        return None
    shape, dtype = metadata
    if gradient.shape != shape:
        if not _broadcasts(shape, gradient.shape):
            raise RuntimeFailure(
                "R101",
                name,
                f"a gradient of shape {list(gradient.shape)} was given for a tensor of shape {list(shape)}",
                notes=["a backward returns gradients in the shapes of the inputs: `.sum_to_size(x.size())`"],
            )
        gradient = _reduced(gradient, shape)
    if gradient.dtype != dtype:
        gradient = operate("{}.to({})", gradient, dtype) if isinstance(gradient, TapeValue) else gradient.astype(dtype)
    return gradient


def _reduced(gradient: GradientValue, shape: Sequence[int]) -> GradientValue:
    if isinstance(gradient, TapeValue):
        return operate("{}.sum_to_size({})", gradient, [*shape]) if shape else operate("{}.sum()", gradient)
    result: Any = OPS.named("aten::sum_to_size").evaluate(gradient, [*shape])
    return result


def _broadcasts(shape: Sequence[int], wider: Sequence[int]) -> bool:
    """Whether an array of the one shape broadcasts to the other."""
    if len(shape) > len(wider):
        return False
    return all(size in (1, target) for size, target in zip(reversed(shape), reversed(wider), strict=False))

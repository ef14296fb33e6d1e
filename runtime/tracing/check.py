"""The check of a trace: the function and its graph, run on the example and on other inputs, and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...compiler.ops.arrays import dtype_of
from ..execution.compiled import Compiled
from ..failures.failure import RuntimeFailure
from ..settings.random import local_seed
from ..tape.mode import grad_mode
from ..values.containers import alike
from .traced import warn

TOLERANCE = 1e-5
"""Relative, of a result's largest element: both sides run the same ops, in the same order but for constants."""

"""Both sides draw the same random numbers: what compiled code draws is no reason to warn."""


class RunTooLong(BaseException):
    """A run calls many more functions than the trace did. No Exception, which the function might catch."""


TracedRun = Callable[[Sequence[Any]], Any]
"""The function that was traced, run on arguments as it was for the trace; its results as plain values."""


def check_trace(run: TracedRun, traced: Compiled, example: Sequence[Any]) -> None:
    """Warn (TracerWarning) where the graph and the function give different results."""
    cases = {
        "the example itself": list(example),
        "the example's numbers in another order": reordered(example),
        "the example's numbers in another order, negated": negated(reordered(example)),
    }
    for what, arguments in cases.items():
        difference = _difference(run, traced, arguments)
        if difference:
            warn(
                f"the trace of '{traced.name}' does not hold on {what}: {difference}. "
                "It depends on data in a way that Python decides, or on chance, or on something that changed"
            )
            return


def reordered(values: Any) -> list[Any]:
    """Arrays with their elements reversed, and so within the same range; numbers as they are."""
    return [_reordered(value) for value in values]


def _reordered(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value.reshape(-1)[::-1].reshape(value.shape))
    return alike(value, [_reordered(item) for item in value]) if isinstance(value, list | tuple) else value


def negated(values: Any) -> list[Any]:
    """Floating arrays with their signs changed; a function that does not take such numbers is not checked on them."""
    return [_negated(value) for value in values]


def _negated(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return -value if dtype_of(value).is_floating else value
    return alike(value, [_negated(item) for item in value]) if isinstance(value, list | tuple) else value


def _difference(run: TracedRun, traced: Compiled, arguments: Sequence[Any]) -> str:
    """What is different, in words; nothing if all is equal, or if the function itself does not take these inputs."""
    with grad_mode(False):
        try:
            expected = [*_leaves(local_seed(0)(run)(arguments))]
        except (Exception, RunTooLong):
            return ""
        try:
            actual = [*_leaves(local_seed(0)(traced)(*arguments))]
        except RuntimeFailure as failure:
            return f"the graph fails ({failure.message})"
    if len(expected) != len(actual):
        return f"the function returns {len(expected)} values, the graph {len(actual)}"
    for i, (left, right) in enumerate(zip(expected, actual, strict=True)):
        if left.shape != right.shape:
            return f"result {i} has shape {list(left.shape)}, in the graph {list(right.shape)}"
        if not _agree(left, right):
            return f"result {i} is another"
    return ""


def _agree(left: Any, right: Any) -> bool:
    if left.dtype.kind in "OUS":
        return bool((left == right).all())
    wide, other = left.astype(np.float64), right.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    coarse = left.ndim > 0 and dtype_of(left.astype(left.dtype.newbyteorder("="))).is_half
    tolerance = (1e-2 if coarse else TOLERANCE) * max(1.0, finite.max(initial=0.0))
    return np.allclose(wide, other, rtol=0, atol=tolerance, equal_nan=True)


def _leaves(result: Any) -> Iterator[Any]:
    if isinstance(result, list | tuple):
        for item in result:
            yield from _leaves(item)
    else:
        yield np.asarray(result)

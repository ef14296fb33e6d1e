"""Gradients of source, and running them under a policy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import gradscript as gs
import numpy as np
from gradscript.compiler.autodiff import Gradient, differentiate
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.recompute import Recomputed, policy
from gradscript.compiler.recompute.driver import recompute
from gradscript.compiler.recompute.plain import normalized
from gradscript.compiler.recompute.policy import Policy
from gradscript.compiler.recompute.problem import Problem
from gradscript.runtime.execution.differentiated import Differentiated


def array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def shapes_of(arguments: Sequence[Any]) -> list[Any]:
    return [Meta.of(a) if isinstance(a, np.ndarray) else a for a in arguments]


def gradient_of(source: str | Any, arguments: Sequence[Any], name: str = "f") -> Gradient:
    """The gradient of a function with respect to its arrays; `source` is text or a Function."""
    function = gs.CompilationUnit(source)[name] if isinstance(source, str) else source
    requires_grad = [isinstance(a, np.ndarray) for a in arguments]
    return differentiate(differentiable_graph(function.callee), requires_grad, temporaries=False)


def problem_of(source: str, arguments: Sequence[Any], policy: Policy | None = None) -> Problem:
    gradient = normalized(gradient_of(source, arguments))
    return Problem(gradient, shapes_of(arguments), (policy or Policy()).may_recompute)


def under(gradient: Gradient, arguments: Sequence[Any], spec: Any) -> Recomputed:
    found = recompute(gradient, shapes_of(arguments), policy(spec))
    verify(found.gradient.f)
    verify(found.gradient.df)
    return found


def results(gradient: Gradient, arguments: Sequence[Any]) -> list[Any]:
    """Outputs, and gradients for cotangents of ones."""
    return both_ways(Differentiated(gradient), arguments)


def both_ways(differentiated: Differentiated, arguments: Sequence[Any]) -> list[Any]:
    outputs, residuals = differentiated.run(arguments)
    return outputs + differentiated.pull_back(arguments, [np.ones_like(o) for o in outputs], residuals)


def assert_same_bits(actual: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(actual) == len(expected)
    for left, right in zip(actual, expected, strict=True):
        if left is None or right is None:
            assert left is right
        else:
            assert left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def measured_peak(gradient: Gradient, arguments: Sequence[Any]) -> int:
    """The most bytes that one forward and backward hold at once, compiled before."""
    differentiated = Differentiated(gradient)
    for _ in range(3):
        # Kernels are written down as a list in calls that follow the first, which takes memory of its own.
        both_ways(differentiated, arguments)
    tracemalloc.start()
    try:
        both_ways(differentiated, arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def kept(found: Recomputed) -> set[str]:
    return {d.name for d in found.decisions if d.saved}


def repeated(found: Recomputed) -> set[str]:
    return {d.name for d in found.decisions if not d.saved}

"""What an op refuses because of a tensor's elements, kernels in C tell, on every road: no number comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

SOURCE = """
def probabilities(x, i):
    return F.binary_cross_entropy(x + i, x)


def of_constants(x, i):
    return F.binary_cross_entropy(x * (1 + i), torch.ones_like(x)) * 2


def squashed(x, i):
    return F.binary_cross_entropy(torch.softmax(x, 0) * (i + 1), torch.ones_like(x), reduction="sum")


def constant_alone(x, i):
    return F.binary_cross_entropy(torch.full([3], 7.0) * i, torch.full([3], 7.0)) + x.sum()


def of_zeros(x, i):
    return (torch.zeros([3], dtype=x.dtype).index_select(0, i) * x).sum()


def of_positions(x, i):
    return (torch.arange(3).index_select(0, i) * x).sum()


def embedded(x, i):
    return F.embedding(i, torch.zeros([3, 4], dtype=x.dtype)).sum() + x.sum()


def classes(x, i):
    return F.nll_loss(torch.stack([x, x, x]), i)


def of_scores(x, i):
    return F.cross_entropy(torch.stack([x, x, x]), i)


def gathered(x, i):
    return torch.gather(x * 2, 0, i).sum()
"""
UNIT = gs.CompilationUnit(SOURCE)
X = np.array([0.25, 0.5, 0.75])


def call(f: gs.Function, x: Any, i: Any) -> Any:
    return f(x, i)


def gradient(f: gs.Function, x: Any, i: Any) -> Any:
    return gs.grad(f)(x, i)


def pulled_back(f: gs.Function, x: Any, i: Any) -> Any:
    value, pullback = gs.vjp(f, x, i)
    return value, pullback(np.ones_like(value))


def on_tensors(f: gs.Function, x: Any, i: Any) -> Any:
    f(torch.tensor(x, requires_grad=True), torch.tensor(i)).backward()


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("road", [call, gradient, pulled_back, on_tensors])
@pytest.mark.parametrize("name", UNIT.functions)
def test_it_is_refused(name: str, road: Callable[..., Any], backend: str) -> None:
    wrong = (np.array([1, 99, 0]), np.array([0, -9, 1]))
    with gs.settings.backend(backend):
        for index in (np.array([0, 0, 0]), *wrong):
            if not index.any():
                road(UNIT[name], X, index)
                continue
            with pytest.raises(gs.RuntimeFailure) as caught:
                road(UNIT[name], X, index)
            assert caught.value.span.source.text == SOURCE


def test_what_is_no_number_is_no_probability() -> None:
    x = np.array([0.5, np.nan])
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        torch.nn.functional.binary_cross_entropy(torch.tensor(x), torch.tensor(x))
    f = gs.CompilationUnit("def f(x):\n    return F.binary_cross_entropy(x, x)\n").f
    for backend in ("numpy", "c"):
        with gs.settings.backend(backend), pytest.raises(gs.RuntimeFailure, match="between 0 and 1"):
            f(x)


def test_what_is_computed_to_be_refused_is_no_result_where_runs_are_listed() -> None:
    """How often rows are repeated is for elements to say, so that kernels run between ops, of which lists are made."""
    f = gs.CompilationUnit("def f(x, times):\n    return torch.repeat_interleave(x, times, 0).sum()\n").f
    with gs.settings.backend("c"):
        for _ in range(4):
            np.testing.assert_array_equal(gs.grad(f)(X, np.array([2, 0, 1])), [2, 0, 1])

"""Gradients of scans along rows whose square no memory holds, beside torch."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch

LENGTH = 60_000
"""In the square 29 gigabytes."""


def _sums(name: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, LENGTH)) if name == "logcumsumexp" else rng.choice([-1.0, 1.0, 1.001], (2, LENGTH))
    if name == "cumprod":
        x[0, 40_000] = 0
        x[1, [0, 7]] = 0
    return x, rng.standard_normal((2, LENGTH))


@pytest.mark.parametrize("name", ["logcumsumexp", "cumprod"])
def test_gradient_of_a_long_row(name: str) -> None:
    x, seed = _sums(name)
    function = gs.CompilationUnit(f"def f(x):\n    return torch.{name}(x, -1)\n").f
    _, pullback = gs.vjp(function, x)
    leaf = torch.tensor(x, requires_grad=True)
    getattr(torch, name)(leaf, -1).backward(torch.tensor(seed))
    assert leaf.grad is not None
    np.testing.assert_allclose(pullback(seed)[0], leaf.grad.numpy(), rtol=1e-9, atol=1e-9)

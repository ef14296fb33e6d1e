"""Gradients that are infinite, NaN or -0: what an extreme was not taken from has none of it, as in torch."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch

BODIES = (
    "x.max()",
    "x.min()",
    "x.median()",
    "x.nanmedian()",
    "x.amax()",
    "x.amin(0)",
    "x.max(0)[0]",
    "torch.cummax(x, 0)[0]",
    "x.clamp(0, 1)",
    "torch.relu(x)",
    "F.max_pool1d(x[None, None], 2)",
    "x.norm(float('inf'))",
)
VALUES = ([1.0, 2.0, 3.0, 0.0], [1.0, np.nan, 3.0, np.nan], [3.0, 3.0, 1.0, 3.0], [np.inf, np.inf, 1.0, -np.inf])


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("body", BODIES)
def test_it_is_torchs(body: str, backend: str) -> None:
    text = f"def f(x):\n    return {body}\n"
    scope = {"torch": torch, "F": torch.nn.functional}
    exec(text, scope)
    function = gs.CompilationUnit(text).f
    for elements in VALUES:
        for gradient in (1.0, np.nan, np.inf, 0.0):
            x = torch.tensor(elements, dtype=torch.float64, requires_grad=True)
            result = scope["f"](x)
            (wanted,) = torch.autograd.grad(result, x, torch.full_like(result, gradient))
            with gs.settings.backend(backend):
                value, pullback = gs.vjp(function, x.detach().numpy())
                (found,) = pullback(np.full_like(value, gradient))
            np.testing.assert_array_equal(found, wanted.numpy(), err_msg=f"{elements}, {gradient}")

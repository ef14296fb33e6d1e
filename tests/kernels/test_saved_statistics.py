"""What norms and losses with a backward of their own save: statistics of rows, though the closure names elements."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch

ROWS, COLUMNS = 256, 512
SOURCES = {
    "layer_norm": """
def layer_norm(x, w, b):
    d = x - x.mean(-1, keepdim=True)
    inv = torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5)
    xhat = d * inv

    def backward(go):
        g = go * w
        gx = inv * (g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True))
        return gx, (go * xhat).sum(0), go.sum(0)

    return xhat * w + b, backward
""",
    "rms_norm": """
def rms_norm(x, w):
    xhat = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
    inv = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)

    def backward(go):
        g = go * w
        return inv * (g - xhat * (g * xhat).mean(-1, keepdim=True)), (go * xhat).sum(0)

    return xhat * w, backward
""",
    "gated_norm": """
def gated_norm(x, w):
    y = x * torch.sigmoid(x)
    var, mean = torch.var_mean(y, -1, unbiased=False, keepdim=True)
    rstd = torch.rsqrt(var + 1e-5)
    normal = (y - mean) * rstd

    def backward(go):
        s = torch.sigmoid(x)
        g = go * w
        gy = rstd * (g - g.mean(-1, True) - normal * (g * normal).mean(-1, True))
        return gy * s * (1 + x * (1 - s)), (go * normal).sum(0)

    return normal * w, backward
""",
    "likelihood": """
def likelihood(x, y: Tensor):
    p = torch.softmax(x, -1)

    def backward(go):
        hot = torch.arange(x.size(1)).unsqueeze(0) == y.unsqueeze(1)
        return (p - hot.to(p.dtype)) * go.unsqueeze(1), None

    return torch.logsumexp(x, -1) - x.gather(1, y.unsqueeze(1)).squeeze(1), backward
""",
}
X, W, Y = (
    np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32),
    np.ones(COLUMNS, np.float32),
    np.arange(ROWS) % COLUMNS,
)
ARGUMENTS = {"layer_norm": [X, W, W], "rms_norm": [X, W], "gated_norm": [X, W], "likelihood": [X, Y]}


@pytest.mark.parametrize("name", SOURCES)
def test_two_numbers_a_row_are_saved(name: str) -> None:
    listing = gs.CompilationUnit(SOURCES[name])[name].kernels(*ARGUMENTS[name])
    assert listing.saved_bytes <= 2 * ROWS * 4
    assert len(listing.forward) == 1 and len(listing.backward) == (1 if name == "likelihood" else 2)


def test_a_statistic_that_an_op_reads_as_a_sum_of_nothing_has_its_own_dtype() -> None:
    """A product of the library is given halves: what is summed to the shape that it has lies where it did."""
    loss = gs.CompilationUnit("def f(x, g):\n    return (torch.cov(x) * g).sum()\n")["f"]
    x, g = np.random.default_rng(0).normal(size=(1, 5)).astype(np.float16), np.ones((), np.float16)
    with gs.settings.backend("c"):
        found = gs.grad(loss)(x, g)
    wide = torch.from_numpy(x.astype(np.float64)).requires_grad_()
    (wanted,) = torch.autograd.grad(torch.cov(wide), wide)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, wanted, atol=2e-3)

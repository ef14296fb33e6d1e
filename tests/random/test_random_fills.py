"""In-place methods that draw are refused with what to write instead, which draws the same."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch

NUMBERS = "std: float = 2.0, mean: float = 1.0, low: int = 2, high: int = 5, p: float = 0.25, rate: float = 2.0"
CALLS = {
    "normal_": "1.0, 2.0",
    "log_normal_": "1.0, 2.0",
    "uniform_": "2, 5",
    "bernoulli_": "0.25",
    "random_": "2, 5",
    "exponential_": "2.0",
    "geometric_": "0.25",
    "cauchy_": "0.0, 1.0",
}


@pytest.mark.parametrize("method", CALLS)
def test_what_to_write_draws_the_same(method: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x):\n    y = x.clone()\n    y.{method}({CALLS[method]})\n    return y\n")
    written = str(caught.value).partition("`")[2].partition("`")[0]
    unit = gs.CompilationUnit(
        f"def f(x, {NUMBERS}, median: float = 0.0, sigma: float = 1.0):\n"
        f"    y = x.clone()\n    {written}\n    return y\n"
    )
    gs.random.manual_seed(1)
    torch.manual_seed(1)
    found = unit.f(np.zeros(40_000))
    wanted = eval(f"torch.zeros(40_000, dtype=torch.float64).{method}({CALLS[method]})").numpy()
    quantiles = (0.1, 0.3, 0.5, 0.7, 0.9)
    np.testing.assert_allclose(np.quantile(found, quantiles), np.quantile(wanted, quantiles), rtol=0.05, atol=0.05)

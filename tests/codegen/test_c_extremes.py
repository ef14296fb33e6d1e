"""The largest and smallest numbers of rows in C, which are compared as integers; rows too short for whole registers."""

from __future__ import annotations

import warnings

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.codegen.c.module import emit_function
from gradscript.compiler.scheduling.collapse import collapse_axes
from gradscript.runtime.kernels import notices
from gradscript.runtime.kernels.c.compiler import compiler
from kernel_cases import softmax

pytestmark = pytest.mark.skipif(not compiler(), reason="needs a compiler of C")
UNIT = gs.CompilationUnit("""
def largest(x):
    return torch.amax(x, -1)

def smallest(x):
    return torch.amin(x, -1)

def of_all(x):
    return torch.amax(x)

def columns(x):
    return torch.amin(x, 0)

def normal(x):
    return F.softmax(x, -1)

def waves(x):
    return torch.sin(x * 3).sum(-1) + torch.amax(torch.cos(x) + x, -1)
""")
MEANT = {
    "largest": lambda x: torch.amax(x, -1),
    "smallest": lambda x: torch.amin(x, -1),
    "of_all": torch.amax,
    "columns": lambda x: torch.amin(x, 0),
}
SIZES = (1, 2, 3, 5, 8, 11, 13, 16, 17, 24, 31, 61, 64, 127, 250, 1000, 3001)
ODD = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-42)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.int32, np.int8, np.uint8])
@pytest.mark.parametrize("name", MEANT)
def test_extremes_are_those_of_torch(name: str, dtype: type[np.generic]) -> None:
    rng = np.random.default_rng(5)
    for size in SIZES:
        for _ in range(3):
            x = (50 * rng.standard_normal((6, size))).astype(np.int8).astype(dtype)
            if np.issubdtype(dtype, np.floating):
                x += rng.standard_normal(x.shape).astype(dtype)
                x.reshape(-1)[rng.integers(0, x.size, max(1, x.size // 40))] = rng.choice(np.array(ODD, dtype))
            with gs.settings.backend("c"):
                found = UNIT[name](x)
            np.testing.assert_array_equal(found, MEANT[name](torch.from_numpy(x)).numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_any_length_are_right(dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(6)
    tolerance = 2e-5 if dtype == np.float32 else 1e-13
    for size in SIZES:
        x = rng.standard_normal((5, size)).astype(dtype)
        with gs.settings.backend("c"):
            found, pull_back = gs.vjp(UNIT.waves, x)
            (slope,) = pull_back(np.ones_like(found))
            normal = UNIT.normal(x)
        given = torch.from_numpy(x.astype(np.float64)).requires_grad_()
        meant = torch.sin(given * 3).sum(-1) + torch.amax(torch.cos(given) + given, -1)
        (meant_slope,) = torch.autograd.grad(meant.sum(), given)
        np.testing.assert_allclose(found, meant.detach().numpy(), rtol=tolerance, atol=tolerance * size**0.5)
        np.testing.assert_allclose(slope, meant_slope.numpy(), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(normal, torch.softmax(given, -1).detach().numpy(), rtol=tolerance)


def test_short_rows_are_one_block_with_masks() -> None:
    def text(columns: int) -> str:
        return emit_function(collapse_axes(softmax(64, columns)), "softmax").text

    # Those of nothing have no room for a block.
    assert "j < 64" not in text(0)
    assert "j < 64" in text(61) and "j < 61 ?" in text(61) and "j < 16" in text(12)
    assert "?" not in text(512).split("denominator", 1)[1] and "?" not in text(64).split("denominator", 1)[1]


@pytest.mark.parametrize("power", ["{} ** 2", "{} ** 3"])
@pytest.mark.parametrize("extreme", ["x.amax(1)", "x.min()", "torch.aminmax(x).max"])
def test_their_powers_have_kernels(extreme: str, power: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "TOLD", set())
    text = power.format(extreme)
    x = 5 * np.random.default_rng(6).standard_normal((3, 40))
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = gs.CompilationUnit(f"def f(x):\n    return {text}\n").f(x)
    np.testing.assert_allclose(found, eval(text, {"torch": torch, "x": torch.from_numpy(x)}).numpy(), rtol=1e-15)

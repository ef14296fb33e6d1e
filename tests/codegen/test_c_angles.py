"""Loops over angles in C: those that are not large beside large ones."""

from __future__ import annotations

from itertools import product

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.kernels.c.compiler import compiler

EDGES = {np.float32: 2.0**15, np.float64: 2.0**20}
ULPS = {np.float32: (4, np.float64), np.float64: (2, np.longdouble)}
SIZES = (1, 7, 16, 1000, 1024, 1025, 5000)

_needs_compiler = pytest.mark.skipif(not compiler(), reason="needs a compiler of C")
UNIT = gs.CompilationUnit("""
def sin(x):
    return torch.sin(x)

def cos(x):
    return torch.cos(x)

def tan(x):
    return torch.tan(x)

def wave(x, y):
    return torch.sin(x) * torch.cos(x * y)
""")


@_needs_compiler
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_angles_are_right_beside_any_others(name: str, dtype: type[np.floating]) -> None:
    edge, (most, wide) = dtype(EDGES[dtype]), ULPS[dtype]
    beyond, below = np.nextafter(edge, dtype(np.inf)), np.nextafter(edge, dtype(0))
    odd = np.array([edge, beyond, -edge, below, 1e30, np.inf, -np.inf, np.nan, -1e9], dtype)
    rng = np.random.default_rng(3)
    function = UNIT[name]
    for size, _ in product(SIZES, range(3)):
        near = (10 * rng.standard_normal(size)).astype(dtype)
        mixed, places = near.copy(), rng.integers(0, size, max(1, size // 700))
        mixed[places] = rng.choice(odd, len(places))
        with gs.settings.backend("c"):
            alone, found = function(near), function(mixed)
        others = np.delete(np.arange(size), places)
        np.testing.assert_array_equal(found[others], alone[others])
        meant = getattr(np, name)(mixed.astype(wide))
        np.testing.assert_array_equal(np.isnan(found), np.isnan(meant))
        known = ~np.isnan(meant)
        spacing = np.spacing(np.maximum(np.abs(meant[known]).astype(dtype), np.finfo(dtype).tiny)).astype(wide)
        assert np.all(np.abs(found[known].astype(wide) - meant[known]) <= most * spacing)


@_needs_compiler
def test_gradients_of_angles_of_any_layout() -> None:
    rng = np.random.default_rng(4)
    base = 30_000 * rng.standard_normal((40, 96))
    for x in (base, base[::-1], base.T, base[:, ::2], np.broadcast_to(base[:1], (50, 96)), base[:0], base[3, 5]):
        y = np.ones_like(x) / 3
        with gs.settings.backend("c"):
            value, pull_back = gs.vjp(UNIT.wave, x, y)
            found = pull_back(np.ones_like(value))
        slope = np.cos(x) * np.cos(x * y) - y * np.sin(x) * np.sin(x * y)
        np.testing.assert_allclose(value, np.sin(x) * np.cos(x * y), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found[0], slope, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found[1], -x * np.sin(x) * np.sin(x * y), rtol=1e-12, atol=1e-9)

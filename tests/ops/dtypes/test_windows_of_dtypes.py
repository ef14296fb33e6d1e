"""Windows, distances and outer products of every dtype: torch's result, or refused where torch refuses."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from samples.arrays import to_numpy

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
CALLS = [
    *((f"F.{name}{rank}d(x, 2)", rank) for name in ("avg_pool", "max_pool", "adaptive_max_pool") for rank in (1, 2, 3)),
    *((f"F.avg_pool{rank}d(x, 2, padding=1, count_include_pad={b})", rank) for rank in (1, 2) for b in (True, False)),
    *((f"F.{name}{rank}d(x, w)", rank) for name in ("conv", "conv_transpose") for rank in (1, 2, 3)),
    *((f"F.lp_pool{rank}d(x, {p}, 2)", rank) for rank in (1, 2) for p in ("2", "2.0")),
    *((f"F.pad(x, [1, 1], mode='{mode}')", 1) for mode in ("reflect", "replicate", "circular", "constant")),
    *(("F.avg_pool2d(x, 2, divisor_override=3)", 2), ("F.unfold(x, 2)", 2), ("F.interpolate(x, scale_factor=2)", 2)),
    *(("F.fold(x.flatten(1)[:, :12], [2, 4], [2, 2])", 1), ("F.pairwise_distance(x, x + 1)", 1)),
    ("F.max_pool2d(x, 2, return_indices=True)[1]", 2),
]


def _outcome(call: Any, refusals: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except refusals:
            return None


def _assert_same(found: Any, wanted: torch.Tensor | None, told: str) -> None:
    if wanted is None:
        assert found is None, told
        return
    assert found is not None and found.dtype == to_numpy(wanted).dtype, told
    np.testing.assert_allclose(found, to_numpy(wanted), rtol=1e-5, err_msg=told)


@pytest.mark.parametrize("text, rank", CALLS)
def test_windows(text: str, rank: int) -> None:
    function = gs.CompilationUnit(f"def f(x, w):\n    return {text}\n").f
    for name in DTYPES:
        dtype = getattr(torch, name)
        numbers = torch.arange(6 * 4**rank) % 7
        x = (numbers if name == "uint8" else numbers - 3).reshape(2, 3, *[4] * rank).to(dtype)
        w = (torch.arange(9 * 2**rank) % 3).reshape(3, 3, *[2] * rank).to(dtype)
        wanted = _outcome(lambda x=x, w=w: eval(text, {"F": F, "x": x, "w": w}), RuntimeError)
        found = _outcome(lambda x=x, w=w: function(to_numpy(x), to_numpy(w)), (gs.RuntimeFailure, gs.CompileError))
        _assert_same(found, wanted, f"{text} of {name}")


@pytest.mark.parametrize(
    "text", ["torch.addr(m, a, b)", "torch.addr(m, a, b, beta=0.5)", "torch.addr(m, a, b, beta=2)"]
)
def test_outer_products_of_several_dtypes(text: str) -> None:
    function = gs.CompilationUnit(f"def f(m, a, b):\n    return {text}\n").f
    for names in itertools.product(("bool", "uint8", "int64", "float32", "float64"), repeat=3):
        for shape in ((2, 3), ()):
            values = (torch.ones(shape), torch.arange(2) + 1, torch.arange(3))
            m, a, b = (value.to(getattr(torch, name)) for value, name in zip(values, names, strict=True))
            wanted = _outcome(lambda m=m, a=a, b=b: eval(text, {"torch": torch, "m": m, "a": a, "b": b}), RuntimeError)
            given = [to_numpy(value) for value in (m, a, b)]
            found = _outcome(lambda given=given: function(*given), (gs.RuntimeFailure, gs.CompileError))
            _assert_same(found, wanted, f"{text} of {names} {shape}")


def test_gradients_of_outer_products_have_the_dtypes_of_what_they_are_of() -> None:
    function = gs.CompilationUnit("def f(m, a, b):\n    return torch.addr(m, a, b, beta=2, alpha=3)\n").f
    m, a, b = np.ones((2, 3), np.float32), np.array([1.0, 2.0]), np.array([1, 2, 3], np.float32)
    _, pullback = gs.vjp(function, m, a, b)
    found = pullback(np.arange(6.0).reshape(2, 3))
    wanted = ([[0, 2, 4], [6, 8, 10]], [24, 78], [18, 27, 36])
    for gradient, expected, value in zip(found, wanted, (m, a, b), strict=True):
        assert gradient.dtype == value.dtype
        np.testing.assert_allclose(gradient, expected)

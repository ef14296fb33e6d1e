"""Norms of vectors and what stands around them are one kernel."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from array_programs import check_fused

ORDERS = ("2", "1", "0", "3", "2.5", "-1.5", "math.inf", "-math.inf")


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dims", ["None", "[1]", "[0]", "[0, 1]"])
def test_every_order(order: str, dims: str) -> None:
    for keepdim in ("True", "False"):
        source = f"def f(x):\n    return torch.linalg.vector_norm(x * 2, {order}, {dims}, {keepdim})\n"
        check_fused(gs.CompilationUnit(source).f, [draw(5, 6)])


def test_dtypes() -> None:
    unit = gs.CompilationUnit("def f(x):\n    return torch.linalg.vector_norm(x, 2, [1], dtype=torch.float64)\n")
    check_fused(unit.f, [draw(5, 6).astype(np.float32)], 1e-6)
    half = gs.CompilationUnit("def f(x):\n    return x.norm(), x.norm(2, [1])\n")
    check_fused(half.f, [(draw(5, 6) * 200).astype(np.float16)], 4e-3)


@pytest.mark.parametrize(
    ("body", "backward"),
    [
        ("F.normalize(x * 2, 2.0, -1) + 1", 1),
        ("F.cosine_similarity(x, x.exp(), -1)", None),
        ("F.pairwise_distance(x, x.sin())", 1),
    ],
)
def test_one_kernel(body: str, backward: int | None) -> None:
    function, x = gs.CompilationUnit(f"def f(x):\n    return {body}\n").f, draw(40, 6)
    check_fused(function, [x])
    listing = function.kernels(x)
    assert len(listing.forward) == 1 and backward in (None, len(listing.backward))


def test_cosine_of_tensors_that_are_broadcast() -> None:
    function = gs.CompilationUnit("def f(x, y):\n    return F.cosine_similarity(x, y)\n").f
    check_fused(function, [draw(5, 6), draw(1, 6)])
    check_fused(function, [draw(5, 1), draw(5, 6)])

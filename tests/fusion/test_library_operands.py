"""Products of matrices read their operands where they lie: no kernel turns or copies one for the library."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from array_programs import check_fused

PRODUCTS = {
    "x @ w.t()": (6, 4),
    "x @ w.detach().t()": (6, 4),
    "x @ w.t().detach()": (6, 4),
    "x @ w.detach()": (4, 6),
    "x.t().detach() @ w": (5, 6),
    "x.t() @ w.contiguous()": (5, 6),
    "x @ w.reshape([4, 6]).detach()": (24,),
    "x @ w.transpose(0, 1).detach()[:, 1:]": (6, 4),
    "F.linear(x, w.detach())": (6, 4),
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_operands_are_views(product: str) -> None:
    function = gs.CompilationUnit(f"def f(x, w):\n    return {product}\n").f
    generator = np.random.default_rng(0)
    arguments = [generator.normal(size=(5, 4)), generator.normal(size=PRODUCTS[product])]
    assert not check_fused(function, arguments)


@pytest.mark.parametrize(
    ("body", "shapes", "kernels"),
    [
        ('F.gelu(x @ v, approximate="tanh") @ w', [(4, 6), (6, 5)], 2),
        ('F.gelu(F.layer_norm(x, [4]) @ v, approximate="tanh") @ w', [(4, 6), (6, 5)], 4),
        ("F.silu(x @ v).permute(2, 0, 1).flatten(1) @ w", [(4, 6), (12, 5)], 2),
        # Strides cannot say it: a kernel stores it in the order that the product takes.
        ("F.silu(x @ v).transpose(0, 1).reshape(6, 12) @ w", [(4, 6), (12, 5)], 3),
    ],
)
def test_dimensions_that_are_grouped_are_strides_too(body: str, shapes: list[tuple[int, ...]], kernels: int) -> None:
    function = gs.CompilationUnit(f"def f(x, v, w):\n    return {body}\n").f
    generator = np.random.default_rng(0)
    arguments = [generator.normal(size=size) for size in [(4, 3, 4), *shapes]]
    assert len(check_fused(function, arguments)) == kernels

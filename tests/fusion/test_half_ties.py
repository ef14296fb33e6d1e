"""Elements of halves that are equal to another are found by kernels as in torch, whose every op rounds to halves."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch

RESULTS = (
    "(x - y).amax(1).sum()",
    "(x * y).abs().amax(1).sum()",
    "(x * y).max()",
    "(x * y).amin((0, 1))",
    "(x * y).median()",
    "(x * y).max(1).values.sum()",
    "torch.linalg.vector_norm(x - y, float('inf'), 1).sum()",
    "torch.linalg.vector_norm(x * y, -float('inf'))",
    "(x * y).norm(float('inf'))",
    "torch.cdist(x, y, float('inf')).sum()",
    "torch.maximum(x * y, (x * y).amax(1, keepdim=True)).sum()",
    "((x * y) * ((x * y) == (x * y).amax(1, keepdim=True))).sum()",
    "((x * y) * ((x * y) != (x * y).amin(1, keepdim=True))).sum()",
)


def _gradients(function: Any, *tensors: torch.Tensor) -> list[torch.Tensor]:
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    function(*leaves).backward()
    return [leaf.grad.float() for leaf in leaves if leaf.grad is not None]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("result", RESULTS)
def test_the_elements_are_torchs(result: str, dtype: torch.dtype) -> None:
    function = gs.CompilationUnit(f"def f(x, y):\n    return {result}\n").f
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(5, 64, generator=generator).to(dtype) for _ in range(2))
    with gs.settings.backend("numpy"):
        wanted = _gradients(function, x, y)
    with gs.settings.backend("c"):
        found = _gradients(function, x, y)
    for mine, theirs in zip(found, wanted, strict=True):
        assert torch.equal(mine != 0, theirs != 0)
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sign", ["==", "!="])
@pytest.mark.parametrize("other", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
def test_equality_of_a_half_and_another_dtype(other: torch.dtype, sign: str) -> None:
    function = gs.CompilationUnit(f"def f(x, y):\n    return (x {sign} y, y * 0.5 {sign} x)\n").f
    x, y = torch.tensor([1.0, 2.0, 0.1, 3.0]).half(), torch.tensor([1.0, 4.0, 0.1, 6.0]).to(other)
    with gs.settings.backend("c"):
        found = function(x, y)
    wanted = (x == y, y * 0.5 == x) if sign == "==" else (x != y, y * 0.5 != x)
    assert all(map(torch.equal, found, wanted))

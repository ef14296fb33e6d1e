"""`fill_diagonal_` writes where torch's does: of wide and tall matrices, wrapped or not, and of more dimensions."""

from __future__ import annotations

import gradscript as gs
import pytest
import torch

SHAPES = ([3, 3], [2, 4], [5, 2], [7, 3], [2, 2, 2], [3, 3, 3, 3], [0, 3], [3, 0], [1, 1])
UNIT = gs.CompilationUnit("""
def filled(x, wrap: bool):
    y = x.clone()
    y.fill_diagonal_(2, wrap)
    return y


def squared(x):
    y = x * 3
    y.fill_diagonal_(2.5)
    return y * y
""")


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool, torch.float16])
def test_values(shape: list[int], wrap: bool, dtype: torch.dtype) -> None:
    x = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype)
    assert torch.equal(UNIT.filled(x, wrap), x.clone().fill_diagonal_(2, wrap))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_what_is_written_over_has_no_gradient(backend: str) -> None:
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    with gs.settings.backend(backend):
        (found,) = torch.autograd.grad(UNIT.squared(x).sum(), x)
    (wanted,) = torch.autograd.grad(((x * 3).fill_diagonal_(2.5) ** 2).sum(), x)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("shape", [[], [3], [2, 2, 3]])
def test_what_torch_refuses_is_told(shape: list[int]) -> None:
    with pytest.raises(RuntimeError):
        torch.zeros(shape).fill_diagonal_(1)
    with pytest.raises(gs.RuntimeFailure, match="fill_diagonal_"):
        UNIT.filled(torch.zeros(shape), False)

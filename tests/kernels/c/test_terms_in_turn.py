"""Sums of very many terms in C: no more are added one after the other in float32 than keep its digits."""

from __future__ import annotations

import gradscript as gs
import pytest
import torch

UNIT = gs.CompilationUnit("""
def everything(x):
    return (x * 1.5).sum()

def columns(x):
    return (x * 1.5).sum(0)

def bias(x, b):
    return torch.relu(x + b)
""")


@pytest.mark.parametrize("shape", [(1_200_000, 4), (4, 1_200_000), (3000, 1601)])
def test_equal_terms_keep_their_digits(shape: tuple[int, int]) -> None:
    """Each rounds the same way, at the size of the sum: the worst that a float32 sum is asked for."""
    x = torch.full(shape, 3.3)
    wanted = (x * 1.5).double()
    b = torch.ones(shape[1], requires_grad=True)
    with gs.settings.backend("c"):
        torch.testing.assert_close(UNIT.everything(x).double(), wanted.sum(), rtol=1e-5, atol=0)
        torch.testing.assert_close(UNIT.columns(x).double(), wanted.sum(0), rtol=1e-5, atol=0)
        (found,) = torch.autograd.grad(UNIT.bias(x, b), b, x)
        torch.testing.assert_close(found.double(), x.double().sum(0), rtol=1e-5, atol=0)

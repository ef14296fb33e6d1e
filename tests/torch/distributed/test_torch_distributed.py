"""Tensors in parts on several processes: ops of torch make a call up, and DTensor's rules for these say how it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradscript as gs
import pytest
import torch
import torch.distributed
from op_cases import spread
from torch.distributed.tensor import Replicate, Shard, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

UNIT = gs.CompilationUnit(
    """
def swiglu(x, g):
    s = torch.sigmoid(x)
    def backward(grad):
        return grad * g * s * (1 + x * (1 - s)), grad * x * s
    return x * s * g, backward

def norm(x, w):
    return F.layer_norm(x, [x.size(-1)], w, None)
"""
)


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    """Two processes, of which this is the first, and the other one only thought of."""
    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield init_device_mesh("cpu", (2,))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("dim", [0, 1])
def test_parts_stay_where_they_are(mesh: Any, dim: int) -> None:
    x, g = (torch.randn(4, 6, dtype=torch.float64) for _ in range(2))
    parts = [spread(mesh, x, Shard(dim)), spread(mesh, g, Shard(dim))]
    result = UNIT.swiglu(*parts)
    assert result.placements == (Shard(dim),)
    torch.testing.assert_close(result.to_local(), UNIT.swiglu(x, g).chunk(2, dim)[0])
    result.sum().backward()
    whole = [x.requires_grad_(), g.requires_grad_()]
    UNIT.swiglu(*whole).sum().backward()
    for part, tensor in zip(parts, whole, strict=True):
        assert part.grad.placements == (Shard(dim),)
        torch.testing.assert_close(part.grad.to_local(), tensor.grad.chunk(2, dim)[0])


def test_a_gradient_of_what_every_process_has_is_a_sum_over_them(mesh: Any) -> None:
    x, w = torch.randn(4, 6, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    rows, weight = spread(mesh, x, Shard(0)), spread(mesh, w, Replicate())
    result = UNIT.norm(rows, weight)
    assert result.placements == (Shard(0),)
    torch.testing.assert_close(result.to_local(), UNIT.norm(x, w)[:2])
    result.sum().backward()
    (placement,) = weight.grad.placements
    assert placement.is_partial("sum")
    own = w.clone().requires_grad_()
    UNIT.norm(x[:2], own).sum().backward()
    torch.testing.assert_close(weight.grad.to_local(), own.grad)

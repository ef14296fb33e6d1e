"""Ops of functions that draw random numbers, where there is no memory: shapes, dtypes, and what is compiled of them."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim

UNIT = gs.CompilationUnit(
    """
def uniform(x):
    return torch.rand(3, 4) * x

def uniform_like(x):
    return torch.rand_like(x) * x

def normal_like(x):
    return torch.randn_like(x) + 1

def integers(x):
    return torch.randint(2, 7, [2]) * 2

def integers_like(x):
    return torch.randint_like(x, 5) + x

def shuffled(x):
    return torch.randperm(5) + 1

def coins(x):
    return torch.bernoulli(x, 0.3) * x

def dropped(x, p: float = 0.4, training: bool = True):
    return F.dropout(x, p, training) * 2

def rested(x):
    return dropped(x, 0.4, False).mean(-1)

def channels(x):
    return F.dropout1d(x, 0.5, True) * 2

def alpha(x):
    return F.feature_alpha_dropout(x, 0.5, True).sum(0)

def leaky(x):
    return F.rrelu(x, 0.1, 0.3, True).sum(0)

def attended(x):
    return F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.3) * 2

def by_coin(x):
    if torch.rand(1).item() > 0.5:
        return x * 2
    return x * 3

def often(x):
    for i in range(3):
        x = F.dropout(x, 0.1 * i, True) + torch.rand_like(x)
    return x, torch.randperm(3)

def own(x):
    y = F.dropout(x, 0.5)

    def backward(grad):
        return grad * 3 * y

    return y * x, backward

def nested(x):
    return own(x) + own(x * 2).sum(0)
"""
)
NAMES = (
    *("uniform", "uniform_like", "normal_like", "integers", "integers_like", "shuffled", "coins", "dropped", "rested"),
    *("channels", "alpha", "leaky", "attended", "by_coin", "often", "own", "nested"),
)
OPS = {name: gs.torch_op(getattr(UNIT, name), f"by_draw::{name}") for name in NAMES}


def kinds(results: Any) -> list[Any]:
    results = results if isinstance(results, tuple) else (results,)
    return [(tuple(result.shape), result.dtype) for result in results]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_dtypes_without_memory(name: str) -> None:
    op = OPS[name]
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        x = torch.rand(3, 4).to(dtype)
        expected = kinds(op(x))
        assert kinds(op(x.to("meta"))) == expected
        with FakeTensorMode() as mode:
            assert kinds(op(mode.from_tensor(x))) == expected
            assert kinds(op(mode.from_tensor(x.requires_grad_()))) == expected


@pytest.mark.parametrize("name", ["dropped", "rested", "by_coin", "nested", "shuffled", "uniform_like"])
@pytest.mark.filterwarnings("ignore")
def test_one_graph_with_gradients_and_without(name: str) -> None:
    torch._dynamo.reset()
    op = OPS[name]
    compiled = torch.compile(lambda x: op(x), backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (3, 5, 4):
        for needs_grad in (False, True):
            x = torch.rand(rows, 4).requires_grad_(needs_grad)
            result = compiled(x)
            assert kinds(result) == kinds(op(x))
            assert result.requires_grad == op(x).requires_grad


def test_an_exported_program_draws_anew() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return OPS["dropped"](x)

    rows = Dim("rows", min=2)
    program = torch.export.export(Net(), (torch.ones(5, 4),), dynamic_shapes=({0: rows},)).module()
    first, second = (program(torch.ones(9, 40)[:, :4]) for _ in range(2))
    assert first.shape == (9, 4)
    assert not torch.equal(first, second)
    assert torch.cat([first, second]).unique().tolist() == pytest.approx([0.0, 2 / 0.6])

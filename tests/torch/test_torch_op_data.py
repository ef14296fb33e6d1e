"""Ops of functions that decide by what is in a tensor: what torch is told of their shapes, and what comes out."""

from __future__ import annotations

import io
from typing import Any

import gradscript as gs
import pytest
import torch
from torch.export import Dim
from torch.utils.flop_counter import FlopCounterMode

UNIT = gs.CompilationUnit(
    """
def halved(x, w):
    y = x
    while float(y.abs().sum()) > 1.0:
        y = y * 0.5
    return y * w.sum(0)

def early(x, w):
    if bool((x > 0).all()):
        return (x @ w).sum(0)
    return (x - w[0]).sum(0)

def rows(x, w):
    found = []
    for i in range(x.size(1)):
        part = x[:, i]
        if float(part[0]) > 0:
            part = part * 2
        found.append(part)
    return torch.stack(found, 1) @ w

def doubled(x, w):
    y = x
    if bool((x[0] > -100.0).all()):
        y = y @ w
    else:
        y = y @ w.t()
    return torch.cat([y, y], 0), x.argmax(1)

def flat(x, w):
    largest = float(x.detach().abs().max())
    y = x / largest
    for _ in range(int(largest) + 1):
        y = torch.tanh(y)
    return y.reshape(-1) * w.sum()

def own(x, w):
    def backward(grad):
        scale = 2.0
        if bool(x.sum() > 0):
            scale = 4.0
        return grad * scale, w * 0.0 + (grad * x).sum(0)
    return x * w[0], backward
"""
)
NAMES = ["halved", "early", "rows", "doubled", "flat", "own"]
OPS = {name: gs.torch_op(getattr(UNIT, name), f"by_data::{name}") for name in NAMES}


def given(rows: int, *, turned: bool = False) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(rows)
    x, w = (torch.randn(n, 3, dtype=torch.float64, generator=generator) for n in (rows, 3))
    x = x.t().contiguous().t() if turned else x
    return x.requires_grad_(), w.requires_grad_()


def both(function: Any, args: tuple[Any, Any]) -> list[Any]:
    """The values and the gradients."""
    results = function(*args)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum((t * torch.linspace(1, 2, t.numel(), dtype=t.dtype).reshape(t.shape)).sum() for t in results[:1])
    return [*results, *torch.autograd.grad(loss, args, allow_unused=True)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_one_program_for_batches_of_any_size(name: str) -> None:
    """What is exported and what is compiled leave the batch open, and come to what the function does."""
    torch._dynamo.reset()
    op, function = OPS[name], getattr(UNIT, name)

    class Net(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return op(x, w)

    program = torch.export.export(Net(), given(5), dynamic_shapes=({0: Dim("rows", min=2, max=64)}, None))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    compiled = torch.compile(lambda x, w: op(x, w), backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (5, 2, 7):
        torch.testing.assert_close(loaded(*given(rows)), function(*given(rows)))
        torch.testing.assert_close(both(compiled, given(rows)), both(function, given(rows)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_torch_finds_nothing_wrong(name: str, turned: bool) -> None:
    op = OPS[name]
    torch.library.opcheck(op.op, given(4, turned=turned))
    torch.library.opcheck(op.forward, given(4, turned=turned))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_gradients_by_torch_func_are_compiled(name: str) -> None:
    """Of what torch's own ops cannot tell, torch sees the halves; what has memory goes the function's own way."""
    torch._dynamo.reset()
    op, function = OPS[name], getattr(UNIT, name)

    def total(called: Any) -> Any:
        def run(x: Any, w: Any) -> Any:
            result = called(x, w)
            result = result[0] if isinstance(result, tuple) else result
            return (result * result).sum()

        return torch.func.grad(run, argnums=(0, 1))

    compiled = torch.compile(total(op), backend="aot_eager", fullgraph=True)
    for rows in (5, 2, 7):
        args = [t.detach() for t in given(rows)]
        torch.testing.assert_close(compiled(*args), total(function)(*args))
    with FlopCounterMode(display=False):
        torch.testing.assert_close(total(op)(*args), total(function)(*args))
        twice = [torch.func.grad(lambda x, w=args[1], f=f: total(f)(x, w)[0].sum())(args[0]) for f in (op, function)]
    torch.testing.assert_close(*twice)


def test_what_is_behind_such_gradients_is_told() -> None:
    torch._dynamo.reset()
    x, w = (t.detach() for t in given(4))
    twice = torch.func.grad(lambda x: torch.func.grad(lambda x: OPS["halved"](x, w).sum())(x).sum())
    with pytest.raises(Exception, match="take second derivatives outside of what is compiled"):
        torch.compile(twice, backend="aot_eager", fullgraph=True)(x)

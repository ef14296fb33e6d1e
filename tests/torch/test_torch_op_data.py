"""Ops of functions that decide by what is in a tensor, or draw: what torch is told of shapes, and what comes out."""

from __future__ import annotations

import io
from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.runtime.torch.library.open_shapes import results_of
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
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


# --- what draws random numbers ---

DRAWING = gs.CompilationUnit(
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
DRAWN = (
    *("uniform", "uniform_like", "normal_like", "integers", "integers_like", "shuffled", "coins", "dropped", "rested"),
    *("channels", "alpha", "leaky", "attended", "by_coin", "often", "own", "nested"),
)
DRAWN_OPS = {name: gs.torch_op(getattr(DRAWING, name), f"by_draw::{name}") for name in DRAWN}


def kinds(results: Any) -> list[Any]:
    results = results if isinstance(results, tuple) else (results,)
    return [(tuple(result.shape), result.dtype) for result in results]


@pytest.mark.parametrize("name", DRAWN)
def test_shapes_and_dtypes_without_memory(name: str) -> None:
    op = DRAWN_OPS[name]
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
    op = DRAWN_OPS[name]
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
            return DRAWN_OPS["dropped"](x)

    rows = Dim("rows", min=2)
    program = torch.export.export(Net(), (torch.ones(5, 4),), dynamic_shapes=({0: rows},)).module()
    first, second = (program(torch.ones(9, 40)[:, :4]) for _ in range(2))
    assert first.shape == (9, 4)
    assert not torch.equal(first, second)
    assert torch.cat([first, second]).unique().tolist() == pytest.approx([0.0, 2 / 0.6])


def test_sizes_that_are_not_left_open_are_those_at_hand() -> None:
    """They are asked for so where open ones do not tell the shapes of all results."""
    graph = gs.CompilationUnit("def f(x, n: int):\n    return torch.cat([x, x], 0) * n").f.graph
    given = torch.zeros(5, 3)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        context = StatelessSymbolicContext([DimDynamic.DYNAMIC] * 2)
        x = mode.from_tensor(given, symbolic_context=context, source=ConstantSource("x"))
        assert isinstance(x.shape[0], torch.SymInt)
        (result,) = results_of(graph, [x, 2], leave_open=False)
    assert result.shape == (10, 3) and all(type(size) is int for size in result.shape)

"""Functions registered as ops of torch, with arguments: the kernels' suite, and formulas with control flow."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gradscript as gs
import torch

ROOT = Path(__file__).parents[2]
LAYOUTS = ("contiguous", "transposed", "expanded")

OWN = """
def loop(x, w, rounds: int = 2):
    y = x
    for i in range(rounds):
        y = torch.tanh(y @ w)
    return y

def branch(x, y, flag: bool):
    if flag:
        return x * y
    return x.sin() + y

def by_data(x):
    if bool((x > 0).all()):
        return x.exp() * 2
    return x.sin() * 3

def until(x):
    y = x
    while bool(y.abs().sum() > 1.0):
        y = y * y.sigmoid() * 0.5
    return y

def optional(x, b: Optional[Tensor] = None):
    y = x
    if b is not None:
        y = y * b
    return y.tanh()

def lists(xs: List[Tensor], w):
    y = torch.cat(xs)
    return y * w, [y.exp(), y.sum(0)]

def nested(x, n: int):
    y = x
    for i in range(n):
        for j in range(2):
            y = (y * y).tanh()
    return y

def noisy(x):
    return F.dropout(x.tanh(), 0.5, True)

def views(x, w):
    return x.t() @ w.t()

def total(x):
    return x.sum(1)

def rows(x):
    out: List[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[i].exp())
    return torch.stack(out)

def same(x, y):
    return x, x.t(), x[0], y

def until_second(x, n: int):
    y = x
    for i in range(n):
        y = y.sin()
        if i == 1:
            break
    return y * x

# Its gradients are three times and twice the derivatives: what comes out tells whose backward ran.
def own(x, w):
    s = torch.tanh(x)

    def backward(grad):
        return (grad * (1 - s * s) * w).sum_to_size(x.size()) * 3, (grad * s).sum_to_size(w.size()) * 2

    return s * w, backward

def keywords(x, *, scale: float = 2.0, dims: List[int] = [0], mode: str = "a"):
    if mode == "a":
        return (x * scale).sum(dims)
    return (x / scale).sum(dims, True)
"""


def positive(*shape: int) -> Any:
    return torch.rand(shape, dtype=torch.float64) + 0.1


ARGUMENTS: dict[str, Callable[[], list[Any]]] = {
    "loop": lambda: [positive(4, 4), positive(4, 4)],
    "branch": lambda: [positive(4, 4), positive(4, 4), True],
    "by_data": lambda: [positive(4, 4)],
    "until": lambda: [positive(4, 4)],
    "optional": lambda: [positive(4, 4)],
    "lists": lambda: [[positive(2, 4), positive(3, 4)], positive(5, 4)],
    "nested": lambda: [positive(4, 4), 2],
    "noisy": lambda: [positive(4, 4)],
    "views": lambda: [positive(4, 4), positive(3, 4)],
    "total": lambda: [positive(4, 4)],
    "rows": lambda: [positive(4, 4)],
    "same": lambda: [positive(4, 4), positive(3)],
    "until_second": lambda: [positive(4, 4), 3],
    "own": lambda: [positive(4, 4), positive(4)],
    "keywords": lambda: [positive(4, 4)],
}
SUITE_ARGUMENTS: dict[str, Callable[[], list[Any]]] = {
    "bias_gelu": lambda: [positive(4, 8), positive(8)],
    "bias_gelu_tanh": lambda: [positive(4, 8), positive(8)],
    "swiglu": lambda: [positive(4, 8), positive(4, 8)],
    "geglu": lambda: [positive(4, 8), positive(4, 8)],
    "rms_norm": lambda: [positive(4, 8), positive(8)],
    "layer_norm": lambda: [positive(4, 8), positive(8), positive(8)],
    "add_rms_norm": lambda: [positive(4, 8), positive(4, 8), positive(8)],
    "softmax": lambda: [positive(4, 8)],
    "cross_entropy": lambda: [positive(4, 8), torch.tensor([0, 7, 3, 3])],
    "dropout_add_layer_norm": lambda: [positive(4, 8), positive(4, 8), positive(8), positive(8)],
    "rope": lambda: [positive(1, 2, 4, 8), positive(4, 8), positive(4, 8)],
    "lstm_cell": lambda: [positive(4, 8), positive(4, 2)],
    "chain": lambda: [positive(4, 8), positive(4, 8)],
    "focal_loss": lambda: [positive(4, 8), positive(4, 8)],
    "adamw": lambda: [*(positive(4, 8) for _ in range(4)), 1e-3, 0.9, 0.999, 1e-8, 0.01, 3.0],
}
NAMES = (*SUITE_ARGUMENTS, *ARGUMENTS)
UNTRACED = frozenset(("by_data", "until", "noisy", "dropout_add_layer_norm"))
"""What is in a tensor decides, or numbers are drawn: their second derivatives cannot be traced."""


@cache
def op_of(name: str) -> Any:
    """The op of a function, registered once for all tests."""
    suite = name in SUITE_ARGUMENTS
    unit = gs.load(ROOT / "benchmarks" / "suite.grad") if suite else gs.CompilationUnit(OWN)
    return gs.torch_op(unit[name], f"op_cases::{name}")


def arguments(name: str, layout: str) -> list[Any]:
    torch.manual_seed(0)
    made = (SUITE_ARGUMENTS | ARGUMENTS)[name]()
    return [_each(value, lambda tensor: recorded(_laid_out(tensor, layout))) for value in made]


def backward_arguments(name: str, given: list[Any]) -> list[Any]:
    """What the backward op takes after a forward op on these arguments."""
    op = op_of(name)
    halves = op._registered.halves
    with torch.no_grad():
        results = op.forward(*given)
    results = [*results] if isinstance(results, tuple) else [results]
    vjps = [_each(results[i], _seed) if i < halves.num_real else None for i in halves.vjps]
    taken = halves.arguments_of_backward(op._registered.bound(tuple(given), {}), results)
    if name not in UNTRACED:
        vjps = [_each(value, recorded) for value in vjps]
    else:
        taken = [_each(value, lambda tensor: tensor.detach()) for value in taken]
    return [*vjps, *taken, [True] * len(halves.wanted)]


def recorded(tensor: Any) -> Any:
    return tensor.detach().requires_grad_() if tensor.is_floating_point() else tensor


def _seed(tensor: Any) -> Any:
    return torch.rand_like(tensor) if tensor.is_floating_point() else None


def _laid_out(tensor: Any, layout: str) -> Any:
    if layout == "transposed":
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    return tensor[:1].expand(tensor.shape) if layout == "expanded" else tensor.clone()


def _each(value: Any, make: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [_each(item, make) for item in value]
    return make(value) if isinstance(value, torch.Tensor) else value


def spread(mesh: Any, tensor: Any, place: Any) -> Any:
    """A tensor over two processes, of which this is the first, and the other one only thought of.

    Not by `distribute_tensor`: what such a process scatters is, in older versions of torch, memory as it was.
    """
    from torch.distributed.tensor import DTensor, Shard

    local = tensor.detach()
    shape, stride = local.shape, local.stride()
    if isinstance(place, Shard):
        local = local.chunk(2, place.dim)[0].contiguous()
    return DTensor.from_local(local, mesh, [place], run_check=False, shape=shape, stride=stride).requires_grad_()

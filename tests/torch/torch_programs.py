"""Programs for the bridge to torch, in source and in torch, with the shapes of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradscript as gs
import torch
from shared_programs import SHARED, SOURCE, leaves

__all__ = ["CASES", "UNIT", "Case", "draw", "leaves"]

UNIT = gs.CompilationUnit(
    SOURCE
    + """
def arithmetic(x, y):
    return x * y + torch.relu(x) * torch.sin(y) / 3

def branch(x, w):
    if bool(x.sum() > 0):
        y = torch.exp(x) * w
        y = y * y
    else:
        y = torch.sin(x * w) * w
    return y

def several(x, w):
    m = x.max(1)
    return x * w, m[0], m[1], w.sum(), x > w

def tripled(x):
    def backward(grad):
        return grad * 3
    return x * 2, backward

def unused(x, y):
    def backward(grad):
        return grad * 2 * x, None
    return x * x, backward

def pairs(p: Tuple[Tensor, Tensor], qs: List[Tensor]):
    return p[0] * p[1] + torch.stack(qs).prod(0), (p[0] + 1, qs)

def same(x):
    return x

def twice(x):
    y = torch.exp(x)
    return y, y

def views(x):
    return x.t(), x[0], x.reshape(-1), x.unsqueeze(0)

def halves(x):
    y = torch.exp(x)
    return y, y[:1], y.t()

def cut(x, w):
    return x * w.detach(), torch.floor(x), x.detach() * 2

def wrong_shape(xs: List[Tensor]):
    def backward(grad):
        return [torch.cat([grad, grad]), grad]
    return xs[0] + xs[1], backward

def opaque(ps: List[Tuple[Tensor, Tensor]], x):
    return ps[0][0] * ps[0][1] * x

def no_gradient(x):
    return x * 2, torch.special.zeta(x, 2.0)

def no_second_gradient(x):
    def backward(grad):
        return grad * torch.special.zeta(x, 2.0)
    return x * 2, backward
"""
)


@dataclass(frozen=True)
class Case:
    """A program in both languages. `extra` are arguments that are no tensors."""

    ours: Callable[..., Any]
    eager: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    extra: tuple[Any, ...] = ()

    def tensors(self, mask: Sequence[bool] = (), dtype: Any = torch.float64) -> list[Any]:
        """Inputs, always the same, that require a gradient where the mask says so."""
        draw = torch.Generator().manual_seed(5)
        made = [torch.randn(shape, dtype=torch.float64, generator=draw).to(dtype) for shape in self.shapes]
        flags = mask or [True] * len(made)
        return [tensor.requires_grad_(flag) for tensor, flag in zip(made, flags, strict=True)]


def _several(x: Any, w: Any) -> Any:
    values, indices = x.max(1)
    return x * w, values, indices, w.sum(), x > w


def _twice(x: Any) -> Any:
    y = torch.exp(x)
    return y, y


def _halves(x: Any) -> Any:
    y = torch.exp(x)
    return y, y[:1], y.t()


CASES: dict[str, Case] = {
    **{name: Case(getattr(UNIT, function), *rest) for name, (function, *rest) in SHARED.items()},
    "arithmetic": Case(UNIT.arithmetic, lambda x, y: x * y + torch.relu(x) * torch.sin(y) / 3, ((2, 3), (3,))),
    "branch": Case(
        UNIT.branch,
        lambda x, w: (torch.exp(x) * w) ** 2 if x.sum() > 0 else torch.sin(x * w) * w,
        ((2, 3), (2, 3)),
    ),
    "branch left": Case(
        lambda x, w: UNIT.branch(-x.abs(), w), lambda x, w: torch.sin(-x.abs() * w) * w, ((2, 3), (2, 3))
    ),
    "several outputs": Case(UNIT.several, _several, ((3, 4), (4,))),
    "tuples and lists": Case(
        lambda a, b, c, d: UNIT.pairs((a, b), [c, d]),
        lambda a, b, c, d: (a * b + c * d, (a + 1, [c.clone(), d.clone()])),
        ((3,), (3,), (3,), (3,)),
    ),
    "an input returned": Case(UNIT.same, lambda x: x.clone(), ((2, 3),)),
    "one value returned twice": Case(UNIT.twice, _twice, ((2, 3),)),
    "views of an input": Case(UNIT.views, lambda x: (x.t(), x[0], x.reshape(-1), x.unsqueeze(0)), ((2, 3),)),
    "views of a result": Case(UNIT.halves, _halves, ((2, 3),)),
    "gradients that stop": Case(
        UNIT.cut, lambda x, w: (x * w.detach(), torch.floor(x), x.detach() * 2), ((2, 3), (2, 3))
    ),
    "no dimensions": Case(UNIT.arithmetic, lambda x, y: x * y + torch.relu(x) * torch.sin(y) / 3, ((), ())),
    "no elements": Case(UNIT.arithmetic, lambda x, y: x * y + torch.relu(x) * torch.sin(y) / 3, ((0, 3), (3,))),
    "in a larger graph": Case(
        lambda x, w: UNIT.mlp(x * 2, x.T @ w, w[0]).log() * UNIT.own(w, w),
        lambda x, w: torch.log(torch.softmax(torch.tanh(x * 2 @ (x.T @ w) + w[0]), 1)) * (w * w),
        ((3, 2), (3, 2)),
    ),
}


def draw(*shape: int, grad: bool = True, seed: int = 0, dtype: Any = torch.float64) -> Any:
    """A tensor of normal numbers."""
    made = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return made.requires_grad_(grad)

"""Programs for the tape, in source and in torch, with inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gradscript as gs
import numpy as np
import torch
from shared_programs import SHARED, SOURCE, leaves

__all__ = ["CASES", "UNIT", "Case", "leaves"]

UNIT = gs.CompilationUnit(
    SOURCE
    + """
def branch(x, w, c: bool):
    if c:
        y = torch.exp(x) * w
        y = y * y
    else:
        y = torch.sin(x * w) * w
    return y

def several(x, w):
    m = x.max(1)
    return x * w, m[0], m[1], w.sum()

def pairs(p: Tuple[Tensor, Tensor], qs: List[Tensor]):
    return p[0] * p[1] + torch.stack(qs).prod(0)
"""
)


@dataclass(frozen=True)
class Case:
    """A program on Variables and the same one on tensors; `extra` are arguments that are no tensors."""

    ours: Callable[..., Any]
    torch: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    extra: tuple[Any, ...] = field(default=())

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        draw = np.random.default_rng(3)
        return [draw.normal(size=shape) for shape in self.shapes]


def _several(x: Any, w: Any) -> Any:
    values, indices = x.max(1)
    return x * w, values, indices, w.sum()


def chain(x: Any, w: Any) -> Any:
    """Operators, methods and subscripts, on whatever has them."""
    y = (x @ w.T).tanh() / 2 - 1.5
    y = y[:, 1:] * y[..., :-1] + (2.0 / (y[:, 1:] ** 2 + 1))
    shared = y.exp()
    return (shared * shared).sum(1) + abs(x).mean() - (-y).amax(1)


def branching(x: Any, w: Any) -> Any:
    parts = x.unbind(0)
    total = parts[0] * w
    for part in parts:
        total = total + part * total
    return total.reshape(-1, 1).t()


CASES: dict[str, Case] = {
    **{name: Case(getattr(UNIT, function), *rest) for name, (function, *rest) in SHARED.items()},
    "branch taken": Case(UNIT.branch, lambda x, w, c: (torch.exp(x) * w) ** 2, ((2, 3), (2, 3)), (True,)),
    "branch left": Case(UNIT.branch, lambda x, w, c: torch.sin(x * w) * w, ((2, 3), (2, 3)), (False,)),
    "several outputs": Case(UNIT.several, _several, ((3, 4), (4,))),
    "tuple and list": Case(
        lambda a, b, c, d: UNIT.pairs((a, b), [c, d]), lambda a, b, c, d: a * b + c * d, ((3,), (3,), (3,), (3,))
    ),
    "ops": Case(chain, chain, ((3, 4), (5, 4))),
    "branching": Case(branching, branching, ((3, 4), (4,))),
    "function of ops": Case(
        lambda x, w: UNIT.mlp(x * 2, (x.T @ w), w[0].detach()).log() * UNIT.own(w, w),
        lambda x, w: torch.log(torch.softmax(torch.tanh(x * 2 @ (x.T @ w) + w[0].detach()), 1)) * (w * w),
        ((3, 2), (3, 2)),
    ),
}

"""Programs that the tape and the bridge to torch both run, in source and in torch, with the shapes of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

SOURCE = """
def mlp(x, w, b):
    h = torch.tanh(x @ w + b)
    return torch.softmax(h, 1)

def loops(x, w, n: int):
    y = x
    for i in range(n):
        z = torch.tanh(y * w)
        for j in range(2):
            z = z * w + torch.sin(z)
        y = y + z
    return y

def lists(x, w):
    parts = [row * w for row in torch.unbind(x)]
    return parts, torch.cat(parts)

def own(x, w):
    def backward(grad):
        return grad * w, grad * x
    return x * w, backward

def uses_own(x, w):
    return own(torch.tanh(x), w) * x

def optional(x, w, b: Optional[Tensor] = None):
    y = x * w
    if b is not None:
        y = y + torch.exp(b)
    return y
"""


def _loops(x: Any, w: Any, n: int) -> Any:
    y = x
    for _ in range(n):
        z = torch.tanh(y * w)
        for _ in range(2):
            z = z * w + torch.sin(z)
        y = y + z
    return y


def _lists(x: Any, w: Any) -> Any:
    parts = [row * w for row in torch.unbind(x)]
    return parts, torch.cat(parts)


SHARED: dict[str, tuple[str, Callable[..., Any], tuple[tuple[int, ...], ...], tuple[Any, ...]]] = {
    "mlp": ("mlp", lambda x, w, b: torch.softmax(torch.tanh(x @ w + b), 1), ((2, 3), (3, 4), (4,)), ()),
    "loops": ("loops", _loops, ((2, 3), (2, 3)), (3,)),
    "lists": ("lists", _lists, ((3, 4), (4,)), ()),
    "own backward": ("own", lambda x, w: x * w, ((2, 3), (2, 3)), ()),
    "calls own backward": ("uses_own", lambda x, w: torch.tanh(x) * w * x, ((2, 3), (2, 3)), ()),
    "optional there": ("optional", lambda x, w, b: x * w + torch.exp(b), ((2, 3), (3,), (2, 1)), ()),
    "optional absent": ("optional", lambda x, w: x * w, ((2, 3), (3,)), ()),
}
"""Function of the source, the same in torch, shapes of the tensors, and arguments that are no tensors."""


def leaves(result: Any) -> list[Any]:
    """The tensors of a result, lists and tuples taken apart."""
    if isinstance(result, list | tuple):
        return [leaf for item in result for leaf in leaves(item)]
    return [result]

"""Models with control flow, their arguments, and the same text run by torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import torch
from torch.nn import functional

FOLDER = Path(__file__).parent
TEXT = (FOLDER / "models.grad").read_text(encoding="utf-8")
UNIT = gs.CompilationUnit(TEXT, "models.grad")
NEWTON = gs.CompilationUnit((FOLDER / "newton.grad").read_text(encoding="utf-8"), "newton.grad")
_NAMES: dict[str, Any] = {"torch": torch, "F": functional, "math": math, "List": list, "Tensor": torch.Tensor}
exec(TEXT, _NAMES)


def eager(name: str) -> Callable[..., Any]:
    """A model by torch, from the same text."""
    found: Callable[..., Any] = _NAMES[name]
    return found


class _Draw:
    def __init__(self) -> None:
        self._rng = np.random.default_rng(3)

    def __call__(self, *shape: int) -> Any:
        return self._rng.standard_normal(shape)

    def each(self, count: int, *shape: int) -> list[Any]:
        return [self(*shape) / shape[0] ** 0.5 for _ in range(count)]


def arguments(name: str, layers: int = 3) -> list[Any]:
    """Arguments of a model in float64. `layers` is how many times its body runs."""
    draw = _Draw()
    made: dict[str, Callable[[], list[Any]]] = {
        "transformer": lambda: [
            *(draw(2, 5, 8), np.triu(np.full((5, 5), -1e9), 1), 2, [np.ones(8) for _ in range(layers)]),
            *(draw.each(layers, 8, 24), draw.each(layers, 8, 8), draw.each(layers, 8, 16), draw.each(layers, 16, 8)),
        ],
        "translation": lambda: [
            *(draw(layers, 2, 4), draw(layers, 2, 4), np.zeros((2, 4)), draw(4, 16), draw(4, 16), draw(16)),
            *(draw(4, 4), draw(4), draw(8, 6)),
        ],
        "wavenet": lambda: [draw(2, 9, 4), draw.each(layers, 8, 8), draw.each(layers, 4, 4)],
        "chain": lambda: [draw(5, 6), draw.each(layers, 6, 6), draw.each(layers, 6)],
        "early_exit": lambda: [draw(3, 6), draw.each(layers + 3, 6, 6), 0.55],
        "search": lambda: [draw(3, 6), draw(6, 6)],
        "experts": lambda: [draw(9, 6), draw(6, layers), draw.each(layers, 6, 8), draw.each(layers, 8, 6)],
        "truncated": lambda: [draw.each(layers + 4, 3, 6), draw(6, 6), draw(6, 6), 3],
    }
    return made[name]()


MODELS = ("transformer", "translation", "wavenet", "chain", "early_exit", "search", "experts", "truncated")


def tensors(values: list[Any]) -> list[Any]:
    """Arguments as tensors of torch, of which the floating ones require a gradient."""
    return [_tensor(value) for value in values]


def _tensor(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensor(item) for item in value]
    return torch.tensor(value, requires_grad=True) if isinstance(value, np.ndarray) else value


def flat(values: list[Any]) -> list[Any]:
    """The tensors or arrays among arguments or gradients, those of lists in their places."""
    return [
        item
        for value in values
        for item in (value if isinstance(value, list | tuple) else [value])
        if item is None or hasattr(item, "shape")
    ]

"""Arguments for the functions of suite.grad: shapes by the rows and columns of the largest tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Classes:
    """A vector of class indices: one for each row, below `count`."""

    rows: int
    count: int


NUMBERS = (1e-3, 0.9, 0.999, 1e-8, 0.01, 3.0)
"""adamw's: rate, two decays of moments, epsilon, weight decay, step."""
NO_BACKWARD = frozenset(("adamw",))
NO_GRADIENT = {"rope": (1, 2), "focal_loss": (1,)}
"""Arguments, by number, whose gradients nobody asks for."""


def _rope(rows: int, columns: int) -> list[Any]:
    time, width = 256, 64
    return [(max(rows * columns // (8 * time * width), 1), 8, time, width), (time, width), (time, width)]


ARGUMENTS: dict[str, Callable[[int, int], list[Any]]] = {
    "bias_gelu": lambda n, d: [(n, d), (d,)],
    "bias_gelu_tanh": lambda n, d: [(n, d), (d,)],
    "swiglu": lambda n, d: [(n, d), (n, d)],
    "geglu": lambda n, d: [(n, d), (n, d)],
    "rms_norm": lambda n, d: [(n, d), (d,)],
    "layer_norm": lambda n, d: [(n, d), (d,), (d,)],
    "add_rms_norm": lambda n, d: [(n, d), (n, d), (d,)],
    "softmax": lambda n, d: [(n, d)],
    "cross_entropy": lambda n, d: [(n, d), Classes(n, d)],
    "dropout_add_layer_norm": lambda n, d: [(n, d), (n, d), (d,), (d,)],
    "rope": _rope,
    "lstm_cell": lambda n, d: [(n, d), (n, d // 4)],
    "chain": lambda n, d: [(n, d), (n, d)],
    "focal_loss": lambda n, d: [(n, d), (n, d)],
    "adamw": lambda n, d: [(n, d), (n, d), (n, d), (n, d), *NUMBERS],
}
"""By function, for n rows of d columns: a shape for each tensor, Classes, and numbers as they are."""
COLUMNS = {"cross_entropy": 32_000, "lstm_cell": 4096}
"""Where others than those of the other functions are what is met in practice."""

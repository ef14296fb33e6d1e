"""Programs of many fields with their arguments, of which `n` is a size that varies, and the same text run by torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import torch
from torch.nn import functional

TEXT = (Path(__file__).parent / "fields.grad").read_text(encoding="utf-8")
UNIT = gs.CompilationUnit(TEXT, "fields.grad")
_NAMES: dict[str, Any] = {"torch": torch, "F": functional, "List": list, "Tensor": torch.Tensor}
exec(TEXT, _NAMES)
Draw = Callable[..., Any]


def _symmetric(draw: Draw) -> Any:
    half = draw(5, 5)
    return np.eye(5) * 1.5 + 0.1 * (half + half.T)


_ARGUMENTS: dict[str, Callable[[Draw, int], list[Any]]] = {
    "gan_penalty": lambda d, n: [d(6 + n, 4), d(4, 8), d(8, 1)],
    "gru_attention": lambda d, n: [
        *(d(4 + n, 3, 5), d(3, 5), d(10, 5) / 3, d(10, 5) / 3, d(10, 5) / 3, d(5, 5) / 2),
    ],
    "unet": lambda d, n: [
        *(d(2, 3, 8 * n), [d(4, 3, 3) / 3, d(6, 4, 3) / 3], [d(4, 12, 3) / 4, d(4, 8, 3) / 4], d(6, 6, 3) / 3),
    ],
    "transducer": lambda d, n: [d(4 + n, 4, 6), [2, 5, 1]],
    "masked_experts": lambda d, n: [
        *(d(6 + n, 5), d(5, 3), [d(5, 7) / 2 for _ in range(3)], [d(7, 5) / 2 for _ in range(3)]),
    ],
    "gathered_experts": lambda d, n: [d(8 + n, 5), d(5, 3), [d(5, 5) / 2 for _ in range(3)]],
    "ode": lambda d, n: [d(2 + n, 4), d(4, 4) / 2, d(4), 0.01],
    "maml": lambda d, n: [
        *(d(4, 2) / 2, [d(5 + n, 4) for _ in range(3)], [d(5 + n, 2) for _ in range(3)], 0.3, 2),
    ],
    "beam_step": lambda d, n: [d(3), d(3, 5), d(5, 5), d(7 + n, 5), 3],
    "sinkhorn": lambda d, n: [d(6 + n, 3), d(5, 3), d(3, 3), 5, 0.7],
    "kv_transformer": lambda d, n: [
        *([d(2 + n, 6) for _ in range(4)], *[d(6, 6) / 2 for _ in range(4)], d(6, 12) / 2, d(12, 6) / 3),
    ],
    "kalman": lambda d, n: [d(4 + n, 2), d(3, 3) / 2, d(2, 3), d(3, 3) / 3, d(2, 2) / 2],
    "early": lambda d, n: [d(3 + n, 6), [d(6, 6) / 2 for _ in range(4)], [d(6, 3) for _ in range(4)], 0.8],
    "diffusion": lambda d, n: [
        *(d(3 + n, 6), d(3 + n, 6), [d(6, 6) / 2 for _ in range(3)], [0.9, 0.7, 0.4, 0.1]),
    ],
    "neural_gpu": lambda d, n: [d(2, 4, 5 + n), d(4, 4, 3) / 3, d(4, 4, 3) / 3, d(4, 4, 3) / 3, 5],
    "alignment": lambda d, n: [d(3, 2 + n), 0.5],
    "tree": lambda d, n: [[d(2, 4) for _ in range(6 + n)], d(8, 4) / 2, d(4)],
    "equilibrium": lambda d, n: [d(2 + n, 5), d(5, 5) / 5, d(5, 5) / 2, 1e-6],
    "crf": lambda d, n: [d(6 + n, 4), d(4, 4), [i * i % 4 for i in range(6 + n)]],
    "lbfgs_step": lambda d, n: [d(5), _symmetric(d), d(5), 3],
    "highway": lambda d, n: [
        *(d(3 + n, 6), [d(6, 6) / 2 for _ in range(4)], [d(6, 6) / 2 for _ in range(4)], True),
    ],
    "viterbi": lambda d, n: [d(6 + n, 4), d(4, 4), d(4)],
    "ssm": lambda d, n: [d(6 + n, 4), d(5), d(4, 5) / 2, d(5, 4) / 2, d(4)],
    "pointer": lambda d, n: [d(6 + n, 5), d(5), d(5, 5) / 2, d(5, 5) / 2, 4],
}
PROGRAMS = tuple(_ARGUMENTS)
DECIDED_BY_THE_HOST = (
    *("gan_penalty", "masked_experts", "maml", "highway", "diffusion", "neural_gpu", "sinkhorn", "unet"),
    *("gru_attention", "kv_transformer", "kalman", "ssm"),
)
"""Those whose way follows from sizes, in the order of how long they take."""


def eager_field(name: str) -> Callable[..., Any]:
    """A program by torch, from the same text."""
    found: Callable[..., Any] = _NAMES[name]
    return found


def field_arguments(name: str, seed: int, n: int = 1) -> list[Any]:
    """Tensors of float64 that require a gradient, and what else there is."""
    generator = np.random.default_rng([seed, n, len(name)])
    return [_tensor(value) for value in _ARGUMENTS[name](lambda *shape: generator.standard_normal(shape), n)]


def _tensor(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensor(item) for item in value]
    return torch.tensor(value, requires_grad=True) if isinstance(value, np.ndarray) else value

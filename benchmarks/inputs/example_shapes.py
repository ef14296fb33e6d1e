"""What the functions of examples/kernels are called with, for so many rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Drawn:
    """An array of random numbers: `normal`; `log_p` and `p` of rows that are distributions; `signs`, and below 0."""

    shape: Shape
    kind: str = "normal"

    def array(self, generator: np.random.Generator, dtype: Any) -> Any:
        numbers = np.asarray(generator.normal(size=self.shape))
        return np.asarray(_KINDS[self.kind](numbers)).astype(dtype)


@dataclass(frozen=True)
class Classes:
    """An index below `count` for each place."""

    shape: Shape
    count: int

    def array(self, generator: np.random.Generator, dtype: Any) -> Any:
        return generator.integers(0, self.count, self.shape)


def _log_p(numbers: Any) -> Any:
    return numbers - np.log(np.exp(numbers).sum(-1, keepdims=True))


_KINDS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda numbers: numbers,
    "log_p": _log_p,
    "p": lambda numbers: np.exp(_log_p(numbers)),
    "signs": np.sign,
    "negative": lambda numbers: -np.abs(numbers) - 0.1,
}


def _matrices(count: int) -> Callable[[int, int], list[Any]]:
    return lambda n, d: [Drawn((n, d))] * count


def _weighted(matrices: int, rows: int) -> Callable[[int, int], list[Any]]:
    """Matrices, then vectors as long as a row."""
    return lambda n, d: [*[Drawn((n, d))] * matrices, *[Drawn((d,))] * rows]


def _per_row(count: int, kind: str = "normal") -> Callable[[int, int], list[Any]]:
    return lambda n, d: [Drawn((n,), kind)] * count


def _scored(n: int, d: int) -> list[Any]:
    return [Drawn((n, d)), Classes((n,), d)]


def _wide(d: int) -> int:
    """Of hidden states, for d classes or hidden units."""
    return max(8, d // 8)


def _head(n: int, d: int) -> list[Any]:
    """Hidden states, and a weight."""
    return [Drawn((n, _wide(d))), Drawn((d, _wide(d)))]


ARGUMENTS: dict[str, Callable[[int, int], list[Any]]] = {
    "rms_norm": _weighted(1, 1),
    "rms_norm_llama": _weighted(1, 1),
    "rms_norm_gemma": _weighted(1, 1),
    "layer_norm": _weighted(1, 2),
    "group_norm": lambda n, d: [Drawn((n, 4, d)), Drawn((4,)), Drawn((4,))],
    "instance_norm": lambda n, d: [Drawn((n, 4, d))],
    "poly_norm": lambda n, d: [Drawn((n, d)), Drawn((3,)), Drawn(())],
    "dynamic_tanh": lambda n, d: [Drawn((n, d)), Drawn(()), Drawn((d,)), Drawn((d,))],
    "dynamic_erf": lambda n, d: [Drawn((n, d)), Drawn(()), Drawn(()), Drawn((d,)), Drawn((d,))],
    "add_rms_norm": _weighted(2, 1),
    "add_layer_norm": _weighted(2, 2),
    "gated_rms_norm": _weighted(2, 1),
    "l2_norm": _matrices(1),
    "gelu_tanh": _matrices(1),
    "geglu": _matrices(2),
    "swiglu": _matrices(2),
    "reglu": _matrices(2),
    "glu": _matrices(1),
    "squared_relu": _matrices(1),
    "clamped_swiglu": _matrices(2),
    "mish": _matrices(1),
    "softcap": _matrices(1),
    "rotary": lambda n, d: [Drawn((2, n, d)), Drawn((2, n, d)), Drawn((n, d)), Drawn((n, d))],
    "rotary_pairs": lambda n, d: [Drawn((2, n, d)), Drawn((n, d)), Drawn((n, d))],
    "partial_rotary": lambda n, d: [Drawn((2, n, d)), Drawn((n, d)), Drawn((n, d))],
    "multimodal_rotary": lambda n, d: [Drawn((2, n, d)), Drawn((3, n, d)), Drawn((3, n, d))],
    "softmax": _matrices(1),
    "log_softmax": _matrices(1),
    "causal_softmax": lambda n, d: [Drawn((2, n, n))],
    "softmax_with_sink": lambda n, d: [Drawn((n, d)), Drawn(())],
    "sparsemax": _matrices(1),
    "sinkhorn": lambda n, d: [Drawn((n, 4, 4))],
    "hyper_connection": lambda n, d: [Drawn((n, 4, d)), Drawn((n, 4, 4)), Drawn((n, d)), Drawn((n, 4))],
    "attention_residual": lambda n, d: [Drawn((4, 2, n // 2, d)), Drawn((d,)), Drawn((d,))],
    "cross_entropy": _scored,
    "smoothed_cross_entropy": _scored,
    "z_loss_cross_entropy": _scored,
    "softcapped_cross_entropy": _scored,
    "weighted_cross_entropy": lambda n, d: [*_scored(n, d), Drawn((d,), "p")],
    "focal_loss": _scored,
    "kl_divergence": lambda n, d: [Drawn((n, d), "log_p"), Drawn((n, d), "p")],
    "distillation": _matrices(2),
    "generalized_jsd": lambda n, d: [Drawn((n, d), "log_p")] * 2,
    "total_variation": lambda n, d: [Drawn((n, d), "p")] * 2,
    "cosine_distance": _matrices(2),
    "info_nce": lambda n, d: [Drawn((n, n))],
    "dpo": _per_row(4),
    "ipo": _per_row(4),
    "slic": _per_row(4),
    "orpo": _per_row(2, "negative"),
    "simpo": _per_row(2),
    "cpo": _per_row(2),
    "kto": lambda n, d: [Drawn((n,)), Drawn((n,)), Drawn(()), Drawn((n,), "signs")],
    "grpo": lambda n, d: [*[Drawn((n, d))] * 3, Drawn((n,))],
    "embedding": lambda n, d: [Drawn((n, d)), Classes((2 * n,), n)],
    "lora_linear": lambda n, d: [Drawn((n, d)), Drawn((d, d)), Drawn((4, d)), Drawn((d, 4))],
    "linear_cross_entropy": lambda n, d: [*_head(n, d), Classes((n,), d)],
    "linear_jsd": lambda n, d: [*_head(n, d), *_head(n, d)],
    "linear_dpo": lambda n, d: [*_head(n, d), Classes((n,), d), Drawn((n,), "negative")],
    "tiled_mlp": lambda n, d: [*_head(n, d), Drawn((d, _wide(d))), Drawn((_wide(d), d))],
}
"""By name: rows and columns to what is drawn for each argument, defaults left out."""


def arguments(name: str, rows: int, columns: int, dtype: Any = np.float64, seed: int = 0) -> list[Any]:
    """Arrays to call a function with."""
    generator = np.random.default_rng(seed)
    return [given.array(generator, dtype) for given in ARGUMENTS[name](rows, columns)]

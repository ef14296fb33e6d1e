"""Arguments for the models and functions of the memory benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np

FOLDER = Path(__file__).parents[1] / "models"
SEED = 0
Array = Any


@dataclass(frozen=True)
class Model:
    """A function of a file in `models/` with its arguments. `by_matmul`: matrix products take most of its time."""

    name: str
    title: str
    function: gs.Function
    arguments: list[Any]
    by_matmul: bool = False


class Draw:
    """Float32 arrays of a scale that keeps activations near one."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(SEED)

    def weight(self, *shape: int) -> Array:
        return self._rng.standard_normal(shape, np.float32) * np.float32(shape[-2] ** -0.5)

    def values(self, *shape: int) -> Array:
        return self._rng.standard_normal(shape, np.float32)

    def classes(self, count: int, *shape: int) -> Array:
        return self._rng.integers(0, count, shape)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def load(name: str) -> gs.CompilationUnit:
    path = FOLDER / f"{name}.grad"
    return gs.CompilationUnit(path.read_text(encoding="utf-8"), path.name)


def lstm_nmt(scale: float = 1.0) -> Model:
    time, batch, width, words = _scaled(scale, 40, 16, 512, 4000)
    draw = Draw()
    embeddings = [draw.values(words, width) for _ in range(2)]
    encoder = [draw.weight(width, 4 * width), draw.weight(width, 4 * width), zeros(4 * width)]
    decoder = [draw.weight(2 * width, 4 * width), draw.weight(width, 4 * width), zeros(4 * width)]
    rest = [draw.weight(width, width), draw.weight(width, width), draw.values(width) * np.float32(width**-0.5)]
    rest += [draw.weight(2 * width, width), draw.weight(width, words)]
    texts = [draw.classes(words, time, batch) for _ in range(3)]
    arguments = [*texts, zeros(batch, width), *embeddings, *encoder, *decoder, *rest]
    title = f"LSTM NMT with attention: {time} steps, batch {batch}, width {width}, {words} words"
    return Model("lstm_nmt", title, load("lstm_nmt").lstm_nmt, arguments, by_matmul=True)


def transformer(scale: float = 1.0) -> Model:
    time, batch, width, words, heads = *_scaled(scale, 128, 2, 1024, 4000), 16 if scale == 1.0 else 2
    draw, layers = Draw(), range(6)
    mask = np.triu(np.full((time, time), -1e9, np.float32), 1)
    lists = [
        *([ones(width) for _ in layers], [zeros(width) for _ in layers]),
        *([draw.weight(width, 3 * width) for _ in layers], [draw.weight(width, width) for _ in layers]),
        *([ones(width) for _ in layers], [zeros(width) for _ in layers]),
        *([draw.weight(width, 4 * width) for _ in layers], [zeros(4 * width) for _ in layers]),
        *([draw.weight(4 * width, width) for _ in layers], [zeros(width) for _ in layers]),
    ]
    texts = [draw.classes(words, batch, time) for _ in range(2)]
    tables = [draw.weight(words, width), draw.weight(time, width)]
    arguments = [*texts, mask, heads, *tables, *lists, ones(width), zeros(width)]
    title = f"6-layer transformer: {time} tokens, batch {batch}, width {width}, {heads} heads, {words} words"
    return Model("transformer", title, load("transformer").transformer, arguments, by_matmul=True)


def mlp(scale: float = 1.0) -> Model:
    batch, width = _scaled(scale, 1024, 256)
    draw = Draw()
    weights = [draw.weight(width, width) for _ in range(24)]
    biases = [zeros(width) for _ in range(24)]
    arguments = [draw.values(batch, width), draw.values(batch, width), weights, biases]
    return Model("mlp", f"24-layer MLP chain: batch {batch}, width {width}", load("mlp").mlp, arguments)


def wavenet(scale: float = 1.0) -> Model:
    batch, channels = _scaled(scale, 2, 64)
    time, draw, layers = 2048, Draw(), range(10)
    lists = [
        *([draw.weight(2 * channels, 2 * channels) for _ in layers], [zeros(2 * channels) for _ in layers]),
        *([draw.weight(channels, channels) for _ in layers], [draw.weight(channels, channels) for _ in layers]),
    ]
    expected = draw.classes(256, batch, time)
    arguments = [draw.values(batch, time, channels), expected, *lists, draw.weight(channels, 256)]
    title = f"10 dilated gates of WaveNet: {time} samples, batch {batch}, {channels} channels"
    return Model("wavenet", title, load("wavenet").wavenet, arguments)


def _scaled(scale: float, *sizes: int) -> list[int]:
    return [max(2, round(size * scale) // 2 * 2) for size in sizes]


MODELS: tuple[Callable[..., Model], ...] = (lstm_nmt, transformer, mlp, wavenet)


def functions() -> list[Model]:
    """The small functions that are compared with torch's partitioner."""
    unit, draw = load("functions"), Draw()
    shapes: dict[str, list[Array]] = {
        "swiglu": [draw.values(128, 512) for _ in range(2)],
        "layer_norm": [draw.values(128, 512), ones(512), zeros(512)],
        "softmax": [draw.values(64, 64, 64)],
        "gelu_chain": [draw.values(128, 512)],
        "dot_product_attention": [draw.values(2, 4, 128, 64) for _ in range(3)],
        "feed_forward": [draw.values(128, 256), draw.weight(256, 1024), zeros(1024), draw.weight(1024, 256)],
        "one_lstm_cell": [
            *(draw.values(32, 256) for _ in range(3)),
            *(draw.weight(256, 1024), draw.weight(256, 1024), zeros(1024)),
        ],
    }
    return [Model(name, name, unit[name], arguments) for name, arguments in shapes.items()]

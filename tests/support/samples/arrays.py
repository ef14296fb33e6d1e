"""Sample arguments of ops on whole arrays, made from a seed in any dtype and memory layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import torch
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.ops.registry import Op
from gradscript.compiler.types import dtypes

TORCH = {d: getattr(torch, d.name) for d in dtypes.DTYPES}


@dataclass(frozen=True)
class Leaf:
    """A tensor to be made: `draw` gives float64 values, `dtype` is the case's own unless fixed here."""

    draw: Callable[[np.random.Generator], Any]
    dtype: dtypes.DType | None = None
    nan: bool = False
    ascending: bool = False
    """Sorted along the last dimension, in the dtype that it has."""
    rigid: bool = False
    """Not to be replaced by copies of its first row."""

    def with_nan(self) -> Leaf:
        """The same with some elements NaN, in floating dtypes."""
        return replace(self, nan=True)

    def make(self, rng: np.random.Generator, dtype: dtypes.DType) -> np.ndarray:
        target = self.dtype or dtype
        values = np.asarray(self.draw(rng))
        if target.category == 1 and self.dtype is None:
            values = np.round(np.abs(values) if target == dtypes.UINT8 else values)
        if target == dtypes.BOOL:
            values = values > 0.3
        if self.nan and target.is_floating and values.size:
            values = np.where(np.arange(values.size).reshape(values.shape) % 5 == 3, np.nan, values)
        values = np.sort(values.astype(np.float64), -1) if self.ascending else values
        return np.asarray(values).astype(numpy_dtype(target))


class OwnDtype:
    """Stands for the int code of the case's dtype."""


OWN = OwnDtype()


def t(*shape: int) -> Leaf:
    return Leaf(lambda rng: rng.normal(0, 2, shape))


def full_rank(*shape: int) -> Leaf:
    """Matrices whose factors are unique but for signs."""
    return Leaf(lambda rng: rng.normal(0, 2, shape), rigid=True)


def positive(*shape: int) -> Leaf:
    return Leaf(lambda rng: rng.uniform(0.6, 3, shape))


def probability(*shape: int) -> Leaf:
    return Leaf(lambda rng: rng.uniform(0.05, 0.95, shape))


def distribution(*shape: int) -> Leaf:
    """Probabilities that add up to 1 in dimension 1."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        raw = rng.uniform(0.1, 1, shape)
        return raw / raw.sum(1, keepdims=True)

    return Leaf(draw)


def ascending(*shape: int) -> Leaf:
    return Leaf(lambda rng: rng.normal(0, 2, shape), ascending=True)


def index(below: int, *shape: int) -> Leaf:
    return Leaf(lambda rng: rng.integers(0, below, shape), dtypes.INT64)


def distinct(below: int, *shape: int) -> Leaf:
    """Indices that are all different along dimension 0, so that the order of writes does not matter."""
    return Leaf(
        lambda rng: rng.permuted(
            np.broadcast_to(np.arange(below).reshape(-1, *(1,) * (len(shape) - 1)), (below, *shape[1:])), axis=0
        )[: shape[0]],
        dtypes.INT64,
    )


def literal(values: Any, dtype: dtypes.DType = dtypes.INT64) -> Leaf:
    return Leaf(lambda rng: np.asarray(values), dtype)


def mask(*shape: int) -> Leaf:
    return Leaf(lambda rng: rng.normal(0.3, 1, shape), dtypes.BOOL)


def regular(*shape: int) -> Leaf:
    """Square matrices far from singular."""
    return Leaf(lambda rng: rng.normal(0, 0.3, shape) + 2 * np.eye(shape[-1]), rigid=True)


def definite(*shape: int) -> Leaf:
    """Symmetric positive definite matrices."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        a = rng.normal(0, 0.5, shape)
        return a @ a.swapaxes(-1, -2) + np.eye(shape[-1])

    return Leaf(draw)


@dataclass(frozen=True)
class Call:
    """Arguments of one call: positional ones and those by name; the others have their defaults."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def arguments(
        self, op: Op, dtype: dtypes.DType, seed: int, layout: Callable[[np.ndarray], np.ndarray]
    ) -> list[Any]:
        """One value per schema argument."""
        rng = np.random.default_rng(seed)
        values = []
        for i, argument in enumerate(op.schema.arguments):
            given = self.args[i] if i < len(self.args) else self.kwargs.get(argument.name, argument.default)
            values.append(_make(given, rng, dtype, layout))
        return values


def call(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs)


def _make(given: Any, rng: np.random.Generator, dtype: dtypes.DType, layout: Callable[[np.ndarray], np.ndarray]) -> Any:
    if isinstance(given, Leaf):
        made = given.make(rng, dtype)
        made = made if given.rigid and layout is expanded else layout(made)
        made.flags.writeable = False
        return made
    if given is OWN:
        return dtype.code
    if isinstance(given, list | tuple):
        return [_make(item, rng, dtype, layout) for item in given]
    return given


def transposed(array: np.ndarray) -> np.ndarray:
    return np.array(array.T, order="C").T


def reversed_(array: np.ndarray) -> np.ndarray:
    return np.flip(np.array(np.flip(array), order="C")) if array.ndim else array


def strided(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, -1)[..., ::2] if array.ndim else array


def expanded(array: np.ndarray) -> np.ndarray:
    """The first element of dimension 0, seen everywhere: stride 0."""
    if array.ndim < 2 or array.dtype.kind != "f":
        return array
    return np.broadcast_to(array[:1], array.shape).view()


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda array: array,
    "transposed": transposed,
    "reversed": reversed_,
    "strided": strided,
    "expanded": expanded,
}


def to_torch(value: Any, wide: bool = False) -> Any:
    """Arrays as torch tensors, halves as float32 when `wide`; everything else as it is."""
    if isinstance(value, list):
        return [to_torch(item, wide) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    if wide and value.dtype in (np.float16, ml_dtypes.bfloat16):
        return torch.from_numpy(np.array(value.astype(np.float32)))
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(np.array(value, order="C").view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(value, order="C"))


def to_numpy(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [to_numpy(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().contiguous()
    if value.dtype == torch.bfloat16:
        return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy(force=True)


def adjoint_of(op: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """(grad, input_size, ...) -> the gradient of `op(input, ...)` in an input of that size; `op` is linear in it."""

    def adjoint(grad: torch.Tensor, input_size: list[int], *rest: Any) -> torch.Tensor:
        input = torch.zeros(input_size, dtype=grad.dtype, requires_grad=True)
        return torch.autograd.grad(op(input, *rest), input, grad, create_graph=True)[0]

    return adjoint

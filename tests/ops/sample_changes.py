"""What is done to torch's samples before a call, and to the arrays that are given to ours."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from samples.arrays import to_numpy
from samples.torch_database import DTYPES, replaced, tensors_of

SPECIAL_VALUES = (0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -1.0, "tiny", "subnormal")
EXTREME_VALUES = ("max", "half of max", "root of max", "tiny", "subnormal", 0.0)
NUMBERS = (0, 1, 2, -1, -3, 300, 2**31, 10**10, 0.5, -1.5, 0.0, float("inf"), float("nan"), 1e300)
Array = np.ndarray[Any, Any]


def _nothing(sample: Any, chance: random.Random) -> Any:
    return sample


def _same(array: Array, chance: random.Random) -> Array:
    return array


@dataclass(frozen=True)
class Change:
    """`sample` is what both see, `given` how ours gets an array of it."""

    sample: Callable[[Any, random.Random], Any] = _nothing
    given: Callable[[Array, random.Random], Array] = _same


# --- samples ---


def _valued(names: tuple[Any, ...], share: float) -> Callable[[Any, random.Random], Any]:
    def change(sample: Any, chance: random.Random) -> Any:
        def changed(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point() or not tensor.numel():
                return tensor
            info = torch.finfo(tensor.dtype)
            named = {"max": info.max, "half of max": info.max / 2, "root of max": info.max**0.5}
            named |= {"tiny": info.tiny, "subnormal": info.tiny / 8}
            drawn = [named.get(v, v) if isinstance(v, str) else v for v in chance.choices(names, k=tensor.numel())]
            kept = torch.tensor([chance.random() < 1 - share for _ in drawn]).reshape(tensor.shape)
            values = torch.tensor(drawn, dtype=torch.float64).reshape(tensor.shape).to(tensor.dtype)
            return torch.where(kept, tensor, values)

        return replaced(sample, changed, lambda number: number)

    return change


def _mixed(sample: Any, chance: random.Random) -> Any:
    def changed(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(getattr(torch, chance.choice(DTYPES))) if chance.random() < 0.7 else tensor

    return replaced(sample, changed, lambda number: number)


def _part(tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    count = int(np.prod(shape))
    return tensor.reshape(-1)[:count].reshape(shape) if tensor.numel() >= count else tensor.new_zeros(shape)


def _without_dimensions(sample: Any, chance: random.Random) -> Any:
    every = chance.random() < 0.5
    return replaced(
        sample, lambda tensor: _part(tensor, ()) if every or chance.random() < 0.5 else tensor, lambda number: number
    )


def _empty(sample: Any, chance: random.Random) -> Any:
    sizes = sorted({size for tensor in tensors_of(sample) for size in tensor.shape})
    gone = chance.choice(sizes) if sizes else 0
    return replaced(
        sample,
        lambda tensor: _part(tensor, tuple(0 if size == gone else size for size in tensor.shape)),
        lambda number: number,
    )


def _numbers(sample: Any, chance: random.Random) -> Any:
    """Other numbers, of flags other flags."""

    def changed(number: Any) -> Any:
        if chance.random() > 0.7:
            return number
        return chance.choice((True, False)) if isinstance(number, bool) else chance.choice(NUMBERS)

    return replaced(sample, lambda tensor: tensor, changed)


def _kinds(sample: Any, chance: random.Random) -> Any:
    """Numbers of another type: flags for numbers, numbers for flags, floats for whole numbers and back."""

    def changed(number: Any) -> Any:
        if chance.random() > 0.6:
            return number
        if isinstance(number, bool):
            return chance.choice((0, 1, 2, 1.0))
        return chance.choice((True, False, float(number) if isinstance(number, int) else round(number)))

    return replaced(sample, lambda tensor: tensor, changed)


def _mixed_0d(sample: Any, chance: random.Random) -> Any:
    """Tensors of no dimension and of another dtype beside the others."""

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        if chance.random() > 0.5:
            return tensor
        return _part(tensor, ()).to(getattr(torch, chance.choice(DTYPES)))

    return replaced(sample, changed, lambda number: number)


def _lengths(sample: Any, chance: random.Random) -> Any:
    """Lists of ints of another length."""

    def changed(value: Any) -> Any:
        is_list = isinstance(value, list | tuple) and all(type(item) is int for item in value)
        if not is_list or chance.random() > 0.8:
            return value
        return type(value)(chance.choices([*value, 0, 1], k=chance.choice((0, 1, 2, 3))))

    args = tuple(changed(argument) for argument in sample.args)
    kwargs = {name: changed(value) for name, value in sample.kwargs.items()}
    return type(sample)(changed(sample.input), args=args, kwargs=kwargs)


def _laid_out(sample: Any, chance: random.Random) -> Any:
    """The same shapes in other strides: columns first, every second element, or one element for a whole row."""

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.numel() or not tensor.dim():
            return tensor
        if chance.random() < 0.3:
            return tensor.narrow(-1, 0, 1).expand(tensor.shape)
        return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor.repeat_interleave(2)[::2]

    return replaced(sample, changed, lambda number: number)


def spread_out(sample: Any) -> Any:
    """The same values with a gap after each, so that torch takes its loops for one element at a time."""

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        apart = torch.stack([tensor, tensor], -1)[..., 0] if tensor.layout == torch.strided else tensor
        return apart.detach().requires_grad_(tensor.requires_grad) if tensor.is_floating_point() else apart

    return replaced(sample, changed, lambda number: number)


# --- arrays ---


def _backwards(array: Array, chance: random.Random) -> Array:
    """Negative strides in some dimensions."""
    where = tuple(slice(None, None, -1 if chance.random() < 0.7 else 1) for _ in array.shape)
    return array[where].copy()[where]


def _shaped_by_strides(array: Array, chance: random.Random) -> Array:
    """Columns first, a window of something larger, every other element, or read-only."""
    kind = chance.randrange(4)
    if kind == 0:
        return np.asfortranarray(array) if array.ndim else array
    if kind == 1:
        return np.pad(array, 1)[tuple(slice(1, 1 + size) for size in array.shape)] if array.ndim else array
    if kind == 2:
        return np.stack([array, array], -1)[..., 1]
    array = array.copy()
    array.flags.writeable = False
    return array


def _swapped(array: Array, chance: random.Random) -> Array:
    """In the other order of bytes, of the types that have one."""
    native = array.dtype.kind in "iuf" and array.dtype.itemsize > 1
    return array.astype(array.dtype.newbyteorder()) if native else array


CHANGES: dict[str, Change] = {
    "none": Change(),
    "special": Change(_valued(SPECIAL_VALUES, 0.4)),
    "extreme": Change(_valued(EXTREME_VALUES, 0.3)),
    "mixed": Change(_mixed),
    "mixed 0-d": Change(_mixed_0d),
    "kinds": Change(_kinds),
    "0-d": Change(_without_dimensions),
    "empty": Change(_empty),
    "numbers": Change(_numbers),
    "lengths": Change(_lengths),
    "layout": Change(_laid_out),
    "backwards": Change(given=_backwards),
    "strides": Change(given=_shaped_by_strides),
    "bytes": Change(given=_swapped),
}


def as_given(value: Any, change: Change, chance: random.Random) -> Any:
    if isinstance(value, list):
        return [change.given(to_numpy(item), chance) for item in value]
    return change.given(to_numpy(value), chance)

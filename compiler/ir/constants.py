"""Tensor constants: arrays that a graph carries with it, as text `tensor(float64, [2], [1.0, 2.0])`.

They come from tracing, which keeps the arrays that it meets; the language has no literal for them.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Any

from ..ops.arrays import Array, dtype_of, numpy_dtype
from ..types.dtypes import DType
from ..types.lazy_numpy import np
from ..types.types import TensorType


class TensorConstant:
    """An array as the value of a prim::Constant. It is a copy, and cannot be written to."""

    def __init__(self, array: Array) -> None:
        self.array = array.copy()
        self.array.flags.writeable = False

    @classmethod
    def of(cls, dtype: DType, shape: list[int], elements: list[Any]) -> TensorConstant:
        """From what the text says. ValueError where the number of elements is not that of the shape."""
        if any(type(size) is not int or size < 0 for size in shape) or len(elements) != prod(shape):
            raise ValueError(f"{len(elements)} elements do not make a tensor of shape {shape}")
        kinds = (bool,) if dtype.category == 0 else (int,) if dtype.category == 1 else (int, float)
        if any(type(element) not in kinds for element in elements):
            raise ValueError(f"an element is no {dtype}")
        try:
            return cls(np.array(elements, numpy_dtype(dtype)).reshape(shape))
        except OverflowError as error:
            raise ValueError(f"an element is out of the range of {dtype}") from error

    @property
    def type(self) -> TensorType:
        return TensorType(dtype_of(self.array), self.array.ndim)

    @cached_property
    def elements(self) -> list[Any]:
        """The elements in order, as Python numbers; those of floating tensors are floats, exactly."""
        convert = float if dtype_of(self.array).is_floating else lambda element: element
        return [convert(element) for element in self.array.reshape(-1).tolist()]

    @cached_property
    def text(self) -> str:
        return f"tensor({dtype_of(self.array)}, {list(self.array.shape)}, [{', '.join(map(repr, self.elements))}])"

    def __repr__(self) -> str:
        return self.text


def runtime_value(value: Any) -> Any:
    """What an attribute's value is when a graph runs: the array itself for a tensor constant."""
    return value.array if isinstance(value, TensorConstant) else value

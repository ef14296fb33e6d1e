"""Kernel IR: what one kernel computes, element by element, whatever emits it and whatever it runs on.

    kernel softmax(%x : float32[256, 1000] in, %result : float32[256, 1000] out)
      axes i < 256 parallel, j < 1000 reduction
      %x : float32 [i, j] = load %x[1000*i + j]
      %m : float32 [i] = reduce max %x over j
      %2 : float32 [i, j] = sub(%x, %m)
      %3 : float32 [i, j] = exp(%2)
      %s : float32 [i] = reduce sum %3 over j
      %4 : float32 [i, j] = div(%3, %s)
      store %result[1000*i + j], %4

A kernel is one iteration space and a straight-line body over it. Each value stands for one scalar per point of the
axes it varies over. There is no order among points, so a body says nothing of blocks, programs or loops: a
schedule does. Buffers have names of their own, beside those of values.

Sizes are numbers here, and some of them are passed to the emitted text at each launch: those of dynamic axes, and the
totals of axes that were cut into chunks.

A parallel axis may be cut into programs and lanes at will. Along a reduction axis some values are reduced within a
program, at once or in several passes. A serial axis is walked inside a program, its reductions accumulated on the
way: it is what one program's share of a reduction across programs is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal, TypeAlias

from ...lang.light_dataclasses import dataclass, replace
from ...lang.source import Span
from ..types.dtypes import DType, Number
from .index import Index

Role = Literal["parallel", "reduction", "serial"]
Combine = Literal["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"]
POSITIONS: tuple[Combine, ...] = ("argmax", "argmin")
"""What gives where an element stands, not what it is."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of the iteration space. Of a `dynamic` axis the emitted text does not hold the size."""

    name: str
    size: int
    role: Role = "parallel"
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor that the kernel reads or writes, in place of which a pointer is passed. Strides are in elements.

    An output may lie in the memory of an input, `place_of`, as `in_place.may_take_place` says.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_output: bool = False
    place_of: str = ""

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its distinct elements: expanded dimensions count once."""
        kept = [size for size, stride in zip(self.shape, self.strides, strict=True) if stride or not size]
        return prod(kept) * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """A number that is passed at each call: float64 or int64, used as the dtype that an operation asks for."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class KernelConstant:
    """A literal, in the dtype of the operation that uses it."""

    value: Number


@dataclass(frozen=True, slots=True)
class Total(KernelConstant):
    """A number that the emitted text has by name: the size of an axis that was cut into chunks, or a count."""

    size_of: str


Operand: TypeAlias = str | KernelConstant
"""The name of a value or of a parameter, or a literal."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`low <= index < high`: where it does not hold nothing is read or written.

    With `size_of`, `high` is the size of that axis before it was cut into chunks, which the emitted text has by name.
    """

    index: Index
    low: int
    high: int
    size_of: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """Base of all statements; `span` is the source that it came from."""


@dataclass(frozen=True, slots=True)
class Definition(Statement):
    """A statement that defines a value: one `dtype` scalar per point of `axes`."""

    name: str
    dtype: DType
    axes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Load(Definition):
    """An element of a buffer, in the buffer's dtype; `other` where a condition does not hold."""

    buffer: str
    index: Index
    conditions: tuple[Condition, ...] = ()
    other: Number = 0


@dataclass(frozen=True, slots=True)
class Compute(Definition):
    """A primitive of `compiler.ops.scalar` on operands of the result's dtype.

    Of the operands of a comparison all are of one dtype and the result is bool; `where` takes a bool first; `number`
    turns a bool into 0 or 1 of the dtype. Halves never occur: what is stored as a half is computed in float32.
    """

    primitive: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Cast(Definition):
    """A value (or parameter) in another dtype, as torch converts: floats to integers towards zero, to bool `!= 0`.

    A cast to a half rounds to it, by way of float32, and stands for the rounded value.
    """

    operand: Operand


@dataclass(frozen=True, slots=True)
class Position(Definition):
    """An index as an int64 value."""

    index: Index


@dataclass(frozen=True, slots=True)
class Uniform(Definition):
    """A float32 in [0, 1): number `counter` of the Philox-4x32-10 sequence of a seed, as `gs::uniform` gives it."""

    seed: Operand
    counter: Index


@dataclass(frozen=True, slots=True)
class Reduce(Definition):
    """An operand combined over axes; `argmax` and `argmin` give the first position along the only axis, as int64.

    Sums and products of halves have been widened before. `max` and `min` give NaN where any element is NaN.
    """

    combine: Combine
    operand: Operand
    over: frozenset[str]


@dataclass(frozen=True, slots=True)
class Store(Statement):
    """Write an operand, in the buffer's dtype, to an element of an output. No two points write the same element."""

    buffer: str
    index: Index
    operand: Operand
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. `sources` are the places in a user's source from which it was made."""

    name: str
    axes: tuple[Axis, ...]
    buffers: tuple[Buffer, ...]
    parameters: tuple[KernelParameter, ...]
    body: tuple[Statement, ...]
    sources: tuple[Span, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """The axes' sizes by name."""
        return {axis.name: axis.size for axis in self.axes}

    def axis(self, name: str) -> Axis:
        return next(axis for axis in self.axes if axis.name == name)

    def buffer(self, name: str) -> Buffer:
        return next(buffer for buffer in self.buffers if buffer.name == name)

    def with_role(self, role: Role) -> tuple[Axis, ...]:
        """The axes of a role, outermost first."""
        return tuple(axis for axis in self.axes if axis.role == role)

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return tuple(buffer for buffer in self.buffers if not buffer.is_output)

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return tuple(buffer for buffer in self.buffers if buffer.is_output)

    def with_body(self, body: Sequence[Statement]) -> Kernel:
        return replace(self, body=tuple(body))


IDENTITY: dict[Combine, Number] = {
    "sum": 0,
    "prod": 1,
    "max": float("-inf"),
    "min": float("inf"),
    "any": False,
    "all": True,
    "argmax": float("-inf"),
    "argmin": float("inf"),
}
"""What a reduction starts from; of an integer dtype, the lowest or highest number stands for an infinity."""

"""Element types, numbered as torch numbers its ScalarType, so that a dtype is an int in source, IR and schemas."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TypeAlias

from ...lang.light_dataclasses import dataclass

Number: TypeAlias = bool | int | float
"""A number that is no element of a tensor."""


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `category` orders promotion: 0 bool, 1 integer, 2 floating."""

    name: str
    code: int
    category: int
    itemsize: int

    @property
    def is_floating(self) -> bool:
        return self.category == 2

    @property
    def is_half(self) -> bool:
        """Computed in float32 and rounded once per op."""
        return self.is_floating and self.itemsize == 2

    def __str__(self) -> str:
        return self.name

    # They are asked for with every value, and a code says it all.
    def __hash__(self) -> int:
        return self.code

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DType) and self.code == other.code)


UINT8 = DType("uint8", 0, 1, 1)
INT8 = DType("int8", 1, 1, 1)
INT16 = DType("int16", 2, 1, 2)
INT32 = DType("int32", 3, 1, 4)
INT64 = DType("int64", 4, 1, 8)
FLOAT16 = DType("float16", 5, 2, 2)
FLOAT32 = DType("float32", 6, 2, 4)
FLOAT64 = DType("float64", 7, 2, 8)
BOOL = DType("bool", 11, 0, 1)
BFLOAT16 = DType("bfloat16", 15, 2, 2)

DTYPES: tuple[DType, ...] = (UINT8, INT8, INT16, INT32, INT64, FLOAT16, FLOAT32, FLOAT64, BOOL, BFLOAT16)
BY_CODE = {dtype.code: dtype for dtype in DTYPES}
BY_NAME = {dtype.name: dtype for dtype in DTYPES}
ALIASES = {
    "float": FLOAT32,
    "double": FLOAT64,
    "half": FLOAT16,
    "int": INT32,
    "long": INT64,
    "short": INT16,
}
"""torch's other spellings: `torch.float` is `torch.float32`."""

DEFAULT_FLOAT = FLOAT32


def promote(left: DType, right: DType) -> DType:
    """torch.promote_types. Source: torch's type promotion table."""
    if left == right:
        return left
    if left.category != right.category:
        return left if left.category > right.category else right
    if left.category == 1 and UINT8 in (left, right):
        other = right if left == UINT8 else left
        return INT16 if other == INT8 else other
    if left.is_half and right.is_half:
        return FLOAT32
    return left if left.itemsize > right.itemsize else right


def promote_ranked(*ranks: Iterable[DType]) -> DType | None:
    """torch.result_type: a rank outranks the next within a category. None where there is nothing to promote.

    The ranks are those of tensors with dimensions, of tensors without, and of numbers. Source: torch's documentation of
    tensor attributes, "type promotion".
    """
    result: DType | None = None
    for dtypes in filter(None, map(tuple, ranks)):
        here = reduce(promote, dtypes)
        if result is None or here.category > result.category:
            result = here
    return result

"""Dtypes of results: what the type rule says, else what is asked for, else what the dtype rule says, else promoted."""

from __future__ import annotations

from typing import Any

from ..ops.arguments import Arguments, Undecided
from ..ops.arrays import scalar_dtype
from ..ops.meta import UNKNOWN, Meta
from ..ops.registry import Op
from ..types.dtypes import BY_CODE, DType, promote_ranked
from ..types.types import BOOL as BOOL_TYPE
from ..types.types import (
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    ListType,
    TensorType,
    Type,
    leaf_of,
    strip_optional,
)

_ASKING = ("dtype", "input_dtype")
"""Arguments that name the dtype of the result."""
_SCALARS: dict[type, Type] = {bool: BOOL_TYPE, int: INT, float: FLOAT, str: STR, type(None): NONE}


def result_dtypes(op: Op, a: Arguments, count: int) -> list[DType]:
    """One per result; a list result has one dtype. Undecided where it cannot be told."""
    asked = _asked(a)
    types = [leaf_of(type) for type in op.result_types(_types(a))]
    known = [type.dtype if isinstance(type, TensorType) else None for type in types]
    known = (known * count)[:count]
    return [
        dtype or (asked if asked is not None and i == 0 else (op.dtype or _promoted)(a))
        for i, dtype in enumerate(known)
    ]


def _asked(a: Arguments) -> DType | None:
    """The dtype that an argument names."""
    for argument in a.schema.arguments:
        if argument.name in _ASKING:
            code = a[argument.name]
            return BY_CODE[code] if code is not None else None
    return None


def _types(a: Arguments) -> list[Type]:
    """The most precise types of the arguments."""
    pairs = zip(a.schema.arguments, a.values, strict=True)
    return [_type(value, argument.type) for argument, value in pairs]


def _type(value: Any, declared: Type) -> Type:
    if isinstance(value, Meta):
        return TensorType(value.dtype, value.rank)
    if value is UNKNOWN:
        return declared
    if isinstance(value, list):
        elements = {_type(item, declared) for item in value}
        return ListType(elements.pop() if len(elements) == 1 else TensorType())
    return _SCALARS.get(type(value), declared)


def _promoted(a: Arguments) -> DType:
    """The common dtype of all tensors and numbers."""
    ranked: list[list[DType]] = [[], [], []]
    for tensor in a.tensors():
        ranked[0 if tensor.rank else 1].append(tensor.dtype)
    numbers = [value for b, value in zip(a.schema.arguments, a.values, strict=True) if strip_optional(b.type) == NUMBER]
    ranked[2] += [scalar_dtype(value) for value in numbers if value is not UNKNOWN and value is not None]
    result = promote_ranked(*ranked)
    if result is None or (UNKNOWN in numbers and not result.is_floating):
        raise Undecided(a.schema.full_name)
    return result

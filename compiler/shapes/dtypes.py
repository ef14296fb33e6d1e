"""Dtypes of results: what is asked for, else what the type rule of the op says, else what this table says."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from ..ops.arrays import scalar_dtype
from ..ops.families.linalg.products import einsum_dtype
from ..ops.meta import UNKNOWN, Meta
from ..types.dtypes import BY_CODE, DEFAULT_FLOAT, FLOAT32, INT32, INT64, DType, promote
from ..types.types import BOOL as BOOL_TYPE
from ..types.types import (
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    ListType,
    OptionalType,
    TensorType,
    Type,
    strip_optional,
)
from .rules import Arguments, Undecided

_ASKING = ("dtype", "input_dtype")
"""Arguments that name the dtype of the result."""
_SCALARS: dict[type, Type] = {bool: BOOL_TYPE, int: INT, float: FLOAT, str: STR, type(None): NONE}


def result_dtypes(a: Arguments, count: int) -> list[DType]:
    """One per result; a list result has one dtype. Undecided where it cannot be told."""
    asked = _asked(a)
    types = [_element(type) for type in a.op.result_types(_types(a))]
    known = [type.dtype if isinstance(type, TensorType) else None for type in types]
    known = (known * count)[:count]
    return [dtype or (asked if asked is not None and i == 0 else _told(a)) for i, dtype in enumerate(known)]


def _asked(a: Arguments) -> DType | None:
    """The dtype that an argument names."""
    for argument in a.op.schema.arguments:
        if argument.name in _ASKING:
            code = a[argument.name]
            return BY_CODE[code] if code is not None else None
    return None


def _told(a: Arguments) -> DType:
    return _DTYPES.get(a.op.schema.base_name, _promoted)(a)


def _types(a: Arguments) -> list[Type]:
    """The most precise types of the arguments."""
    pairs = zip(a.op.schema.arguments, a.values, strict=True)
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


def _element(type: Type) -> Type:
    while isinstance(type, ListType | OptionalType):
        type = type.element
    return type


def _promoted(a: Arguments) -> DType:
    """The common dtype: tensors with dimensions outrank those without, and these numbers, within a category."""
    ranked: list[list[DType]] = [[], [], []]
    for tensor in a.tensors():
        ranked[0 if tensor.rank else 1].append(tensor.dtype)
    numbers = [
        value for b, value in zip(a.op.schema.arguments, a.values, strict=True) if strip_optional(b.type) == NUMBER
    ]
    ranked[2] += [scalar_dtype(value) for value in numbers if value is not UNKNOWN and value is not None]
    result: DType | None = None
    for dtypes in filter(None, ranked):
        here = reduce(promote, dtypes)
        result = here if result is None or here.category > result.category else result
    if result is None or (UNKNOWN in numbers and not result.is_floating):
        raise Undecided(a.op.schema.full_name)
    return result


def _of_broadcast(a: Arguments) -> DType:
    """The common dtype of two tensors that are broadcast to each other first."""
    return reduce(promote, [tensor.dtype for tensor in list(a.tensors())[:2]])


def _of_numbers(*names: str) -> Callable[[Arguments], DType]:
    """int64 where all are whole, else the default float."""

    def rule(a: Arguments) -> DType:
        given = [a.get(name) for name in names]
        return DEFAULT_FLOAT if any(isinstance(number, float) for number in given) else INT64

    return rule


def _of_filling(a: Arguments) -> DType:
    return scalar_dtype(a["fill_value"])


def _of_leaves(a: Arguments) -> DType:
    """The common dtype of numbers in lists."""
    dtypes: list[DType] = []
    pending: list[Any] = [a[a.op.schema.arguments[0].name]]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        else:
            dtypes.append(value.dtype if isinstance(value, Meta) else scalar_dtype(value))
    return reduce(promote, dtypes) if dtypes else DEFAULT_FLOAT


def _places(a: Arguments) -> DType:
    return INT32 if a["out_int32"] else INT64


def _summed(a: Arguments) -> DType:
    dtype = a.tensor("self").dtype
    return dtype if dtype.is_floating else INT64


def _summed_to_size(a: Arguments) -> DType:
    """A tensor that has the size already stays what it is, but for a 0-d one."""
    size, tensor = a["size"], a.tensor("self")
    is_kept = size is None or (bool(size) and tuple(size) == tensor.shape)
    return tensor.dtype if is_kept else _summed(a)


def _full_precision(a: Arguments) -> DType:
    return FLOAT32 if a["cpu_enabled"] else a.tensor("self").dtype


def _reduced_precision(a: Arguments) -> DType:
    return BY_CODE[a["cpu_dtype"]] if a["cpu_enabled"] else a.tensor("self").dtype


def _of_weight(a: Arguments) -> DType:
    dtype: DType = (a["weight"] or a["input"]).dtype
    return dtype


def _of_einsum(a: Arguments) -> DType:
    tensors = a["tensors"]
    return einsum_dtype(a["equation"], [t.shape for t in tensors], [t.dtype for t in tensors])


def _of_gradient(a: Arguments) -> DType:
    return a.tensor("grad_output").dtype


_DTYPES: dict[str, Callable[[Arguments], DType]] = {
    **dict.fromkeys(
        ("zeros", "ones", "empty", "linspace", "logspace", "eye", "scalar_tensor"), lambda a: DEFAULT_FLOAT
    ),
    "arange": _of_numbers("start", "end", "step"),
    "full": _of_filling,
    **dict.fromkeys(("tensor", "as_tensor"), _of_leaves),
    **dict.fromkeys(("searchsorted", "bucketize"), _places),
    **dict.fromkeys(("sum", "prod", "cumsum", "cumprod", "nansum"), _summed),
    **dict.fromkeys(("sum_to_size", "_grad_sum_to_size"), _summed_to_size),
    **dict.fromkeys(
        ("mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy", "cosine_similarity", "kron"), _of_broadcast
    ),
    "einsum": _of_einsum,
    "einsum_adjoint": _of_gradient,
    "_index_tensor": lambda a: INT64,
    "_autocast_to_full_precision": _full_precision,
    "_autocast_to_reduced_precision": _reduced_precision,
    "_batch_norm_impl_index_backward": _of_weight,
}
"""By the name of the op, where its type rule knows too little; what is not here is promoted."""

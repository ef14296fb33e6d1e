"""Rules of shapes and dtypes that several ops share, and what such rules are written with.

    declare("aten::roll(…) -> Tensor", _roll, result=rules.same(), shape=shapes.same("self"))

A rule of one op, or of a few, stands beside them in their family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ..types.dtypes import DEFAULT_FLOAT, INT64, DType, promote
from .arguments import Arguments, Shape, Undecided
from .arrays import scalar_dtype
from .meta import Meta


def broadcast(*shapes: Sequence[int]) -> Shape:
    """The shape that all are broadcast to; RuntimeError where they do not fit."""
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1 and result[axis] not in (1, size):
                raise RuntimeError(f"shapes {', '.join(str(list(s)) for s in shapes)} cannot be broadcast together")
            result[axis] = size if result[axis] == 1 else result[axis]
    return tuple(result)


def with_sizes(shape: Sequence[int], axis: int, *sizes: int) -> Shape:
    """The shape with other sizes in the place of one; none takes it away."""
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def matrix_product(left: Shape, right: Shape) -> Shape:
    """matmul's: vectors stand for a row and a column, and what is in front of matrices is broadcast."""
    if not left or not right:
        raise RuntimeError("both arguments to matmul need to be at least 1-D")
    columns = right[-1:] if len(right) > 1 else ()
    if left[-1] != right[max(len(right) - 2, 0)]:
        raise RuntimeError(f"shapes {list(left)} and {list(right)} cannot be multiplied")
    return (*broadcast(left[:-2], right[:-2]), *left[-2:-1], *columns)


def sum_with(total: Meta | None, shape: Shape) -> Shape:
    """That of a sum with what has a shape; of that alone where the sum is an undefined gradient."""
    return shape if total is None else broadcast(total.shape, shape)


# --- rules of shapes ---


def shape_of(name: str) -> Callable[[Arguments], Shape]:
    """The shape of one argument."""
    return lambda a: a.shape(name)


def first(a: Arguments) -> Shape:
    """The shape of the first argument."""
    return a.at(0)


def sized(name: str) -> Callable[[Arguments], Shape]:
    """The sizes that one argument gives."""

    def rule(a: Arguments) -> Shape:
        size = tuple(a[name])
        if any(s < 0 for s in size):
            raise RuntimeError(f"Trying to create tensor with negative dimension: {list(size)}")
        return size

    return rule


def number(a: Arguments) -> Shape:
    """One number."""
    return ()


def all_broadcast(a: Arguments) -> Shape:
    """All tensors, broadcast together."""
    return broadcast(*(tensor.shape for tensor in a.tensors()))


def undecided(a: Arguments) -> Shape:
    """It depends on elements."""
    raise Undecided(a.schema.full_name)


def nested_lists(a: Arguments) -> Shape:
    """As the lists of the first argument nest; what they hold, tensors too, are numbers."""
    sizes: list[int] = []
    data = a[a.schema.arguments[0].name]
    while isinstance(data, list):
        sizes.append(len(data))
        data = data[0] if data else None
    return tuple(sizes)


# --- rules of dtypes ---


def default_float(a: Arguments) -> DType:
    """What is made from nothing."""
    return DEFAULT_FLOAT


def summed(a: Arguments) -> DType:
    """Sums and products: int64 of integers and bool."""
    dtype = a.tensor("self").dtype
    return dtype if dtype.is_floating else INT64


def promoted_when_broadcast(a: Arguments) -> DType:
    """The common dtype of two tensors that are broadcast to each other first, so that ranks have no say."""
    return reduce(promote, [tensor.dtype for tensor in list(a.tensors())[:2]])


def promoted_whatever_ranks(a: Arguments) -> DType:
    """The common dtype of all tensors, which are broadcast before anything is computed of them."""
    return reduce(promote, [tensor.dtype for tensor in a.tensors()])


def of_leaves(a: Arguments) -> DType:
    """The common dtype of the numbers in lists, of the first argument."""
    dtypes: list[DType] = []
    pending: list[Any] = [a[a.schema.arguments[0].name]]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        else:
            dtypes.append(value.dtype if isinstance(value, Meta) else scalar_dtype(value))
    return reduce(promote, dtypes) if dtypes else DEFAULT_FLOAT

"""Result type rules for `declare`: what follows about results from the types of the arguments alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..types.dtypes import BOOL as BOOL_DTYPE
from ..types.dtypes import DEFAULT_FLOAT, INT64, UINT8, DType
from ..types.types import NONE, ListType, TensorType, Type
from .registry import ResultRule

TypeRule = Callable[[Sequence[Type]], Type]
"""A rule for one result."""


def tensor_at(types: Sequence[Type], index: int) -> TensorType:
    """The tensor type of an argument; one that knows nothing where the argument is something else."""
    found = types[index]
    return found if isinstance(found, TensorType) else TensorType()


def fixed(dtype: DType | None, rank: int | None = None) -> TypeRule:
    """A result that is the same whatever the arguments are."""
    return lambda types: TensorType(dtype, rank)


indices = fixed(INT64)
mask = fixed(BOOL_DTYPE)


def like(index: int = 0, rank: int | None = None) -> TypeRule:
    """The dtype of one argument."""
    return lambda types: TensorType(tensor_at(types, index).dtype, rank)


def same(index: int = 0) -> TypeRule:
    """The dtype and rank of one argument."""
    return lambda types: TensorType(tensor_at(types, index).dtype, tensor_at(types, index).rank)


def agreed(*arguments: int, rank: int | None = None) -> TypeRule:
    """The dtype that several arguments share; unknown where they differ."""

    def rule(types: Sequence[Type]) -> Type:
        dtypes = {tensor_at(types, i).dtype for i in arguments}
        return TensorType(dtypes.pop() if len(dtypes) == 1 else None, rank)

    return rule


def widest(*arguments: int) -> TypeRule:
    """The dtype of the first of several arguments that broadcast, or their batches, and the most dimensions of one."""

    def rule(types: Sequence[Type]) -> Type:
        found = [tensor_at(types, index) for index in arguments]
        ranks = [tensor.rank for tensor in found if tensor.rank is not None]
        return TensorType(found[0].dtype, max(ranks) if len(ranks) == len(found) else None)

    return rule


def accumulated(dtype_argument: int | None, rank: int | None = None) -> TypeRule:
    """Sums and products: integers and bool become int64; unknown where a dtype is asked for."""

    def rule(types: Sequence[Type]) -> Type:
        dtype = tensor_at(types, 0).dtype
        if dtype is None or (dtype_argument is not None and types[dtype_argument] != NONE):
            return TensorType(None, rank)
        return TensorType(dtype if dtype.is_floating else INT64, rank)

    return rule


def unless_asked(dtype_argument: int, rule: TypeRule) -> TypeRule:
    """`rule`, but with an unknown dtype where a dtype is asked for."""

    def asked(types: Sequence[Type]) -> Type:
        result = rule(types)
        if types[dtype_argument] != NONE and isinstance(result, TensorType):
            return TensorType(None, result.rank)
        return result

    return asked


def floating(rule: TypeRule) -> TypeRule:
    """`rule`, with the default dtype in place of integers and bool."""

    def result(types: Sequence[Type]) -> Type:
        found = rule(types)
        if isinstance(found, TensorType) and found.dtype and not found.dtype.is_floating:
            return TensorType(DEFAULT_FLOAT, found.rank)
        return found

    return result


def truth(rank: int | None = None) -> TypeRule:
    """`all` and `any`: bool, except that uint8 stays uint8."""

    def rule(types: Sequence[Type]) -> Type:
        dtype = tensor_at(types, 0).dtype
        return TensorType(UINT8 if dtype == UINT8 else BOOL_DTYPE if dtype else None, rank)

    return rule


def shifted(offset: int, index: int = 0) -> TypeRule:
    """The dtype of an argument, with a rank larger by `offset`."""

    def rule(types: Sequence[Type]) -> Type:
        tensor = tensor_at(types, index)
        return TensorType(tensor.dtype, None if tensor.rank is None else max(tensor.rank + offset, 0))

    return rule


def list_of(rule: TypeRule) -> TypeRule:
    """A list of results that follow `rule`."""
    return lambda types: ListType(rule(types))


def results(*rules: TypeRule) -> ResultRule:
    """Several results, each by its own rule."""
    return lambda types: tuple(rule(types) for rule in rules)


def statistics(weight: int) -> TypeRule:
    """Mean and rstd of a normalization: the dtype of the weight where there is one, else of the input."""

    def rule(types: Sequence[Type]) -> Type:
        tensor = tensor_at(types, 0)
        known = tensor.dtype if types[weight] == NONE else tensor_at(types, weight).dtype
        return TensorType(known, tensor.rank)

    return rule

"""How the dtypes of arguments make the dtype of a result: the rules that pointwise ops name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...lang.light_dataclasses import dataclass
from ..types.dtypes import BOOL as BOOL_DTYPE
from ..types.dtypes import DEFAULT_FLOAT, FLOAT64, INT64, DType, promote_ranked
from ..types.types import BOOL, FLOAT, INT, TensorType, Type, may_be_none, strip_optional
from .arrays import float_dtype


@dataclass(frozen=True, slots=True)
class DtypeRule:
    """How the dtypes of an op's arguments decide the dtype it computes in and the dtype of its result.

    The arguments are promoted first; `compute` makes of that the dtype of the computation, and `result` of that
    the dtype of the result. Categories in `rejects` are an error, as they are in torch. `only_first` leaves all
    but the first argument out of the promotion. Where dtypes are `uniform`, a 0-d tensor at place `loose` may have
    another one. Halves are computed in float32 unless `exact`.
    """

    compute: Callable[[DType], DType] = lambda dtype: dtype
    result: Callable[[DType], DType] = lambda dtype: dtype
    rejects: tuple[int, ...] = ()
    rejects_each: bool = False
    uniform: bool = False
    loose: int | None = None
    only_first: bool = False
    exact: bool = False


RULES = {
    "promote": DtypeRule(),
    "number": DtypeRule(rejects=(0,)),
    "difference": DtypeRule(rejects=(0,), rejects_each=True),
    "integral": DtypeRule(rejects=(2,)),
    "integer": DtypeRule(rejects=(0, 2)),
    "floating": DtypeRule(rejects=(0, 1)),
    "uniform": DtypeRule(uniform=True),
    "uniform floating": DtypeRule(rejects=(0, 1), uniform=True),
    "uniform floating, weighted": DtypeRule(rejects=(0, 1), rejects_each=True, uniform=True, loose=2),
    "exact": DtypeRule(rejects=(0, 1), exact=True),
    "float": DtypeRule(compute=float_dtype),
    "counted": DtypeRule(compute=lambda dtype: dtype if dtype.category else INT64),
    "double": DtypeRule(compute=lambda dtype: FLOAT64),
    "self": DtypeRule(only_first=True),
    "self number": DtypeRule(rejects=(0,), only_first=True),
    "bool": DtypeRule(result=lambda dtype: BOOL_DTYPE),
    "bool of uniform": DtypeRule(compute=float_dtype, result=lambda dtype: BOOL_DTYPE, uniform=True),
}
"""The dtype rules by name:

- promote, number, integral, integer, floating: the promoted dtype; of any category, no bool, no floats, only
  integers, only floats; difference: as number, and no argument is bool
- uniform, uniform floating: as promote and floating, and all tensors have one dtype; weighted: but for a third
  argument without dimensions
- exact: as floating, and halves are not widened
- float: the promoted dtype, where integers and bool become the default float; double: always float64
- counted: the promoted dtype, where bool becomes int64
- self, self number: the dtype of the first argument; of any category, no bool
- bool: computed in the promoted dtype, with a bool as result
- bool of uniform: computed in the float of the one dtype of all tensors, with a bool as result
"""


def promoted_dtype(types: Sequence[Type]) -> DType | None:
    """The promoted dtype of tensors and numbers of these types, where the types decide it."""
    ranked: list[list[DType]] = [[], [], []]
    unknown_number = False
    tensors = [strip_optional(type) for type in types if may_be_tensor(type)]
    ranks_matter = len({t.dtype for t in tensors if isinstance(t, TensorType)}) > 1
    for type in map(strip_optional, types):
        if isinstance(type, TensorType):
            if type.dtype is None or (ranks_matter and type.rank is None):
                return None
            ranked[1 if ranks_matter and type.rank == 0 else 0].append(type.dtype)
        elif type in _NUMBER_DTYPES:
            ranked[2].append(_NUMBER_DTYPES[type])
        else:
            unknown_number = True
    result = promote_ranked(*ranked)
    uncertain = unknown_number or any(may_be_none(type) and not may_be_tensor(type) for type in types)
    return None if uncertain and (result is None or not result.is_floating) else result


_NUMBER_DTYPES: dict[Type, DType] = {BOOL: BOOL_DTYPE, INT: INT64, FLOAT: DEFAULT_FLOAT}


def may_be_tensor(type: Type) -> bool:
    """Whether a value of the type is a tensor, or None."""
    return isinstance(strip_optional(type), TensorType)

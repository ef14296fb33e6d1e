"""Lists, ranges and the sequence side of strings. `t` in a schema is a type variable.

Values are immutable: an op that changes a list in Python returns the changed list here, and the old one stays
what it was. `l.append(x)` in source rebinds `l` to the result of `aten::append.t`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from math import prod
from typing import Any

from ....types.dtypes import BOOL, DType
from ....types.lazy_numpy import np
from ... import bounds
from ...arrays import Array, dtype_of
from ...registry import Trait, declare

List = list[Any]


# --- elements and slices ---


def _index(length: int, idx: int) -> int:
    """A position counted from the end if negative; IndexError outside the list."""
    if not -length <= idx < length:
        raise IndexError(f"index {idx} is out of range for a list of {length} elements")
    return idx + length if idx < 0 else idx


def _get(values: Sequence[Any], idx: int) -> Any:
    # Loops' gradients read what rounds have saved: a position is looked at twice only where it is none.
    try:
        return values[idx]
    except IndexError:
        return values[_index(len(values), idx)]


def _slice(values: Any, start: int | None, end: int | None, step: int = 1) -> Any:
    if step == 0:
        raise ValueError("the step of a slice is not 0")
    return values[start:end:step]


def _length(tensor: Array) -> int:
    if not tensor.ndim:
        raise TypeError("a 0-d tensor has no len()")
    return int(tensor.shape[0])


declare("aten::len.t(t[] a) -> int", len)
declare("aten::len.Tensor(Tensor t) -> int", _length, traits=Trait.SHAPE_ONLY)
declare("aten::len.str(str s) -> int", len)
declare("aten::__getitem__.t(t[] list, int idx) -> t", _get)
declare("aten::__getitem__.str(str s, int index) -> str", _get)
declare("aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]", _slice)
declare("aten::slice.str(str string, int? start=None, int? end=None, int step=1) -> str", _slice)

# --- changed lists ---


def _set_item(values: List, idx: int, value: Any) -> List:
    position = _index(len(values), idx)
    return [*values[:position], value, *values[position + 1 :]]


def _set_slice(values: List, items: List, start: int | None = None, end: int | None = None, step: int = 1) -> List:
    positions = range(len(values))[slice(start, end, step)]
    if len(positions) != len(items):
        raise ValueError(f"{len(items)} elements for a slice of {len(positions)}")
    replaced = dict(zip(positions, items, strict=True))
    return [replaced.get(i, value) for i, value in enumerate(values)]


def _insert(values: List, idx: int, value: Any) -> List:
    result = list(values)
    result.insert(idx, value)
    return result


def _pop(values: List, idx: int = -1) -> Any:
    if not values:
        raise IndexError("pop from an empty list")
    return _get(values, idx)


def _without(values: List, idx: int = -1) -> List:
    position = _index(len(values), idx)
    return [*values[:position], *values[position + 1 :]]


def _remove(values: List, value: Any) -> List:
    return _without(values, _find(values, value))


def _find(values: List, value: Any) -> int:
    for position, candidate in enumerate(values):
        if equal(candidate, value):
            return position
    raise ValueError(f"{value!r} is not in the list")


def _contains(values: List, value: Any) -> bool:
    return any(equal(candidate, value) for candidate in values)


def _count(values: List, value: Any) -> int:
    return sum(equal(candidate, value) for candidate in values)


def _flags(values: Any, flag: bool) -> Any:
    """A flag for each of what lists and tuples hold. They nest as deep as types in source, so this recurses."""
    if isinstance(values, list | tuple):
        return type(values)(_flags(value, flag) for value in values)
    return flag


def _any_flag(flags: Any) -> bool:
    return any(map(_any_flag, flags)) if isinstance(flags, list | tuple) else bool(flags)


declare("aten::append.t(t[] self, t el) -> t[]", lambda values, value: [*values, value])
declare("aten::_set_item.t(t[] l, int idx, t el) -> t[]", _set_item)
declare("aten::_set_slice.t(t[] l, t[] values, int? start=None, int? end=None, int step=1) -> t[]", _set_slice)
declare("aten::insert.t(t[] self, int idx, t el) -> t[]", _insert)
declare("aten::extend.t(t[] self, t[] other) -> t[]", bounds.chained_lists)
declare("aten::pop.t(t[] self, int idx=-1) -> t", _pop)
declare("aten::_without.t(t[] self, int idx=-1) -> t[]", _without, aliases=("Delete",))
declare("aten::clear.t(t[] self) -> t[]", lambda values: [], traits=Trait.NONDIFFERENTIABLE)
declare("aten::reverse.t(t[] self) -> t[]", lambda values: values[::-1])
declare("aten::copy.t(t[] self) -> t[]", list)
declare("aten::list.t(t[] l) -> t[]", list)
declare("aten::list(str t) -> str[]", list)
declare("aten::numel.int_list(int[] self) -> int", prod)
declare("aten::add.t(t[] a, t[] b) -> t[]", bounds.chained_lists)
declare("aten::mul.left_t(t[] l, int n) -> t[]", bounds.repeated_list)
# As many as a list has elements; None has none, nor has what no path has bound yet.
declare(
    "aten::_flags.t(t[]? values, bool flag) -> bool[]",
    lambda values, flag: [] if values is None else [flag] * len(values),
    traits=Trait.NONDIFFERENTIABLE,
)
declare(
    "aten::_flags.nested(t values, bool flag, s[] like) -> s",
    lambda values, flag, like: _flags(values, flag),
    traits=Trait.NONDIFFERENTIABLE,
)
declare("aten::_any_flag(t flags) -> bool", _any_flag, traits=Trait.NONDIFFERENTIABLE)
declare("aten::mul.right_(int n, t[] l) -> t[]", lambda n, values: bounds.repeated_list(values, n))

# --- order and equality of elements ---


def equal(left: Any, right: Any) -> bool:
    """Whether two elements are equal: numbers, strings, tensors of one element, and lists and tuples of such.

    In Python NaN is equal to the very object that it is, and values have no such identity here: ValueError where the
    answer depends on it.
    """
    found = _equal(left, right)
    if found is None:
        raise ValueError(
            "NaN is in a list, or equal to what holds it, only where it is the same object, and objects are not told "
            "apart here: `torch.isnan(x)` and `math.isnan(p)` find it"
        )
    return found


def _equal(left: Any, right: Any) -> bool | None:
    """The same; None where it depends on whether one NaN is the other."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        if len(left) != len(right):
            return False
        found = {_equal(a, b) for a, b in zip(left, right, strict=True)}
        return False if False in found else None if None in found else True
    _require_single(left, right)
    if left is None or right is None or isinstance(left, str) or isinstance(right, str):
        return bool(left == right)
    are_nan = bool(left != left) and bool(right != right)
    return None if are_nan else bool(left == right)


def _require_single(*elements: Any) -> None:
    """ValueError unless each is a number, a string, or a tensor of one element."""
    for element in elements:
        shape = getattr(element, "shape", ())
        if prod(shape) != 1:
            advice = "`torch.equal(a, b)` says whether all elements are, `(a == b).any()` whether one is"
            raise ValueError(f"a tensor of shape {list(shape)} is not equal, less or more as a whole: {advice}")


def _compare(left: Any, right: Any) -> int:
    """-1, 0 or 1 as `left` comes before, with or after `right`; tuples and lists by their first difference."""
    if isinstance(left, list | tuple):
        for a, b in zip(left, right, strict=False):
            if not equal(a, b):
                return _compare(a, b)
        return (len(left) > len(right)) - (len(left) < len(right))
    _require_single(left, right)
    return -1 if left < right else int(bool(right < left))


def _by_first_difference(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], bool]:
    """`compare` of lists: of the first two elements that differ, else of their lengths."""

    def evaluate(left: Any, right: Any) -> bool:
        for a, b in zip(left, right, strict=False):
            if not equal(a, b):
                return evaluate(a, b) if isinstance(a, list | tuple) else bool(compare(a, b))
        return bool(compare(len(left), len(right)))

    return evaluate


def _sorted_order(values: List, reverse: bool = False) -> list[int]:
    """Positions in ascending order of what stands there; equal elements stay in their order."""
    elements = list(map(cmp_to_key(_compare), values))
    return sorted(range(len(values)), key=elements.__getitem__, reverse=reverse)


def _extreme_place(values: List, is_largest: bool) -> int:
    """Where the first of the largest, or least, stands."""
    if not values:
        raise ValueError(f"{'max' if is_largest else 'min'}() of an empty list")
    found = 0
    for place, value in enumerate(values):
        if (_compare(value, values[found]) > 0) if is_largest else (_compare(value, values[found]) < 0):
            found = place
    return found


def _ordered(values: List, order: Sequence[int]) -> List:
    return [values[i] for i in order]


# --- lists of numbers, bools and strings ---


for kind in ("int", "float", "bool", "str"):
    is_equal = equal if kind == "float" else operator.eq
    contains = _contains if kind == "float" else operator.contains
    declare(f"aten::eq.{kind}_list({kind}[] a, {kind}[] b) -> bool", is_equal, traits=Trait.COMMUTATIVE)
    declare(
        f"aten::ne.{kind}_list({kind}[] a, {kind}[] b) -> bool",
        lambda a, b, is_equal=is_equal: not is_equal(a, b),
        traits=Trait.COMMUTATIVE,
    )
    declare(f"aten::__contains__.{kind}_list({kind}[] l, {kind} item) -> bool", contains)
    declare(f"aten::index.list_{kind}({kind}[] self, {kind} el) -> int", _find)
    declare(f"aten::count.{kind}({kind}[] self, {kind} el) -> int", _count)
    declare(f"aten::remove.{kind}({kind}[] self, {kind} el) -> {kind}[]", _remove)
    declare(f"aten::sorted.{kind}({kind}[] input) -> {kind}[]", sorted)
    declare(
        f"aten::sort.{kind}({kind}[] self, bool reverse=False) -> {kind}[]",
        lambda values, reverse=False: sorted(values, reverse=reverse),
    )

# --- lists of anything ---

COMPARES = Trait.COMPARES | Trait.NONDIFFERENTIABLE
declare("aten::eq.list(t[] a, t[] b) -> bool", equal, traits=COMPARES)
declare("aten::ne.list(t[] a, t[] b) -> bool", lambda a, b: not equal(a, b), traits=COMPARES)
for compare in (operator.lt, operator.le, operator.gt, operator.ge):
    declare(f"aten::{compare.__name__}.list(t[] a, t[] b) -> bool", _by_first_difference(compare), traits=COMPARES)
declare("aten::__contains__.str(str s, str item) -> bool", operator.contains)
declare("aten::__contains__.list(t[] l, t item) -> bool", _contains, traits=COMPARES)
declare("aten::index.list(t[] self, t el) -> int", _find, traits=COMPARES)
declare("aten::count.list(t[] self, t el) -> int", _count, traits=COMPARES)
declare("aten::remove.list(t[] self, t el) -> t[]", _remove, traits=Trait.COMPARES)
declare("aten::_sorted_order(t[] input, bool reverse=False) -> int[]", _sorted_order, traits=COMPARES)
declare("aten::_extreme_place(t[] l, bool is_largest) -> int", _extreme_place, traits=COMPARES)
declare("aten::_ordered(t[] input, int[] order) -> t[]", _ordered)
declare(
    "aten::sorted.list(t[] input, bool reverse=False) -> t[]",
    lambda values, reverse=False: _ordered(values, _sorted_order(values, reverse)),
    traits=Trait.COMPARES,
)

# --- what numbers amount to ---

for kind in ("int", "float", "bool", "Scalar"):
    result = "int" if kind == "bool" else kind
    declare(f"aten::all.{kind}({kind}[] self) -> bool", all)
    declare(f"aten::any.{kind}({kind}[] self) -> bool", any)
    declare(f"aten::sum.{kind}({kind}[] self) -> {result}", sum)
    declare(f"aten::sum.{kind}_start({kind}[] self, {result} start) -> {result}", lambda self, start: sum(self, start))

# --- Python's functions of what it goes over, of the rows of a tensor ---


def _rows_all(name: str) -> Any:
    def evaluate(self: Array) -> bool:
        if self.ndim == 0:
            raise TypeError(f"{name}(): a 0-d tensor has no rows; write `bool(x)`")
        if self.size > len(self):
            raise ValueError(f"{name}(): a row of shape {list(self.shape[1:])} is no condition; write `x.{name}()`")
        return bool(getattr(np, name)(self != 0)) if self.size == len(self) else name == "all"

    return evaluate


declare("aten::_all_rows(Tensor self) -> bool", _rows_all("all"), traits=Trait.NONDIFFERENTIABLE)
declare("aten::_any_row(Tensor self) -> bool", _rows_all("any"), traits=Trait.NONDIFFERENTIABLE)

# --- ranges ---

declare("aten::rangelist(int n) -> int[]", bounds.listed_range)
declare("aten::range_list.step(int start, int end, int step) -> int[]", bounds.listed_range)

# --- lists of what is in a tensor ---


def check_listed(kind: str, rank: int, dtype: DType, shape: Sequence[int]) -> None:
    """TypeError where lists of what a tensor holds are not of the type that is written."""
    found = "float" if dtype.is_floating else "bool" if dtype == BOOL else "int"
    if (found, len(shape)) != (kind, rank):
        wanted = f"a tensor of {rank} dimensions of {kind}s" if rank else f"a tensor of one {kind}"
        raise TypeError(f"by its type tolist() is of {wanted}, and this is one of {dtype}{list(shape)}")


def _listed(kind: str, rank: int) -> Callable[[Array], Any]:
    def evaluate(tensor: Array) -> Any:
        check_listed(kind, rank, dtype_of(tensor), tensor.shape)
        return (tensor.astype(np.float64) if kind == "float" else tensor).tolist()

    return evaluate


LISTED = {f"aten::tolist.{kind}_{rank}": (kind, rank) for kind in ("float", "int", "bool") for rank in range(7)}
"""Ops, and of what kind of numbers and how many dimensions a tensor is that they take."""

for name, (kind, rank) in LISTED.items():
    declare(f"{name}(Tensor self) -> {kind}{'[]' * rank}", _listed(kind, rank), traits=Trait.NONDIFFERENTIABLE)

"""Ops that make tensors from numbers.

Source: torch's documentation of each op. `empty` gives zeros: a value here never depends on what memory held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, isfinite
from typing import Any

from ...ops import rules, shapes
from ...types.dtypes import (
    BOOL,
    BY_CODE,
    DEFAULT_FLOAT,
    FLOAT64,
    INT64,
    DType,
    Number,
)
from ...types.lazy_numpy import np
from ..arguments import Arguments, Shape
from ..arrays import Array, can_fill, cast, dtype_of, element, numpy_dtype, scalar_dtype
from ..registry import Trait, declare

OPTIONS = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
"""torch's tensor options; layout, device and pin_memory make no difference to a value."""


def filled(size: Sequence[int], value: Number, dtype: DType) -> Array:
    """A tensor of one value."""
    if any(s < 0 for s in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(size)}")
    fill = value if dtype.is_half and can_fill(size, value, dtype) else element(value, dtype)
    with np.errstate(over="ignore"):
        return np.full(tuple(size), fill, numpy_dtype(dtype))


def _dtype(code: int | None, default: DType) -> DType:
    return default if code is None else BY_CODE[code]


def _constant(value: Number) -> Callable[..., Array]:
    return lambda size, dtype, *options: filled(size, value, _dtype(dtype, DEFAULT_FLOAT))


def _constant_like(value: Number) -> Callable[..., Array]:
    return lambda self, dtype, *options: filled(self.shape, value, _dtype(dtype, dtype_of(self)))


def _new_constant(value: Number) -> Callable[..., Array]:
    return lambda self, size, dtype, *options: filled(size, value, _dtype(dtype, dtype_of(self)))


def _full(size: Sequence[int], fill_value: Number, dtype: int | None, *options: object) -> Array:
    return filled(size, fill_value, _dtype(dtype, scalar_dtype(fill_value)))


def _full_like(self: Array, fill_value: Number, dtype: int | None, *options: object) -> Array:
    return filled(self.shape, fill_value, _dtype(dtype, dtype_of(self)))


def _new_full(self: Array, size: Sequence[int], fill_value: Number, dtype: int | None, *options: object) -> Array:
    return filled(size, fill_value, _dtype(dtype, dtype_of(self)))


def in_steps_of(dtype: int | None, *numbers: Number) -> list[Number]:
    """The numbers of an `arange` as it counts with them: in integers they lose their fractions first, as in torch."""
    if dtype is None or BY_CODE[dtype].is_floating:
        return [*numbers]
    return [int(element(number, INT64)) for number in numbers]


def arange_length(start: Number, end: Number, step: Number, dtype: int | None) -> int:
    """How many elements: by the numbers as they were given, but in int64 by what they are without fractions."""
    asked = None if dtype is None else BY_CODE[dtype]
    if asked == BOOL:
        raise RuntimeError("arange: bools have no steps; make it of ints, and convert it with .bool()")
    if not all(isinstance(end_, int) or isfinite(end_) for end_ in (start, end)):
        raise RuntimeError(f"arange: unsupported range: {start} -> {end}")
    is_whole = all(isinstance(number, int) for number in (start, end, step))
    counted = in_steps_of(dtype, start, end, step) if asked == INT64 and not is_whole else [start, end, step]
    for first, last, pace in ([start, end, step], counted):
        if last != first and (last > first) != (pace > 0):
            raise RuntimeError(f"arange: no way from {start} to {end} in steps of {step}")
    first, last, pace = counted
    if pace == 0:
        raise RuntimeError(f"arange: step must be nonzero, but is {step}; in int64 it must be 1 at least")
    if isinstance(first, int) and isinstance(last, int) and isinstance(pace, int):
        return -((first - last) // pace)
    rounds = (last - first) / pace
    if not isfinite(rounds):
        raise RuntimeError(f"arange: steps of {step} do not lead from {start} to {end}")
    return ceil(rounds)


def _arange(start: Number, end: Number, step: Number, dtype: int | None, *options: object) -> Array:
    whole = not any(isinstance(number, float) for number in (start, end, step))
    length = arange_length(start, end, step, dtype)
    start, step = in_steps_of(dtype, start, step)
    of_ints = isinstance(start, int) and isinstance(step, int)
    steps = np.arange(length).astype(np.int64 if of_ints else np.float64)
    return cast(np.add(start, np.multiply(steps, step)), _dtype(dtype, INT64 if whole else DEFAULT_FLOAT))


def _arange_end(end: Number, dtype: int | None, *options: object) -> Array:
    return _arange(0, end, 1, dtype)


def _arange_start(start: Number, end: Number, dtype: int | None, *options: object) -> Array:
    return _arange(start, end, 1, dtype)


def _linspace(start: Number, end: Number, steps: int, dtype: int | None, *options: object) -> Array:
    target = _dtype(dtype, DEFAULT_FLOAT)
    return cast(_spaced(start, end, steps, target), target)


def _logspace(start: Number, end: Number, steps: int, base: float, dtype: int | None, *options: object) -> Array:
    target = _dtype(dtype, DEFAULT_FLOAT)
    exponents = _spaced(start, end, steps, FLOAT64 if steps == 1 else target)
    with np.errstate(all="ignore"):
        return cast(np.power(float(base), exponents), target)


def _spaced(start: Number, end: Number, steps: int, dtype: DType) -> Array:
    """Numbers at equal distances, in float64: the first half by their distance from the start, the others by that from
    the end. Both are numbers of the dtype."""
    if steps < 0:
        raise RuntimeError(f"the number of steps must not be negative, but is {steps}")
    first, last = (float(element(value, dtype)) for value in (start, end))
    if steps == 1:
        return np.asarray([first])
    index = np.arange(steps, dtype=np.float64)
    with np.errstate(all="ignore"):
        step = np.float64(last - first) / (steps - 1)
        return np.where(index < steps // 2, first + step * index, last - step * (steps - 1 - index))


def _eye(n: int, dtype: int | None, *options: object) -> Array:
    return _eye_m(n, n, dtype)


def _eye_m(n: int, m: int, dtype: int | None, *options: object) -> Array:
    if n < 0 or m < 0:
        raise RuntimeError(f"eye: sizes must not be negative, but are {n} and {m}")
    return np.eye(n, m, dtype=numpy_dtype(_dtype(dtype, DEFAULT_FLOAT)))


def _triangle(is_lower: bool) -> Callable[..., Array]:
    """The places of a triangle, row by row; no row is looked at that holds none."""

    def evaluate(row: int, col: int, offset: int, dtype: int | None, *options: object) -> Array:
        if row < 0 or col < 0:
            raise RuntimeError(f"rows and columns must not be negative, but are {row} and {col}")
        rows = range(max(0, -offset), row) if is_lower else range(min(row, col - offset))
        if not col:
            rows = range(0)
        index = np.arange(rows.start, rows.stop)
        last = np.minimum(index + offset + 1, col) if is_lower else np.full(len(rows), col)
        first = np.zeros(len(rows), np.int64) if is_lower else np.maximum(index + offset, 0)
        counts = last - first
        places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - first, counts)
        return cast(np.stack([np.repeat(index, counts), places]), _dtype(dtype, INT64))

    return evaluate


def _scalar_tensor(value: Number, dtype: int | None, *options: object) -> Array:
    target = _dtype(dtype, scalar_dtype(value))
    return np.asarray(value, numpy_dtype(target)) if target.is_floating else np.asarray(element(value, target))


def _default_scalar_tensor(value: Number, dtype: int | None, *options: object) -> Array:
    return filled((), value, _dtype(dtype, DEFAULT_FLOAT))


def _tensor_of_list(data: Sequence[Any], dtype: int | None, *options: object) -> Array:
    """A tensor of nested lists of numbers; float if one of them is, as with `torch.tensor`."""
    leaves: list[Any] = list(data)
    while any(isinstance(leaf, list | tuple) for leaf in leaves):
        leaves = [item for leaf in leaves for item in (leaf if isinstance(leaf, list | tuple) else [leaf])]
    for leaf in leaves:
        if leaf is None or isinstance(leaf, str):
            raise RuntimeError(f"tensor: {leaf!r} is no number; a tensor is made of numbers and bools")
        if isinstance(leaf, np.ndarray) and leaf.size != 1:
            raise ValueError("tensor: only a tensor of one element is a number; `torch.stack` joins others")
    kinds = [dtype_of(leaf) if isinstance(leaf, np.ndarray) else scalar_dtype(leaf) for leaf in leaves]
    found = max(kinds, key=lambda kind: kind.category, default=DEFAULT_FLOAT)
    target = _dtype(dtype, found)
    try:
        array = np.asarray(_numbers_in(data), numpy_dtype(found if target.category == 1 else target))
    except ValueError:
        raise ValueError("tensor: the nested lists must have equal lengths at every level") from None
    if target.category == 1 and target != found:
        array = np.reshape([element(value.item(), target) for value in array.flat], array.shape)
    return cast(array, target)


def _numbers_in(data: Any) -> Any:
    """With tensors of one element as numbers. Lists nest as deep as types in source, so this recurses."""
    if isinstance(data, list | tuple):
        return [_numbers_in(item) for item in data]
    return data.reshape(()) if isinstance(data, np.ndarray) else data


def _asked(argument: int, default: DType | None, rank: int | None = None) -> rules.TypeRule:
    """The default, unless a dtype is asked for."""
    return rules.unless_asked(argument, rules.fixed(default, rank))


# --- what is known of results ---


def _arange_shape(a: Arguments) -> Shape:
    return (arange_length(a.get("start", 0), a["end"], a.get("step", 1), a["dtype"]),)


def _of_numbers(*names: str) -> Callable[[Arguments], DType]:
    """int64 where all are whole, else the default float."""

    def rule(a: Arguments) -> DType:
        given = [a.get(name) for name in names]
        return DEFAULT_FLOAT if any(isinstance(number, float) for number in given) else INT64

    return rule


def _not_negative(a: Arguments, name: str) -> int:
    """A size that is an argument."""
    found: int = a[name]
    if found < 0:
        raise RuntimeError(f"{a.schema.base_name}: {name} must not be negative, but is {found}")
    return found


def _steps_shape(a: Arguments) -> Shape:
    return (_not_negative(a, "steps"),)


def _eye_shape(a: Arguments) -> Shape:
    n = _not_negative(a, "n")
    return n, n if a.get("m") is None else _not_negative(a, "m")


def _triangle_shape(a: Arguments) -> Shape:
    """One column for each element of the triangle."""
    rows, columns, offset = _not_negative(a, "row"), _not_negative(a, "col"), a["offset"]
    if a.schema.base_name == "tril_indices":
        return 2, _below(rows, columns, offset)
    return 2, rows * columns - _below(rows, columns, offset - 1)


def _below(rows: int, columns: int, offset: int) -> int:
    """Elements on and below a diagonal: rows without any, then one more in each row, then whole rows."""
    first = min(max(-offset, 0), rows)
    whole = min(max(columns - offset - 1, first), rows)
    growing = whole - first
    return growing * (first + whole + 1 + 2 * offset) // 2 + (rows - whole) * columns


def _of_filling(a: Arguments) -> DType:
    return scalar_dtype(a["fill_value"])


for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0)):
    _overload = ".memory_format" if _name == "empty" else ""
    _more = ", MemoryFormat? memory_format=None" if _name == "empty" else ""
    declare(
        f"aten::{_name}{_overload}(int[] size, {OPTIONS}{_more}) -> Tensor",
        _constant(_value),
        result=_asked(1, DEFAULT_FLOAT),
        shape=shapes.sized("size"),
        dtype=shapes.default_float,
    )
    declare(
        f"aten::{_name}_like(Tensor self, {OPTIONS}, MemoryFormat? memory_format=None) -> Tensor",
        _constant_like(_value),
        traits=Trait.SHAPE_ONLY,
        result=rules.unless_asked(1, rules.same()),
        shape=shapes.shape_of("self"),
    )
    declare(
        f"aten::new_{_name}(Tensor self, int[] size, {OPTIONS}) -> Tensor",
        _new_constant(_value),
        traits=Trait.SHAPE_ONLY,
        result=rules.unless_asked(2, rules.like()),
        shape=shapes.sized("size"),
    )

declare(
    f"aten::full(int[] size, Scalar fill_value, {OPTIONS}) -> Tensor",
    _full,
    shape=shapes.sized("size"),
    dtype=_of_filling,
)
declare(
    f"aten::full_like(Tensor self, Scalar fill_value, {OPTIONS}, MemoryFormat? memory_format=None) -> Tensor",
    _full_like,
    traits=Trait.SHAPE_ONLY,
    result=rules.unless_asked(2, rules.same()),
    shape=shapes.shape_of("self"),
)
declare(
    f"aten::new_full(Tensor self, int[] size, Scalar fill_value, {OPTIONS}) -> Tensor",
    _new_full,
    traits=Trait.SHAPE_ONLY,
    result=rules.unless_asked(3, rules.like()),
    shape=shapes.sized("size"),
)
declare(
    f"aten::arange(Scalar end, {OPTIONS}) -> Tensor",
    _arange_end,
    result=rules.fixed(None, 1),
    shape=_arange_shape,
    dtype=_of_numbers("start", "end", "step"),
)
declare(
    f"aten::arange.start(Scalar start, Scalar end, {OPTIONS}) -> Tensor",
    _arange_start,
    result=rules.fixed(None, 1),
    shape=_arange_shape,
    dtype=_of_numbers("start", "end", "step"),
)
declare(
    f"aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, {OPTIONS}) -> Tensor",
    _arange,
    result=rules.fixed(None, 1),
    shape=_arange_shape,
    dtype=_of_numbers("start", "end", "step"),
)
declare(
    f"aten::linspace(Scalar start, Scalar end, int steps, {OPTIONS}) -> Tensor",
    _linspace,
    result=_asked(3, DEFAULT_FLOAT, 1),
    shape=_steps_shape,
    dtype=shapes.default_float,
)
declare(
    f"aten::logspace(Scalar start, Scalar end, int steps, float base=10., {OPTIONS}) -> Tensor",
    _logspace,
    result=_asked(4, DEFAULT_FLOAT, 1),
    shape=_steps_shape,
    dtype=shapes.default_float,
)
declare(
    f"aten::eye(int n, {OPTIONS}) -> Tensor",
    _eye,
    result=_asked(1, DEFAULT_FLOAT, 2),
    shape=_eye_shape,
    dtype=shapes.default_float,
)
declare(
    f"aten::eye.m(int n, int m, {OPTIONS}) -> Tensor",
    _eye_m,
    result=_asked(2, DEFAULT_FLOAT, 2),
    shape=_eye_shape,
    dtype=shapes.default_float,
)
for _name in ("tril", "triu"):
    declare(
        f"aten::{_name}_indices(int row, int col, int offset=0, {OPTIONS.replace('dtype=None', 'dtype=4')}) -> Tensor",
        _triangle(_name == "tril"),
        result=rules.fixed(None, 2),
        shape=_triangle_shape,
    )

declare(
    f"aten::scalar_tensor(Scalar s, {OPTIONS}) -> Tensor",
    _default_scalar_tensor,
    result=_asked(1, DEFAULT_FLOAT, 0),
    shape=shapes.number,
    dtype=shapes.default_float,
)
for _name, _more in (("tensor", ", bool requires_grad=False"), ("as_tensor", "")):
    _rest = f"*, ScalarType? dtype=None, Device? device=None{_more}) -> Tensor"
    for _kind, _default in (("bool", BOOL), ("int", INT64), ("float", DEFAULT_FLOAT), ("number", None)):
        declare(
            f"aten::{_name}.{_kind}({_kind} t, {_rest}",
            _scalar_tensor,
            result=_asked(1, _default, 0),
            shape=shapes.number,
            dtype=shapes.of_leaves,
        )
declare(
    "aten::tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    _tensor_of_list,
    traits=Trait.NONDIFFERENTIABLE,
    shape=shapes.nested_lists,
    dtype=shapes.of_leaves,
)
declare(
    "aten::as_tensor.list(t[] data, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    _tensor_of_list,
    traits=Trait.NONDIFFERENTIABLE,
    shape=shapes.nested_lists,
    dtype=shapes.of_leaves,
)

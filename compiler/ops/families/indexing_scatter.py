"""Writing and adding at indices. The result is a new tensor; halves add up in float32 and are rounded once.

Where several sources go to one place without being combined the last one wins (torch leaves it open).
Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from ...ops import rules, shapes
from ...types.dtypes import BOOL, UINT8, Number
from ...types.lazy_numpy import np
from ..arguments import Arguments, Shape
from ..arrays import Array, cast, dtype_of, element, widen
from ..dims import at_least_1d, wrap_dim
from ..registry import Trait, declare
from .indexing import checked_index, counts_as_int, cropped, located, numpy_subscript, require_index_fit

_FOLDS = {
    "add": "add",
    "sum": "add",
    "mean": "add",
    "multiply": "multiply",
    "prod": "multiply",
    "amax": "maximum",
    "amin": "minimum",
}
"""What of NumPy's combines the values that meet at one place, by torch's names."""


def _require_dtype(name: str, self: Array, source: Array) -> None:
    """RuntimeError for a source of another dtype: torch rounds nothing on its way to an index."""
    if source.dtype != self.dtype:
        raise RuntimeError(
            f"{name}: expected a source of dtype {dtype_of(self)}, but got {dtype_of(source)}; convert it: "
            "`source.type_as(x)`"
        )


def _source(self: Array, src: Array | Number, index: Array) -> Array:
    """What goes to each index: the leading part of `src`, or one number."""
    if not isinstance(src, np.ndarray):
        return np.full(index.shape, element(src, dtype_of(self)))
    _require_dtype("scatter", self, src)
    whole = at_least_1d(src)
    require_index_fit("scatter", whole, index, None)
    return cropped(whole, index, -1)


def _places(self: Array, dim: int, index: Array) -> tuple[Array, ...]:
    """The full subscript that `index` along `dim` means."""
    axis = wrap_dim(dim, self.ndim)
    require_index_fit("scatter", self, index, axis)
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[axis] = checked_index("scatter", index, self.shape[axis])
    return tuple(grid)


def _scatter(self: Array, dim: int, index: Array, src: Array | Number) -> Array:
    result, at = at_least_1d(self).copy(), at_least_1d(index)
    if index.size:
        result[_places(result, dim, at)] = _source(self, src, at)
    return result.reshape(self.shape)


def _combine(self: Array, dim: int, index: Array, src: Array | Number, reduce: str) -> Array:
    if reduce not in ("add", "multiply"):
        raise RuntimeError(f'scatter: reduce must be "add" or "multiply", not {reduce!r}')
    return _scatter_reduce(self, dim, index, src, reduce, True)


def _scatter_add(self: Array, dim: int, index: Array, src: Array) -> Array:
    return _scatter_reduce(self, dim, index, src, "add", True)


def _identity(reduce: str, array: Array) -> Number:
    """What a fold starts from where it does not include the tensor's own element."""
    if reduce not in ("amax", "amin"):
        return int(getattr(np, _FOLDS[reduce]).identity)
    if np.issubdtype(array.dtype, np.floating):
        return -inf if reduce == "amax" else inf
    limits = (False, True) if array.dtype == bool else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    return limits[reduce == "amin"]


def _scatter_reduce(self: Array, dim: int, index: Array, src: Array | Number, reduce: str, include_self: bool) -> Array:
    if reduce not in _FOLDS:
        raise RuntimeError(f"scatter_reduce: reduce must be one of {', '.join(_FOLDS)}, not {reduce!r}")
    at = at_least_1d(index)
    result = np.array(widen(at_least_1d(self)))
    if not index.size:
        return self
    places, source = _places(result, dim, at), widen(_source(self, src, at))
    if not include_self:
        result[places] = _identity(reduce, result)
    getattr(np, _FOLDS[reduce]).at(result, places, source)
    if reduce == "mean":
        result = _divided(result, places, include_self)
    return cast(result, dtype_of(self)).reshape(self.shape)


def _divided(total: Array, places: tuple[Array, ...], include_self: bool) -> Array:
    """Sums divided by how many terms they have; whole numbers are rounded down."""
    counts = np.full(total.shape, int(include_self))
    np.add.at(counts, places, 1)
    counts = np.maximum(counts, 1)
    return total / counts.astype(total.dtype) if np.issubdtype(total.dtype, np.floating) else total // counts


def sum_rows(rows: Array, index: Array, size: int) -> Array:
    """`size` rows, each the sum of the rows whose index is its number, in their order."""
    totals = np.zeros((size, *rows.shape[1:]), rows.dtype)
    if not index.size or not rows.size:
        return totals
    order = np.argsort(index, kind="stable")
    ranked = index[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    numbers = ranked[starts]
    if rows.size < _WIDE * len(rows):
        totals[numbers] = np.add.reduceat(rows[order], starts, axis=0, dtype=rows.dtype)
        return totals
    # Along long rows `reduceat` takes many times as long as to add them.
    counts = np.diff(starts, append=index.size)
    totals[numbers] = rows[order[starts]]
    for turn in range(1, min(int(counts.max()), _OFTEN)):
        again = (counts > turn) & (counts <= _OFTEN)
        totals[numbers[again]] += rows[order[starts[again] + turn]]
    for number, start, count in zip(*(a[counts > _OFTEN].tolist() for a in (numbers, starts, counts)), strict=True):
        blocks = [order[i : min(i + _BLOCK, start + count)] for i in range(start, start + count, _BLOCK)]
        sums = [np.add.reduce(rows[block], axis=0, dtype=rows.dtype) for block in blocks]
        np.add.reduce(sums, axis=0, dtype=rows.dtype, out=totals[number, ...])
    return totals


_WIDE = 16
"""Elements from which a row is long."""
_OFTEN = 8
"""Rows from which on those of one index are added up by themselves; all that are met less often, in as many turns."""
_BLOCK = 128
"""Rows that are added up one after the other: sums of more lose more to rounding."""


def _along(name: str, self: Array, dim: int, index: Array, source: Array) -> tuple[Array, Array, Array]:
    """self and the source with dimension `dim` first, and the index as a vector."""
    _require_dtype(name, self, source)
    whole, axis = at_least_1d(self), wrap_dim(dim, self.ndim)
    if index.ndim > 1:
        raise IndexError(f"{name}: expected a vector of indices, but got shape {index.shape}")
    at = checked_index(name, index.reshape(-1), whole.shape[axis])
    new = np.moveaxis(at_least_1d(source), axis, 0)
    result = np.moveaxis(whole, axis, 0)
    if new.shape != (at.size, *result.shape[1:]):
        raise RuntimeError(
            f"{name}: a source of shape {source.shape} does not fit {at.size} indices in dim {axis} of {self.shape}"
        )
    return result, new, at


def _back(result: Array, self: Array, dim: int) -> Array:
    return np.moveaxis(result, 0, wrap_dim(dim, self.ndim)).reshape(self.shape)


def _index_add(self: Array, dim: int, index: Array, source: Array, alpha: Number) -> Array:
    rows, new, at = _along("index_add", self, dim, index, source)
    wide = widen(new)
    wide = wide if alpha == 1 else wide * np.asarray(alpha).astype(wide.dtype)
    return _back(cast(widen(rows) + sum_rows(wide, at, len(rows)), dtype_of(self)), self, dim)


def _index_copy(self: Array, dim: int, index: Array, source: Array) -> Array:
    rows, new, at = _along("index_copy", self, dim, index, source)
    result = rows.copy()
    result[at] = new
    return _back(result, self, dim)


def _index_fill(self: Array, dim: int, index: Array, value: Number | Array) -> Array:
    if isinstance(value, np.ndarray) and value.ndim:
        raise RuntimeError(f"index_fill: the value must be 0-d, but its shape is {value.shape}")
    axis = wrap_dim(dim, self.ndim)
    result = np.moveaxis(at_least_1d(self), axis, 0).copy()
    at = np.where(index < 0, index + len(result), index).reshape(-1)
    fill = value.astype(self.dtype) if isinstance(value, np.ndarray) else element(value, dtype_of(self))
    result[checked_index("index_fill", at, len(result))] = fill
    return _back(result, self, dim)


def _fills_a_mask(indices: Sequence[Array | None], values: Array) -> bool:
    """Whether one number goes where one mask is true: torch converts that, as `masked_fill` does."""
    tensors = [index for index in indices if index is not None and not counts_as_int(index)]
    return values.size == 1 and len(tensors) == 1 and dtype_of(tensors[0]) in (BOOL, UINT8)


def _index_put(self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool) -> Array:
    if accumulate or not _fills_a_mask(indices, values):
        _require_dtype("index_put", self, values)
    while values.ndim and values.shape[0] == 1:
        # NumPy does not drop them where a mask of several dimensions is true.
        values = values[0]
    result = np.array(widen(self)) if accumulate else self.copy()
    view, left = located(result, indices)
    key: Any = numpy_subscript(left)
    try:
        if not accumulate:
            view[key] = values.astype(self.dtype, copy=False)
            return result
        np.add.at(view, key, widen(values))
        return cast(result, dtype_of(self))
    except ValueError:
        place = view[key].shape
        raise RuntimeError(f"index_put: values of shape {values.shape} do not fit the indexed shape {place}") from None


def _put(self: Array, index: Array, source: Array, accumulate: bool) -> Array:
    return _index_put(self.reshape(-1), [index], source.reshape(index.shape), accumulate).reshape(self.shape)


def _masked_scatter(self: Array, mask: Array, source: Array) -> Array:
    if dtype_of(mask) != BOOL:
        raise RuntimeError(f"masked_scatter: expected a bool mask, but got {dtype_of(mask)}")
    _require_dtype("masked_scatter", self, source)
    values, where = np.broadcast_arrays(self, mask)
    wanted = np.count_nonzero(where)
    if source.size < wanted:
        raise RuntimeError(f"masked_scatter: {wanted} elements are masked, but the source has {source.size}")
    result = values.copy()
    result[where] = source.reshape(-1)[:wanted]
    return result


def _embedding_backward(
    grad: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool, sparse: bool = False
) -> Array:
    """Adds each gradient row to its weight's row; the row `padding_idx` gets none."""
    del sparse
    at = checked_index("embedding_backward", indices, num_weights).reshape(-1)
    rows = widen(grad).reshape(at.size, grad.shape[-1])
    if scale_grad_by_freq:
        rows = rows / np.bincount(at, minlength=num_weights)[at, None].astype(rows.dtype)
    keep = at != padding_idx
    return cast(sum_rows(rows[keep], at[keep], num_weights), dtype_of(grad))


# --- what is known of results ---


def _embedding_backward_shape(a: Arguments) -> Shape:
    return (a["num_weights"], a.at(0)[-1])


def _masked_scatter_shape(a: Arguments) -> Shape:
    return shapes.broadcast(a.shape("self"), a.shape("mask"))


_SCATTERS = (
    ("aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", _scatter),
    ("aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", _scatter),
    ("aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", _combine),
    ("aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor", _combine),
    ("aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", _scatter_add),
    (
        "aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *,"
        " bool include_self=True) -> Tensor",
        _scatter_reduce,
    ),
    ("aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", _index_add),
    ("aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", _index_copy),
    ("aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", _index_fill),
    ("aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", _index_fill),
    ("aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", _index_put),
    ("aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", _put),
)

for _schema, _evaluate in _SCATTERS:
    # Kernels look at indices, of a few slices. Threads of a library write what is copied in any order.
    _traits = Trait(0) if _evaluate in (_index_copy, _put) else Trait.LIBRARY
    _traits |= Trait.READS_BY_INDEX if _evaluate in (_scatter, _scatter_add) else Trait(0)
    declare(_schema, _evaluate, traits=_traits, result=rules.same(), shape=shapes.shape_of("self"))
declare(
    "aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
    _masked_scatter,
    result=rules.like(),
    shape=_masked_scatter_shape,
)
declare(
    "aten::embedding_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq,"
    " bool sparse) -> Tensor",
    _embedding_backward,
    traits=Trait.REDUCTION | Trait.LIBRARY,
    result=rules.like(rank=2),
    shape=_embedding_backward_shape,
)
declare(
    "aten::embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx,"
    " bool scale_grad_by_freq) -> Tensor",
    _embedding_backward,
    traits=Trait.REDUCTION | Trait.LIBRARY,
    result=rules.like(rank=2),
    shape=_embedding_backward_shape,
)

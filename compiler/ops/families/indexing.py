"""Reading elements at indices: gather, advanced indexing, masks and searches.

Source: torch's documentation of each op. Indices that torch takes only from 0 upwards are checked, since NumPy would
count negative ones from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...ops import rules, shapes
from ...types.dtypes import BOOL, INT32, INT64, UINT8, DType, Number
from ...types.lazy_numpy import np
from ..arguments import Arguments, Shape
from ..arrays import Array, cast, dtype_of, result_dtype, widen
from ..dims import along, at_least_1d, wrap_dim
from ..registry import Trait, declare

_N = Trait.NONDIFFERENTIABLE


def checked_index(name: str, index: Array, size: int) -> Array:
    """The index tensor itself; IndexError unless it holds integers in [0, size)."""
    if dtype_of(index).category != 1:
        raise IndexError(f"{name}: expected integers as indices, but got {dtype_of(index)}")
    if index.size and (int(index.min()) < 0 or int(index.max()) >= size):
        raise IndexError(f"{name}: index out of range: {index.min()} to {index.max()} in a dimension of size {size}")
    return index


def _index_select(self: Array, dim: int, index: Array) -> Array:
    if index.ndim > 1:
        raise IndexError(f"index_select(): Index is supposed to be a vector, but its shape is {index.shape}")
    whole, axis = at_least_1d(self), wrap_dim(dim, self.ndim)
    taken = np.take(whole, checked_index("index_select", index.reshape(-1), whole.shape[axis]), axis)
    return taken.reshape(()) if self.ndim == 0 else taken


def cropped(array: Array, index: Array, axis: int) -> Array:
    """The part of `array` that an index of smaller shape speaks of; all of dimension `axis`."""
    return array[tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(index.shape))]


def require_index_fit(name: str, array: Array, index: Array, axis: int | None) -> None:
    """RuntimeError unless the ranks agree and no dimension of `index` but `axis` is larger than that of `array`."""
    fits = array.ndim == index.ndim and all(size <= array.shape[i] for i, size in enumerate(index.shape) if i != axis)
    if not fits:
        raise RuntimeError(f"{name}: an index of shape {index.shape} does not fit a tensor of shape {array.shape}")


def _gather(self: Array, dim: int, index: Array, sparse_grad: bool) -> Array:
    del sparse_grad
    whole, at, axis = at_least_1d(self), at_least_1d(index), wrap_dim(dim, self.ndim)
    if not index.size:
        return np.zeros(index.shape, self.dtype)
    require_index_fit("gather", whole, at, axis)
    found = np.take_along_axis(cropped(whole, at, axis), checked_index("gather", at, whole.shape[axis]), axis)
    return found.reshape(index.shape)


def numpy_subscript(indices: Sequence[Array | None]) -> tuple[Array | slice, ...]:
    """NumPy's subscript for torch's list of optional index tensors; uint8 counts as a mask."""
    return tuple(
        slice(None) if index is None else cast(index, BOOL) if dtype_of(index) == UINT8 else index for index in indices
    )


def located(self: Array, indices: Sequence[Array | None]) -> tuple[Array, Sequence[Array | None]]:
    """A view, and what is left of the indices in it: as in torch, an integer of no dimensions picks like a number.

    It matters beside tensors that are apart: the dimensions of these come first, of numbers none do.
    """
    if all(index is None or counts_as_int(index) for index in indices):
        return self, indices
    places = [
        place
        for index in indices
        for place in ([_place(index)] if counts_as_int(index) else [slice(None)] * _dims_of(index))  # type: ignore[arg-type]
    ]
    return self[(*places, ...)], [index for index in indices if not counts_as_int(index)]


def counts_as_int(index: Array | None) -> bool:
    """Whether an index tensor counts as the int in it."""
    return index is not None and not index.ndim and dtype_of(index) not in (BOOL, UINT8)


def _place(index: Array) -> int:
    if index.dtype.kind not in "iu":
        raise IndexError(f"arrays used as indices must be of integer (or boolean) type, and one is {dtype_of(index)}")
    return int(index)


def _dims_of(index: Array | None) -> int:
    """How many dimensions an entry stands for."""
    return index.ndim if index is not None and dtype_of(index) in (BOOL, UINT8) else 1


def _index(self: Array, indices: Sequence[Array | None]) -> Array:
    if len(indices) > self.ndim and not any(index is not None and dtype_of(index) == BOOL for index in indices):
        raise IndexError(f"too many indices for tensor of dimension {self.ndim} (got {len(indices)})")
    view, left = located(self, indices)
    return np.asarray(view[numpy_subscript(left)])


def _masked_select(self: Array, mask: Array) -> Array:
    if dtype_of(mask) != BOOL:
        raise RuntimeError(f"masked_select: expected a bool mask, but got {dtype_of(mask)}")
    values, where = np.broadcast_arrays(self, mask)
    return values[where].reshape(-1)


def _take(self: Array, index: Array) -> Array:
    if dtype_of(index) != INT64:
        raise RuntimeError(f"take: the index is a tensor of int64, not of {dtype_of(index)}")
    return np.asarray(self.reshape(-1)[index]) if index.size else np.zeros(index.shape, self.dtype)


def _take_along_dim(self: Array, indices: Array, dim: int | None) -> Array:
    if dim is None:
        return _gather(self.reshape(-1), 0, indices.reshape(-1), False)
    axis = wrap_dim(dim, self.ndim)
    if self.ndim != indices.ndim:
        raise RuntimeError(f"take_along_dim: the ranks of {self.shape} and {indices.shape} differ")
    whole, at = at_least_1d(self), at_least_1d(indices)
    at = np.where(at < 0, at + whole.shape[axis], at)
    found = np.take_along_axis(whole, checked_index("take_along_dim", at, whole.shape[axis]), axis)
    return found.reshape(found.shape if self.ndim else ())


def _nonzero(self: Array) -> Array:
    return np.argwhere(self != 0).astype(np.int64, copy=False)


def _where(condition: Array) -> list[Array]:
    return [np.asarray(axis, np.int64) for axis in np.nonzero(at_least_1d(condition) != 0)]


def _one_hot(self: Array, num_classes: int) -> Array:
    if dtype_of(self) != INT64:
        raise RuntimeError(f"one_hot is only applicable to int64 tensors, but got {dtype_of(self)}")
    if num_classes == -1 and not self.size:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    classes = int(self.max()) + 1 if num_classes == -1 else num_classes
    if classes <= 0 or (self.size and (int(self.min()) < 0 or int(self.max()) >= classes)):
        raise RuntimeError(f"one_hot: class values must be in [0, {classes})")
    return (self[..., None] == np.arange(classes)).astype(np.int64)


def _searchsorted(
    sorted_sequence: Array,
    self: Array | Number,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Array | None,
) -> Array:
    if side not in (None, "left", "right") or (side == "left" and right):
        raise RuntimeError(f"searchsorted: side {side!r} and right={right} contradict each other or mean nothing")
    values = np.asarray(self)
    sequence = sorted_sequence if sorter is None else np.take_along_axis(sorted_sequence, sorter, -1)
    to_right = right or side == "right"
    dtype = result_dtype(sequence, self)
    found = _search(widen(cast(sequence, dtype)), widen(cast(values, dtype)), to_right)
    return cast(found, INT32 if out_int32 else INT64)


def _search(sequence: Array, values: Array, right: bool) -> Array:
    if sequence.ndim == 1:
        return np.asarray(np.searchsorted(sequence, values, "right" if right else "left"))
    if sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(f"searchsorted: {sequence.shape} and {values.shape} must agree but for the last dimension")
    wanted = values[..., :, None]
    before = ~(sequence[..., None, :] > wanted) if right else ~(sequence[..., None, :] >= wanted)
    return np.count_nonzero(before, axis=-1)


def _bucketize(self: Array | Number, boundaries: Array, out_int32: bool, right: bool) -> Array:
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but its shape is {boundaries.shape}")
    return _searchsorted(boundaries, self, out_int32, right, None, None)


def _embedding(weight: Array, indices: Array, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Array:
    del padding_idx, scale_grad_by_freq, sparse  # These concern the gradient.
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, but its shape is {weight.shape}")
    return weight[checked_index("embedding", indices, weight.shape[0])]


def _select_scatter(self: Array, src: Array, dim: int, index: int) -> Array:
    axis = wrap_dim(dim, self.ndim)
    if self.ndim == 0 or not -self.shape[axis] <= index < self.shape[axis]:
        raise IndexError(f"select_scatter: index {index} out of range in dimension {axis} of shape {self.shape}")
    return _written("select_scatter", self, (*along(axis, index), ...), src)


def _slice_scatter(self: Array, src: Array, dim: int, start: int | None, end: int | None, step: int) -> Array:
    if self.ndim == 0 or step <= 0:
        raise RuntimeError(f"slice_scatter: no slice with step {step} of a tensor of shape {self.shape}")
    return _written("slice_scatter", self, along(wrap_dim(dim, self.ndim), slice(start, end, step)), src)


def _written(name: str, self: Array, key: tuple[Any, ...], src: Array) -> Array:
    """A copy in which the part at `key` is `src`."""
    result = self.copy()
    if result[key].shape != src.shape:
        raise RuntimeError(f"{name}: expected src of shape {result[key].shape}, but got {src.shape}")
    result[key] = src.astype(self.dtype, copy=False)
    return result


def _diagonal_scatter(self: Array, src: Array, offset: int, dim1: int, dim2: int) -> Array:
    result = self.copy()
    view = np.einsum("...ii->...i", _square(result, offset, wrap_dim(dim1, self.ndim), wrap_dim(dim2, self.ndim)))
    if view.shape != src.shape:
        raise RuntimeError(f"diagonal_scatter: expected src of shape {view.shape}, but got {src.shape}")
    view[...] = src.astype(self.dtype, copy=False)
    return result


def _square(array: Array, offset: int, dim1: int, dim2: int) -> Array:
    """The largest square block whose main diagonal is the diagonal at `offset`, its two dimensions last."""
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    moved = np.moveaxis(array, (dim1, dim2), (-2, -1))
    block = moved[..., max(-offset, 0) :, max(offset, 0) :]
    size = min(block.shape[-2:])
    return block[..., :size, :size]


# --- what is known of results ---


def _index_select_shape(a: Arguments) -> Shape:
    shape, index = a.shape("self"), a.shape("index")
    if len(index) > 1:
        raise RuntimeError(f"index_select: an index is a vector, but its shape is {list(index)}")
    axis = wrap_dim(a["dim"], len(shape))
    return shapes.with_sizes(shape, axis, *(index or (1,))) if shape else ()


def _index_shape(a: Arguments) -> Shape:
    """As NumPy: in the place of the dimensions indexed if those stand side by side, else in front."""
    shape, indices = a.shape("self"), a["indices"]
    if any(i is not None and i.dtype.name in ("bool", "uint8") for i in indices):
        shapes.undecided(a)
    if len(indices) > len(shape):
        raise IndexError(f"too many indices for a tensor of {len(shape)} dimensions")
    # Integers of no dimensions pick first, like numbers.
    whole = [*indices, *[None] * (len(shape) - len(indices))]
    apart = [axis for axis, i in enumerate(whole) if i is None or i.shape or not any(j and j.shape for j in whole)]
    shape, indices = tuple([shape[axis] for axis in apart]), [whole[axis] for axis in apart]
    taken = [axis for axis, i in enumerate(indices) if i is not None]
    if not taken:
        return shape
    found = shapes.broadcast(*(indices[axis].shape for axis in taken))
    left = [size for axis, size in enumerate(shape) if axis not in taken]
    place = taken[0] if taken[-1] - taken[0] + 1 == len(taken) else 0
    return (*left[:place], *found, *left[place:])


def _take_along_dim_shape(a: Arguments) -> Shape:
    shape, indices, dim = a.shape("self"), a.shape("indices"), a["dim"]
    if dim is None:
        return (prod(indices),)
    if not shape:
        return indices
    axis = wrap_dim(dim, len(shape))
    return shapes.with_sizes(
        shapes.broadcast(shapes.with_sizes(shape, axis, 1), shapes.with_sizes(indices, axis, 1)), axis, indices[axis]
    )


def _embedding_shape(a: Arguments) -> Shape:
    return (*a.shape("indices"), *a.shape("weight")[1:])


def _one_hot_shape(a: Arguments) -> Shape:
    """As many classes as the largest element asks for, unless they are counted."""
    classes = a["num_classes"]
    return (*a.shape("self"), classes) if classes >= 0 else shapes.undecided(a)


def _dtype_of_places(a: Arguments) -> DType:
    return INT32 if a["out_int32"] else INT64


_OUT = "*, bool out_int32=False, bool right=False"

declare(
    "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor",
    _index_select,
    traits=Trait.READS_BY_INDEX,
    result=rules.same(),
    shape=_index_select_shape,
)
declare(
    "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    _gather,
    traits=Trait.READS_BY_INDEX,
    result=lambda types: rules.like(0, rules.tensor_at(types, 2).rank)(types),
    shape=shapes.shape_of("index"),
)
# What the source calls a subscript: one int in a tensor selects a view, as in torch.
declare(
    "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    _index,
    traits=Trait.MAY_ALIAS | Trait.READS_BY_INDEX,
    result=rules.like(),
    shape=_index_shape,
)
declare(
    "aten::masked_select(Tensor self, Tensor mask) -> Tensor",
    _masked_select,
    result=rules.like(rank=1),
    shape=shapes.undecided,
)
declare(
    "aten::take(Tensor self, Tensor index) -> Tensor",
    _take,
    result=lambda types: rules.like(0, rules.tensor_at(types, 1).rank)(types),
    shape=shapes.shape_of("index"),
)
declare(
    "aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
    _take_along_dim,
    result=rules.like(),
    shape=_take_along_dim_shape,
)
declare(
    "aten::embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False,"
    " bool sparse=False) -> Tensor",
    _embedding,
    traits=Trait.READS_BY_INDEX,
    result=rules.like(),
    shape=_embedding_shape,
)
declare(
    "aten::nonzero(Tensor self) -> Tensor", _nonzero, traits=_N, result=rules.fixed(INT64, 2), shape=shapes.undecided
)
declare(
    "aten::argwhere(Tensor self) -> Tensor", _nonzero, traits=_N, result=rules.fixed(INT64, 2), shape=shapes.undecided
)
declare(
    "aten::where(Tensor condition) -> Tensor[]",
    _where,
    traits=_N,
    result=rules.list_of(rules.fixed(INT64, 1)),
    shape=shapes.undecided,
)
declare(
    "aten::one_hot(Tensor self, int num_classes=-1) -> Tensor",
    _one_hot,
    traits=_N | Trait.READS_BY_INDEX,
    result=rules.indices,
    shape=_one_hot_shape,
)
for _kind, _shape in (("Tensor", shapes.shape_of("self")), ("Scalar", shapes.number)):
    declare(
        f"aten::searchsorted.{_kind}(Tensor sorted_sequence, {_kind} self, {_OUT}, str? side=None,"
        " Tensor? sorter=None) -> Tensor",
        _searchsorted,
        traits=_N,
        shape=_shape,
        dtype=_dtype_of_places,
    )
    declare(
        f"aten::bucketize.{_kind}({_kind} self, Tensor boundaries, {_OUT}) -> Tensor",
        _bucketize,
        traits=_N,
        shape=_shape,
        dtype=_dtype_of_places,
    )
declare(
    "aten::select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
    _select_scatter,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)
declare(
    "aten::slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
    _slice_scatter,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)
declare(
    "aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    _diagonal_scatter,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)

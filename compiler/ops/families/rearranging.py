"""Ops that join, split, repeat and reorder the elements of dimensions.

Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate, pairwise
from math import prod
from typing import Any

from ...ops import fitting, rules, shapes
from ...types.dtypes import INT64, promote
from ...types.lazy_numpy import np
from ...types.types import ListType, TensorType, Type
from ..arguments import Arguments, Check, Shape, ShapeRule
from ..arrays import Array, cast, dtype_of
from ..dims import along, at_least_1d, wrap_dim, wrap_dims
from ..registry import Trait, declare

_V = Trait.VIEW
_APART = _V | Trait.ELEMENTS_APART


def _require_some(name: str, tensors: Sequence[Array]) -> None:
    if not tensors:
        raise RuntimeError(f"{name}: expected a non-empty list of tensors")


def _cat(tensors: Sequence[Array], dim: int) -> Array:
    """Concatenation. An empty 1-d tensor fits anything, as in torch."""
    _require_some("cat", tensors)
    if any(t.ndim == 0 for t in tensors):
        raise RuntimeError("zero-dimensional tensor cannot be concatenated; unsqueeze it or use stack")
    dtype = reduce(promote, map(dtype_of, tensors))
    kept = [t for t in tensors if t.shape != (0,)] or tensors
    axis = wrap_dim(dim, kept[0].ndim)
    try:
        return np.concatenate([cast(t, dtype) for t in kept], axis)
    except ValueError:
        shapes = ", ".join(str(t.shape) for t in tensors)
        raise RuntimeError(f"cat: sizes must match except in dimension {axis}, but the shapes are {shapes}") from None


def _stack(tensors: Sequence[Array], dim: int) -> Array:
    _require_some("stack", tensors)
    if any(t.shape != tensors[0].shape for t in tensors):
        shapes = ", ".join(str(t.shape) for t in tensors)
        raise RuntimeError(f"stack expects each tensor to be equal size, but got {shapes}")
    axis = wrap_dim(dim, tensors[0].ndim + 1)
    return _cat([np.expand_dims(t, axis) for t in tensors], axis)


def _hstack(tensors: Sequence[Array]) -> Array:
    _require_some("hstack", tensors)
    grown = [np.atleast_1d(t) for t in tensors]
    return _cat(grown, 0 if grown[0].ndim == 1 else 1)


def _vstack(tensors: Sequence[Array]) -> Array:
    return _cat([np.atleast_2d(t) for t in tensors], 0)


def _dstack(tensors: Sequence[Array]) -> Array:
    return _cat([np.atleast_3d(t) for t in tensors], 2)


def _column_stack(tensors: Sequence[Array]) -> Array:
    return _hstack([t.reshape(-1, 1) if t.ndim < 2 else t for t in tensors])


def _split_at(self: Array, bounds: Sequence[int], axis: int) -> list[Array]:
    """The pieces between consecutive bounds."""
    return [self[along(axis, slice(a, b))] for a, b in pairwise(bounds)]


def _axis(name: str, self: Array, dim: int) -> int:
    """The dimension to split; RuntimeError for a 0-d tensor."""
    if self.ndim == 0:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    return wrap_dim(dim, self.ndim)


def _split(self: Array, split_size: int, dim: int) -> list[Array]:
    axis = _axis("split", self, dim)
    size = self.shape[axis]
    if split_size < 0 or (split_size == 0 and size):
        raise RuntimeError(f"split: cannot split dimension {axis} of size {size} into pieces of size {split_size}")
    pieces = -(-size // split_size) if split_size else 1
    return _split_at(self, [*(i * split_size for i in range(max(pieces, 1))), size], axis)


def _split_sizes(self: Array, split_sizes: Sequence[int], dim: int) -> list[Array]:
    axis = _axis("split", self, dim)
    if sum(split_sizes) != self.shape[axis] or any(size < 0 for size in split_sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {self.shape[axis]} "
            f"(input tensor's size at dimension {axis}), but got split_sizes={list(split_sizes)}"
        )
    return _split_at(self, [0, *accumulate(split_sizes)], axis)


def _chunk(self: Array, chunks: int, dim: int) -> list[Array]:
    axis = _axis("chunk", self, dim)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = self.shape[axis]
    return _split(self, -(-size // chunks), axis) if size else [self] * chunks


def _tensor_split(self: Array, indices: Sequence[int], dim: int) -> list[Array]:
    axis = _axis("tensor_split", self, dim)
    return np.array_split(self, list(indices), axis)


def _tensor_split_sections(self: Array, sections: int, dim: int) -> list[Array]:
    axis = _axis("tensor_split", self, dim)
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    return np.array_split(self, sections, axis)


def _unbind(self: Array, dim: int) -> list[Array]:
    axis = _axis("unbind", self, dim)
    return [self[(*along(axis, i), ...)] for i in range(self.shape[axis])]


def _repeat(self: Array, repeats: Sequence[int]) -> Array:
    if len(repeats) < self.ndim or any(r < 0 for r in repeats):
        raise RuntimeError(f"repeat: {list(repeats)} does not say how often to repeat each dimension of {self.shape}")
    return np.tile(self, tuple(repeats))


def _tile(self: Array, dims: Sequence[int]) -> Array:
    return np.tile(self, tuple(dims))


def _repeat_interleave(self: Array, repeats: int | Array, dim: int | None, output_size: int | None) -> Array:
    del output_size  # It spares torch a look at the repeats.
    whole = self.reshape(-1) if dim is None else at_least_1d(self)
    axis = 0 if dim is None else wrap_dim(dim, self.ndim)
    if np.ndim(repeats) and np.shape(repeats) not in ((1,), (whole.shape[axis],)):
        raise RuntimeError(
            f"repeat_interleave: {np.shape(repeats)} repeats do not fit dimension {axis} of {whole.shape}"
        )
    return np.repeat(whole, repeats, axis)


def _repeat_indices(repeats: Array, output_size: int | None) -> Array:
    del output_size
    return np.repeat(np.arange(repeats.size), repeats)


def _roll(self: Array, shifts: Sequence[int] | int, dims: Sequence[int] | int) -> Array:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims and len(shifts) == 1:
        return np.roll(self, shifts[0])
    if len(shifts) != len(dims) or not shifts:
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims: {len(dims)}")
    if not self.ndim:
        raise IndexError(f"roll: dimensions {dims} of a tensor that has none")
    return np.roll(self, shifts, [wrap_dim(d, self.ndim) for d in dims])


def _flip(self: Array, dims: Sequence[int]) -> Array:
    axes = wrap_dims(dims, self.ndim)
    return (np.flip(self, axes) if self.ndim else self).copy()


def _fliplr(self: Array) -> Array:
    if self.ndim < 2:
        raise RuntimeError(f"Input must be >= 2-d, but the shape is {self.shape}")
    return np.fliplr(self).copy()


def _flipud(self: Array) -> Array:
    if self.ndim < 1:
        raise RuntimeError("Input must be >= 1-d")
    return np.flipud(self).copy()


def _rot90(self: Array, k: int, dims: Sequence[int]) -> Array:
    axes = wrap_dims(dims, self.ndim)
    if len(axes) != 2 or self.ndim < 2:
        raise RuntimeError(
            f"rot90: two dims of a tensor of rank 2 or more make a plane, not {list(dims)} of {self.shape}"
        )
    return np.rot90(self, k, axes).copy()


def _meshgrid(tensors: Sequence[Array], indexing: str = "ij") -> list[Array]:
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be "ij" or "xy", not {indexing!r}')
    _require_some("meshgrid", tensors)
    if any(t.ndim > 1 for t in tensors):
        raise RuntimeError("meshgrid: expected tensors of rank 0 or 1")
    if len({dtype_of(t) for t in tensors}) > 1:
        raise RuntimeError("meshgrid expects all tensors to have the same dtype; convert them: `x.float()`")
    return list(np.meshgrid(*tensors, indexing="ij" if indexing == "ij" else "xy", copy=False))


def _joined(offset: int = 0) -> rules.TypeRule:
    """The dtype and rank of the tensors of a list, one dimension more for `offset` = 1."""

    def rule(types: Sequence[Type]) -> Type:
        element = types[0].element if isinstance(types[0], ListType) else None
        if not isinstance(element, TensorType):
            return TensorType()
        return TensorType(element.dtype, element.rank + offset if offset and element.rank is not None else None)

    return rule


# --- what is known of results ---


def _joined_shape(parts: list[Shape], dim: int) -> Shape:
    """Along one dimension; empty vectors join anything."""
    if not parts:
        raise RuntimeError("expected a non-empty list of tensors")
    kept = [shape for shape in parts if shape != (0,)]
    if not kept:
        return (0,)
    axis = wrap_dim(dim, len(kept[0]))
    if any(shapes.with_sizes(shape, axis) != shapes.with_sizes(kept[0], axis) for shape in kept):
        raise RuntimeError(f"tensors of shapes {[list(s) for s in parts]} cannot be joined along dimension {dim}")
    return shapes.with_sizes(kept[0], axis, sum(shape[axis] for shape in kept))


def _shapes_of(a: Arguments, least: int = 0) -> list[Shape]:
    """Those of a list of tensors, with dimensions of size 1 in front up to a rank."""
    found = [tensor.shape for tensor in a["tensors"]]
    return [(1,) * (least - len(shape)) + shape for shape in found]


def _cat_shape(a: Arguments) -> Shape:
    return _joined_shape(_shapes_of(a), a["dim"])


def _stack_shape(a: Arguments) -> Shape:
    parts = _shapes_of(a)
    if not parts or any(shape != parts[0] for shape in parts):
        raise RuntimeError("stack expects each tensor to be equal size")
    axis = wrap_dim(a["dim"], len(parts[0]) + 1)
    return (*parts[0][:axis], len(parts), *parts[0][axis:])


def _hstack_shape(a: Arguments) -> Shape:
    parts = _shapes_of(a, 1)
    return _joined_shape(parts, 0 if len(parts[0]) == 1 else 1)


def _vstack_shape(a: Arguments) -> Shape:
    return _joined_shape(_shapes_of(a, 2), 0)


def _dstack_shape(a: Arguments) -> Shape:
    return _joined_shape([_padded(shape) for shape in _shapes_of(a)], 2)


def _padded(shape: Shape) -> Shape:
    """As atleast_3d: a vector becomes a row, a matrix gets a last dimension of size 1."""
    if len(shape) > 2:
        return shape
    return (*shape, 1) if len(shape) == 2 else (1, *(shape or (1,)), 1)


def _column_stack_shape(a: Arguments) -> Shape:
    return _joined_shape([shape if len(shape) > 1 else (prod(shape), 1) for shape in _shapes_of(a)], 1)


def _repeat_shape(a: Arguments) -> Shape:
    shape, times = a.shape("self"), tuple(a[a.schema.arguments[1].name])
    rank = max(len(shape), len(times))
    padded = [(1,) * (rank - len(sizes)) + sizes for sizes in (shape, times)]
    return tuple(size * count for size, count in zip(*padded, strict=True))


def _repeat_interleave_shape(a: Arguments) -> Shape:
    shape, dim = a.shape("self"), a["dim"]
    if dim is None:
        return (prod(shape) * a["repeats"],)
    axis, shape = wrap_dim(dim, len(shape)), shape or (1,)
    return shapes.with_sizes(shape, axis, shape[axis] * a["repeats"])


def _rot90_shape(a: Arguments) -> Shape:
    shape = a.shape("self")
    if a["k"] % 2 == 0:
        return shape
    first, second = wrap_dims(a["dims"], len(shape))
    return shapes.with_sizes(shapes.with_sizes(shape, first, shape[second]), second, shape[first])


def _has_dimensions_to_roll(a: Arguments) -> None:
    rank, dims = len(a.at(0)), a["dims"] or ()
    if dims and not rank:
        raise fitting.misfit(a, f"dimensions {list(dims)} of a tensor that has none")
    for dim in dims:
        wrap_dim(dim, rank)


_pieces = rules.list_of(rules.same())

_JOINS: tuple[tuple[str, Callable[..., Array], rules.TypeRule, ShapeRule], ...] = (
    ("aten::cat(Tensor[] tensors, int dim=0) -> Tensor", _cat, _joined(), _cat_shape),
    ("aten::concat(Tensor[] tensors, int dim=0) -> Tensor", _cat, _joined(), _cat_shape),
    ("aten::concatenate(Tensor[] tensors, int dim=0) -> Tensor", _cat, _joined(), _cat_shape),
    ("aten::stack(Tensor[] tensors, int dim=0) -> Tensor", _stack, _joined(1), _stack_shape),
    ("aten::hstack(Tensor[] tensors) -> Tensor", _hstack, _joined(), _hstack_shape),
    ("aten::vstack(Tensor[] tensors) -> Tensor", _vstack, _joined(), _vstack_shape),
    ("aten::dstack(Tensor[] tensors) -> Tensor", _dstack, _joined(), _dstack_shape),
    ("aten::column_stack(Tensor[] tensors) -> Tensor", _column_stack, _joined(), _column_stack_shape),
)

_SPLITS: tuple[tuple[str, Callable[..., list[Array]], rules.TypeRule], ...] = (
    ("aten::split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]", _split, _pieces),
    ("aten::split.sizes(Tensor self, int[] split_size, int dim=0) -> Tensor[]", _split_sizes, _pieces),
    ("aten::split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]", _split_sizes, _pieces),
    ("aten::chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", _chunk, _pieces),
    (
        "aten::tensor_split.sections(Tensor self, int sections, int dim=0) -> Tensor[]",
        _tensor_split_sections,
        _pieces,
    ),
    ("aten::tensor_split.indices(Tensor self, int[] indices, int dim=0) -> Tensor[]", _tensor_split, _pieces),
    ("aten::unbind.int(Tensor self, int dim=0) -> Tensor[]", _unbind, rules.list_of(rules.shifted(-1))),
)

_REARRANGEMENTS: tuple[tuple[str, Callable[..., Any], rules.TypeRule, ShapeRule, Check | None], ...] = (
    ("aten::repeat(Tensor self, int[] repeats) -> Tensor", _repeat, rules.like(), _repeat_shape, None),
    ("aten::tile(Tensor self, int[] dims) -> Tensor", _tile, rules.like(), _repeat_shape, None),
    (
        "aten::repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
        _repeat_interleave,
        rules.like(),
        _repeat_interleave_shape,
        None,
    ),
    (
        "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None)"
        " -> Tensor",
        _repeat_interleave,
        rules.like(),
        shapes.undecided,
        None,
    ),
    (
        "aten::roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor",
        _roll,
        rules.same(),
        shapes.shape_of("self"),
        _has_dimensions_to_roll,
    ),
    (
        "aten::flip(Tensor self, int[] dims) -> Tensor",
        _flip,
        rules.same(),
        shapes.shape_of("self"),
        fitting.has_dimensions,
    ),
    ("aten::fliplr(Tensor self) -> Tensor", _fliplr, rules.same(), shapes.shape_of("self"), fitting.is_matrix),
    ("aten::flipud(Tensor self) -> Tensor", _flipud, rules.same(), shapes.shape_of("self"), fitting.is_matrix),
    (
        "aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
        _rot90,
        rules.same(),
        _rot90_shape,
        fitting.has_dimensions,
    ),
)

for _schema, _join, _rule, _shape in _JOINS:
    declare(_schema, _join, result=_rule, shape=_shape)
for _schema, _divide, _rule in _SPLITS:
    declare(_schema, _divide, traits=_V, result=_rule)
for _schema, _rearrange, _rule, _shape, _fits in _REARRANGEMENTS:
    declare(_schema, _rearrange, result=_rule, shape=_shape, fits=_fits)
declare(
    "aten::repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor",
    _repeat_indices,
    traits=Trait.NONDIFFERENTIABLE,
    result=rules.fixed(INT64, 1),
    shape=shapes.undecided,
)
declare("aten::meshgrid(Tensor[] tensors) -> Tensor[]", _meshgrid, traits=_APART)
declare(
    "aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
    _meshgrid,
    traits=_APART,
)

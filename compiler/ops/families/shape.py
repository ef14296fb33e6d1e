"""Ops that regroup, reorder and broadcast dimensions. All are views wherever NumPy can make one.

Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...ops import rules, shapes
from ...types.dtypes import BY_CODE
from ...types.lazy_numpy import np
from ...types.types import TensorType, Type
from ..arguments import Arguments, Shape
from ..arrays import Array, cast, dtype_of, numpy_dtype, plain_floats, widen
from ..dims import along, at_least_1d, infer_size, wrap_dim, wrap_dims
from ..registry import Trait, declare
from ..rules import TypeRule, tensor_at

_V = Trait.VIEW
_APART = _V | Trait.ELEMENTS_APART


def _reshape(self: Array, shape: Sequence[int]) -> Array:
    return self.reshape(infer_size(shape, self.size))


def _reshape_as(self: Array, other: Array) -> Array:
    return _reshape(self, other.shape)


def _view_dtype(self: Array, dtype: int) -> Array:
    ratio = self.dtype.itemsize / BY_CODE[dtype].itemsize
    if ratio != 1 and (self.ndim == 0 or self.shape[-1] * ratio % 1):
        raise RuntimeError(f"view: the last dimension of shape {self.shape} cannot be seen as {BY_CODE[dtype]}")
    return np.ascontiguousarray(self).reshape(self.shape).view(numpy_dtype(dtype))


def _flatten(self: Array, start_dim: int, end_dim: int) -> Array:
    if self.ndim == 0:
        return self.reshape(1)
    start, end = wrap_dim(start_dim, self.ndim), wrap_dim(end_dim, self.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    return self.reshape(*self.shape[:start], prod(self.shape[start : end + 1]), *self.shape[end + 1 :])


def _unflatten(self: Array, dim: int, sizes: Sequence[int]) -> Array:
    axis = wrap_dim(dim, self.ndim)
    if self.ndim == 0 or not sizes:
        raise RuntimeError(f"unflatten: cannot split dimension {dim} of shape {self.shape} into {list(sizes)}")
    inner = infer_size(sizes, self.shape[axis])
    return self.reshape(*self.shape[:axis], *inner, *self.shape[axis + 1 :])


def _transpose(self: Array, dim0: int, dim1: int) -> Array:
    first, second = wrap_dim(dim0, self.ndim), wrap_dim(dim1, self.ndim)
    return self.swapaxes(first, second) if self.ndim else self


def _t(self: Array) -> Array:
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self.T


def _m_transpose(self: Array) -> Array:
    if self.ndim == 1:
        raise RuntimeError(f"mT expects a tensor with two dimensions or more, or none, but self has shape {self.shape}")
    return self.swapaxes(-1, -2) if self.ndim else self


def _permute(self: Array, dims: Sequence[int]) -> Array:
    if len(dims) != self.ndim:
        raise RuntimeError(f"permute: {len(dims)} dims {list(dims)} do not order the {self.ndim} of shape {self.shape}")
    return self.transpose(wrap_dims(dims, self.ndim))


def _movedim(self: Array, source: Sequence[int], destination: Sequence[int]) -> Array:
    if len(source) != len(destination):
        raise RuntimeError(f"movedim: {list(source)} and {list(destination)} differ in length")
    if self.ndim == 0:
        wrap_dims(source, 0)
        return self
    return np.moveaxis(self, wrap_dims(source, self.ndim), wrap_dims(destination, self.ndim))


def _movedim_int(self: Array, source: int, destination: int) -> Array:
    return _movedim(self, [source], [destination])


def _expand(self: Array, size: Sequence[int], implicit: bool = False) -> Array:
    del implicit
    if type(self) is np.ndarray and not self.ndim and self.dtype in plain_floats() and all(s >= 0 for s in size):
        # One number everywhere, as the gradient of a sum is: np.broadcast_to takes ten times as long for the same view.
        view: Array = np.ndarray(tuple(size), self.dtype, self, 0, (0,) * len(size))
        view.flags.writeable = False
        return view
    new = len(size) - self.ndim
    if new < 0 or any(s == -1 for s in size[:new]):
        raise RuntimeError(f"expand: the sizes {list(size)} do not fit a tensor of shape {self.shape}")
    sizes = [self.shape[i - new] if s == -1 else s for i, s in enumerate(size)]
    for have, want in zip(self.shape, sizes[new:], strict=True):
        if have not in (want, 1):
            raise RuntimeError(
                f"The expanded size of the tensor ({want}) must match the existing size ({have}): "
                f"target sizes {list(size)}, tensor sizes {list(self.shape)}"
            )
    return np.broadcast_to(self, sizes)


def _expand_as(self: Array, other: Array) -> Array:
    return _expand(self, other.shape)


def _expand_into(self: Array, other: Array) -> Array:
    """As a value is spread over the place that it is written to: without the leading dimensions of one that are more
    than that has."""
    more = max(self.ndim - other.ndim, 0)
    if more and all(size == 1 for size in self.shape[:more]):
        self = self[(0,) * more]
    return _expand(self, other.shape)


def _broadcast_to(self: Array, size: Sequence[int]) -> Array:
    return _expand(self, size)


def _broadcast_tensors(tensors: Sequence[Array]) -> list[Array]:
    try:
        shape = shapes.broadcast(*[t.shape for t in tensors])
    except RuntimeError:
        given = ", ".join(str(t.shape) for t in tensors)
        raise RuntimeError(f"broadcast_tensors: shapes {given} do not fit") from None
    return [np.broadcast_to(t, shape) for t in tensors]


def _squeeze(self: Array) -> Array:
    return self.squeeze()


def _squeeze_dims(self: Array, dim: Sequence[int] | int) -> Array:
    dims = wrap_dims([dim] if isinstance(dim, int) else dim, self.ndim)
    return self.squeeze(tuple(d for d in dims if d < self.ndim and self.shape[d] == 1))


def _unsqueeze(self: Array, dim: int) -> Array:
    return np.expand_dims(self, wrap_dim(dim, self.ndim + 1))


def _select(self: Array, dim: int, index: int) -> Array:
    if self.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis = wrap_dim(dim, self.ndim)
    size = self.shape[axis]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {axis}"
        )
    return self[(*along(axis, index), ...)]


def forward_slice(start: int | None, end: int | None, step: int) -> slice:
    """torch's slice, which only goes forwards."""
    if step <= 0:
        raise ValueError("slice step must be positive")
    return slice(start, end, step)


def _slice(self: Array, dim: int, start: int | None, end: int | None, step: int) -> Array:
    if self.ndim == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    return self[along(wrap_dim(dim, self.ndim), forward_slice(start, end, step))]


def narrow(self: Array, dim: int, start: int, length: int) -> Array:
    """`length` elements of a dimension from `start` on; RuntimeError where they are not all there."""
    if self.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    axis = wrap_dim(dim, self.ndim)
    size = self.shape[axis]
    start = start + size if start < 0 else start
    if length < 0 or not 0 <= start <= size - length:
        raise RuntimeError(f"narrow: start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return self[along(axis, slice(start, start + length))]


def _narrow_tensor(self: Array, dim: int, start: Array, length: int) -> Array:
    if np.ndim(start) or start.dtype.kind not in "iu":
        raise RuntimeError(f"narrow: the start is an integer without dimensions, not {start.dtype}{list(start.shape)}")
    return narrow(self, dim, int(start), length)


def _unfold(self: Array, dimension: int, size: int, step: int) -> Array:
    whole = at_least_1d(self)
    axis = wrap_dim(dimension, self.ndim)
    if size > whole.shape[axis] or size < 0 or step <= 0:
        raise RuntimeError(f"unfold: no windows of size {size}, step {step} in dimension {axis} of shape {self.shape}")
    if self.ndim == 0:
        return whole[:size]
    if size:
        windows = np.lib.stride_tricks.sliding_window_view(whole, size, axis)
    else:
        # Windows of no element stand before each element, and behind the last.
        count = [n + (i == axis) for i, n in enumerate(whole.shape)]
        windows = np.broadcast_to(whole.reshape(-1)[:0], [*count, 0])
    return windows[along(axis, slice(None, None, step))]


def _unfold_backward(grad_in: Array, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Array:
    """Adds every window up where it was taken from."""
    result = np.zeros(tuple(input_sizes) or (1,), widen(grad_in).dtype)
    axis = wrap_dim(dim, len(input_sizes))
    windows = widen(grad_in if input_sizes else grad_in[None])
    count = windows.shape[axis]
    for i in range(size if count else 0):
        result[along(axis, slice(i, i + step * (count - 1) + 1, step))] += windows[..., i]
    return cast(result.reshape(tuple(input_sizes)), dtype_of(grad_in))


def _clone(self: Array, memory_format: int | None = None) -> Array:
    """Memory of its own: a caller may write into the result or into the argument."""
    del memory_format
    return self.copy(order="K")


def _contiguous(self: Array, memory_format: int) -> Array:
    del memory_format
    return np.ascontiguousarray(self).reshape(self.shape)


def _ravel(self: Array) -> Array:
    return self.reshape(-1)


def _atleast(rank: int) -> Callable[[Array], Array]:
    return lambda self: (np.atleast_1d, np.atleast_2d, np.atleast_3d)[rank - 1](self)


def _each(evaluate: Callable[[Array], Array]) -> Callable[[Sequence[Array]], list[Array]]:
    return lambda tensors: [evaluate(t) for t in tensors]


def _ranked_as(index: int) -> TypeRule:
    """The dtype of the first argument with the rank of another."""
    return lambda types: TensorType(tensor_at(types, 0).dtype, tensor_at(types, index).rank)


def _ranked_at_least(rank: int) -> TypeRule:
    def rule(types: Sequence[Type]) -> Type:
        tensor = tensor_at(types, 0)
        return TensorType(tensor.dtype, None if tensor.rank is None else max(tensor.rank, rank))

    return rule


# --- what is known of results ---


def _select_shape(a: Arguments) -> Shape:
    """Which row it is has no say, as long as there is one."""
    shape, index = a.shape("self"), a.glimpse("index")
    if not shape:
        raise RuntimeError("select() cannot be applied to a 0-dim tensor.")
    axis = wrap_dim(a["dim"], len(shape))
    if isinstance(index, int) and not -shape[axis] <= index < shape[axis]:
        size = list(shape)
        raise RuntimeError(f"select(): index {index} out of range for tensor of size {size} at dimension {axis}")
    return shapes.with_sizes(shape, axis)


def _narrow_shape(a: Arguments) -> Shape:
    """The start is in a tensor; the length is not."""
    shape = a.shape("self")
    return shapes.with_sizes(shape, wrap_dim(a["dim"], len(shape)), a["length"])


def _view_dtype_shape(a: Arguments) -> Shape:
    tensor, size = a.tensor("self"), BY_CODE[a["dtype"]].itemsize
    if size == tensor.dtype.itemsize:
        return tensor.shape
    total = tensor.shape[-1] * tensor.dtype.itemsize
    if total % size:
        raise RuntimeError(f"view: {total} bytes in a row do not make elements of {size} bytes")
    return (*tensor.shape[:-1], total // size)


def _unfold_backward_shape(a: Arguments) -> Shape:
    return tuple(a["input_sizes"])


_VIEWS: tuple[tuple[str, Callable[..., Any], TypeRule], ...] = (
    ("aten::view(Tensor self, int[] size) -> Tensor", _reshape, rules.like()),
    ("aten::reshape(Tensor self, int[] shape) -> Tensor", _reshape, rules.like()),
    ("aten::view_as(Tensor self, Tensor other) -> Tensor", _reshape_as, _ranked_as(1)),
    ("aten::reshape_as(Tensor self, Tensor other) -> Tensor", _reshape_as, _ranked_as(1)),
    ("aten::flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor", _flatten, rules.like()),
    ("aten::unflatten.int(Tensor self, int dim, int[] sizes) -> Tensor", _unflatten, rules.like()),
    ("aten::ravel(Tensor self) -> Tensor", _ravel, rules.like(rank=1)),
    ("aten::transpose.int(Tensor self, int dim0, int dim1) -> Tensor", _transpose, rules.same()),
    ("aten::swapaxes(Tensor self, int axis0, int axis1) -> Tensor", _transpose, rules.same()),
    ("aten::swapdims(Tensor self, int dim0, int dim1) -> Tensor", _transpose, rules.same()),
    ("aten::t(Tensor self) -> Tensor", _t, rules.same()),
    ("aten::numpy_T(Tensor self) -> Tensor", lambda self: self.T, rules.same()),
    ("aten::mT(Tensor self) -> Tensor", _m_transpose, rules.same()),
    ("aten::adjoint(Tensor self) -> Tensor", _m_transpose, rules.same()),
    ("aten::permute(Tensor self, int[] dims) -> Tensor", _permute, rules.same()),
    ("aten::movedim.int(Tensor self, int source, int destination) -> Tensor", _movedim_int, rules.same()),
    ("aten::movedim.intlist(Tensor self, int[] source, int[] destination) -> Tensor", _movedim, rules.same()),
    ("aten::moveaxis.int(Tensor self, int source, int destination) -> Tensor", _movedim_int, rules.same()),
    ("aten::moveaxis.intlist(Tensor self, int[] source, int[] destination) -> Tensor", _movedim, rules.same()),
    ("aten::expand(Tensor self, int[] size, *, bool implicit=False) -> Tensor", _expand, rules.like()),
    ("aten::expand_as(Tensor self, Tensor other) -> Tensor", _expand_as, _ranked_as(1)),
    ("aten::_expand_into(Tensor self, Tensor other) -> Tensor", _expand_into, _ranked_as(1)),
    ("aten::broadcast_to(Tensor self, int[] size) -> Tensor", _broadcast_to, rules.like()),
    ("aten::squeeze(Tensor self) -> Tensor", _squeeze, rules.like()),
    ("aten::squeeze.dim(Tensor self, int dim) -> Tensor", _squeeze_dims, rules.like()),
    ("aten::squeeze.dims(Tensor self, int[] dim) -> Tensor", _squeeze_dims, rules.like()),
    ("aten::unsqueeze(Tensor self, int dim) -> Tensor", _unsqueeze, rules.shifted(1)),
    (
        "aten::slice.Tensor(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
        _slice,
        rules.same(),
    ),
    ("aten::narrow(Tensor self, int dim, int start, int length) -> Tensor", narrow, rules.same()),
    ("aten::unfold(Tensor self, int dimension, int size, int step) -> Tensor", _unfold, rules.like()),
    ("aten::atleast_1d(Tensor self) -> Tensor", _atleast(1), _ranked_at_least(1)),
    ("aten::atleast_2d(Tensor self) -> Tensor", _atleast(2), _ranked_at_least(2)),
    ("aten::atleast_3d(Tensor self) -> Tensor", _atleast(3), _ranked_at_least(3)),
)

for _schema, _evaluate, _rule in _VIEWS:
    declare(_schema, _evaluate, traits=_V, result=_rule)
declare(
    "aten::select.int(Tensor self, int dim, int index) -> Tensor",
    _select,
    traits=_V,
    result=rules.shifted(-1),
    shape=_select_shape,
)
declare(
    "aten::narrow.Tensor(Tensor self, int dim, Tensor start, int length) -> Tensor",
    _narrow_tensor,
    traits=_V,
    result=rules.same(),
    shape=_narrow_shape,
)
declare(
    "aten::contiguous(Tensor self, *, MemoryFormat memory_format=0) -> Tensor",
    _contiguous,
    traits=_V,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)
declare(
    "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    _clone,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)

declare(
    "aten::view.dtype(Tensor self, ScalarType dtype) -> Tensor",
    _view_dtype,
    traits=_V | Trait.NONDIFFERENTIABLE,
    result=rules.fixed(None),
    shape=_view_dtype_shape,
)
declare(
    "aten::unfold_backward(Tensor grad_in, int[] input_sizes, int dim, int size, int step) -> Tensor",
    _unfold_backward,
    result=rules.like(),
    shape=_unfold_backward_shape,
)
declare("aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]", _broadcast_tensors, traits=_APART)
for _rank in (1, 2, 3):
    declare(
        f"aten::atleast_{_rank}d.Sequence(Tensor[] tensors) -> Tensor[]",
        _each(_atleast(_rank)),
        traits=_APART,
    )

"""Order statistics: median, k-th value, mode, sorting and the largest few.

NaN counts as larger than any number, as in torch. Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ops import fitting, rules, shapes
from ....types.lazy_numpy import np
from ...arguments import Arguments, Shape
from ...arrays import Array, dtype_of, refuse_bools, widen
from ...dims import at_least_1d, wrap_dim
from ...registry import Trait, declare
from .reductions import pick
from .shapes import reduced

_R = Trait.REDUCTION
_FEW_OF = 16
"""Of so many numbers at least one is found without all being sorted."""
_PAIR = "-> (Tensor values, Tensor indices)"


def order_of(array: Array, axis: int, descending: bool = False) -> Array:
    """Indices that sort a dimension, equal elements in their order; NaN last, or first when descending."""
    wide = widen(array)
    if not descending:
        return np.argsort(wide, axis, kind="stable")
    backwards = np.argsort(np.flip(wide, axis), axis, kind="stable")
    return array.shape[axis] - 1 - np.flip(backwards, axis)


def _first_of_order(array: Array, axis: int, k: int, descending: bool) -> Array:
    """The first k of these indices: of a long row, sorted are those alone that it has up to its k-th number."""
    n = array.shape[axis]
    rows = np.moveaxis(widen(array), axis, -1)
    if not 0 < k <= n // _FEW_OF or (rows != rows).any():
        return np.take(order_of(array, axis, descending), np.arange(k), axis)
    place = n - k if descending else k - 1
    last = np.partition(rows, place, -1)[..., place, None]
    chosen, equal = rows > last if descending else rows < last, rows == last
    room = k - np.count_nonzero(chosen, -1, keepdims=True)
    if (np.count_nonzero(equal, -1, keepdims=True) > room).any():
        equal &= np.cumsum(equal, -1) <= room
    places = np.nonzero(chosen | equal)[-1].reshape(*rows.shape[:-1], k)
    order = order_of(np.take_along_axis(rows, places, -1), rows.ndim - 1, descending)
    return np.moveaxis(np.take_along_axis(places, order, -1), -1, axis)


def sort(self: Array, dim: int = -1, descending: bool = False) -> tuple[Array, Array]:
    """Sorted values and their indices. Always stable."""
    whole, axis = at_least_1d(self), wrap_dim(dim, self.ndim)
    index = order_of(whole, axis, descending)
    return np.take_along_axis(whole, index, axis).reshape(self.shape), index.reshape(self.shape)


def _sort_stable(self: Array, stable: bool | None, dim: int, descending: bool) -> tuple[Array, Array]:
    return sort(self, dim, descending)


def _argsort(self: Array, dim: int, descending: bool) -> Array:
    return sort(self, dim, descending)[1]


def _argsort_stable(self: Array, stable: bool, dim: int, descending: bool) -> Array:
    return sort(self, dim, descending)[1]


def _topk(self: Array, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    """The k largest or smallest in order, whether or not `sorted` asks for it."""
    whole, axis = at_least_1d(self), wrap_dim(dim, self.ndim)
    refuse_bools("topk", self)
    if not 0 <= k <= whole.shape[axis]:
        raise RuntimeError(f"selected index k out of range: k={k}, dimension {axis} of shape {self.shape}")
    index = _first_of_order(whole, axis, k, largest)
    values = np.take_along_axis(whole, index, axis)
    return (values, index) if self.ndim or k == 0 else (values.reshape(()), index.reshape(()))


def _require_elements(name: str, array: Array, axis: int) -> None:
    if array.shape[axis] == 0:
        raise IndexError(f"{name}(): dimension {axis} of shape {array.shape} has no elements")


def _kthvalue(self: Array, k: int, dim: int, keepdim: bool) -> tuple[Array, Array]:
    whole, axis = at_least_1d(self), wrap_dim(dim, self.ndim)
    if not 1 <= k <= whole.shape[axis]:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}: k={k}")
    index = np.take(_first_of_order(whole, axis, k, descending=False), [k - 1], axis)
    return pick(self, dim, index, keepdim)


def _median_index(whole: Array, axis: int, ignore_nan: bool) -> Array:
    """The place of the lower median; of the first NaN where there is one and it counts."""
    refuse_bools("median", whole)
    wide = widen(whole)
    is_nan = wide != wide
    order = order_of(whole, axis)
    numbers = np.count_nonzero(~is_nan, axis=axis, keepdims=True)
    if ignore_nan:
        return np.take_along_axis(order, np.maximum(numbers - 1, 0) // 2, axis)
    size = whole.shape[axis]
    middle = np.where(numbers == size, (size - 1) // 2, np.minimum(numbers, size - 1))
    return np.take_along_axis(order, middle, axis)


def _median_dim(name: str, ignore_nan: bool) -> Callable[[Array, int, bool], tuple[Array, Array]]:
    def evaluate(self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
        whole, axis = at_least_1d(self), wrap_dim(dim, self.ndim)
        _require_elements(name, whole, axis)
        return pick(self, dim, _median_index(whole, axis, ignore_nan), keepdim)

    return evaluate


def _median(ignore_nan: bool) -> Callable[[Array], Array]:
    def evaluate(self: Array) -> Array:
        flat = self.reshape(-1)
        if not flat.size:
            lowest = np.iinfo(self.dtype).min if dtype_of(self).category == 1 else np.nan
            # What torch's integers make of NaN.
            return np.full((), 0 if self.itemsize < 4 and lowest == lowest else lowest, self.dtype)
        return flat[_median_index(flat, 0, ignore_nan)].reshape(())

    return evaluate


def _mode(self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The most frequent value, the smallest of several; the index is its last one."""
    whole, axis = at_least_1d(self), wrap_dim(dim, self.ndim)
    _require_elements("mode", whole, axis)
    order = np.moveaxis(order_of(whole, axis), axis, -1)
    ranked = np.take_along_axis(np.moveaxis(widen(whole), axis, -1), order, -1)
    place = np.arange(ranked.shape[-1])
    fresh = np.concatenate([np.ones_like(ranked[..., :1], bool), ranked[..., 1:] != ranked[..., :-1]], -1)
    run = place - np.maximum.accumulate(np.where(fresh, place, 0), -1)
    last = np.argmax(run, -1)[..., None]
    return pick(self, dim, np.moveaxis(np.take_along_axis(order, last, -1), -1, axis), keepdim)


# --- what is known of results ---


def _topk_shape(a: Arguments) -> Shape:
    shape = a.shape("self")
    return shapes.with_sizes(shape, wrap_dim(a["dim"], len(shape)), a["k"]) if shape else ()


_values_and_indices = rules.results(rules.like(), rules.indices)
_sorted = rules.results(rules.same(), rules.indices)

declare(
    f"aten::sort(Tensor self, int dim=-1, bool descending=False) {_PAIR}",
    sort,
    result=_sorted,
    shape=shapes.shape_of("self"),
    fits=fitting.has_dimension,
)
declare(
    f"aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) {_PAIR}",
    _sort_stable,
    result=_sorted,
    shape=shapes.shape_of("self"),
    fits=fitting.has_dimension,
)
declare(
    "aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
    _argsort,
    traits=Trait.NONDIFFERENTIABLE,
    result=rules.indices,
    shape=shapes.shape_of("self"),
    fits=fitting.has_dimension,
)
declare(
    "aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
    _argsort_stable,
    traits=Trait.NONDIFFERENTIABLE,
    result=rules.indices,
    shape=shapes.shape_of("self"),
    fits=fitting.has_dimension,
)
declare(
    f"aten::topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) {_PAIR}",
    _topk,
    traits=Trait.LIBRARY,
    result=_sorted,
    shape=_topk_shape,
)
declare(
    f"aten::kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) {_PAIR}",
    _kthvalue,
    traits=_R,
    result=_values_and_indices,
    shape=reduced,
)
declare(
    f"aten::mode(Tensor self, int dim=-1, bool keepdim=False) {_PAIR}",
    _mode,
    traits=_R,
    result=_values_and_indices,
    shape=reduced,
)
for _name, _ignore_nan in (("median", False), ("nanmedian", True)):
    declare(
        f"aten::{_name}(Tensor self) -> Tensor",
        _median(_ignore_nan),
        traits=_R | Trait.LIBRARY,
        result=rules.like(rank=0),
        shape=reduced,
    )
    declare(
        f"aten::{_name}.dim(Tensor self, int dim, bool keepdim=False) {_PAIR}",
        _median_dim(_name, _ignore_nan),
        traits=_R | Trait.LIBRARY,
        result=_values_and_indices,
        shape=reduced,
    )

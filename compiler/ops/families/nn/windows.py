"""Padding, convolution and pooling: everything that slides a window over the last dimensions.

Windows are strided views; a convolution is one matrix product over them. Source: torch's documentation of each op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ....ops import rules
from ....types.dtypes import INT64, Number
from ....types.lazy_numpy import np
from ...arguments import Arguments
from ...arrays import Array, cast, dtype_of, element, refuse_bools, refuse_whole_numbers, widen
from ...libraries import library_product
from ...registry import Trait, declare
from ..reductions.reductions import require_float
from . import window_shapes
from .window_shapes import Extent, conv_padding, exactly, expanded, pair_widths, pooling

NUMPY_MODES: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad(self: Array, pad: Sequence[int], mode: str, value: float | None) -> Array:
    if len(pad) % 2 or len(pad) > 2 * self.ndim:
        raise RuntimeError(f"pad: {list(pad)} does not give two widths for each of the last dims of {self.shape}")
    if mode == "constant":
        return constant_pad(self, pad, 0 if value is None else value)
    if mode != "circular":
        refuse_bools(f"pad, mode {mode!r},", self)
    result = self
    for axis, places in _padded_axes(self.shape, pad, mode):
        result = np.take(result, places, axis)
    return result


def _padded_axes(shape: Sequence[int], pad: Sequence[int], mode: str) -> list[tuple[int, Array]]:
    """The dimensions that elements of a tensor itself pad, with which stands where; an error for what does not fit."""
    if mode not in NUMPY_MODES:
        raise NotImplementedError(f"pad: mode must be constant, reflect, replicate or circular, not {mode!r}")
    rank, ndim = len(pad) // 2, len(shape)
    if not rank or ndim not in (rank + 1, rank + 2):
        raise NotImplementedError(
            f"pad: mode {mode!r} takes no widths {list(pad)} for a tensor of shape {tuple(shape)}"
        )
    pairs = enumerate(pair_widths(pad), ndim - rank)
    return [(i, padded_places(shape[i], *widths, mode)) for i, widths in pairs if any(widths)]


def _fits_padding(a: Arguments) -> None:
    if a["mode"] != "constant" and not len(a["pad"]) % 2:
        _padded_axes(a.shape("self"), a["pad"], a["mode"])


def padded_places(size: int, before: int, after: int, mode: str) -> Array:
    """Which element of a dimension stands at each place of the padded one; RuntimeError for widths that do not fit.

    Negative widths crop: circular what is repeated too, the other modes only what is seen.
    """
    limits = {"reflect": size - 1, "circular": size + min(before, 0) + min(after, 0)}
    if max(before, after) > limits.get(mode, max(before, after)) or size + before + after < 1 or not size:
        raise RuntimeError(f"pad: widths {before} and {after} do not fit a dimension of size {size} ({mode})")
    grown, first, last = (max(before, 0), max(after, 0)), max(-before, 0), max(-after, 0)
    if mode == "circular":
        return np.pad(np.arange(first, size - last), grown, mode="wrap")
    return np.pad(np.arange(size), grown, mode=NUMPY_MODES[mode])[first : size + sum(grown) - last]


def constant_pad(self: Array, pad: Sequence[int], value: Number) -> Array:
    """Pads with a value; negative widths crop."""
    if len(pad) % 2:
        raise RuntimeError(f"pad: widths stand in pairs, but there are {len(pad)}: {list(pad)}")
    if not any(pad):
        return self.copy()
    widths = [(0, 0)] * (self.ndim - len(pad) // 2) + pair_widths(pad)
    for size, (before, after) in zip(self.shape, widths, strict=True):
        if size + before + after < 0:
            raise RuntimeError(
                f"pad: widths {before} and {after} leave less than nothing of a dimension of size {size}"
            )
    crop = tuple(slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in zip(self.shape, widths, strict=True))
    grown = [(max(a, 0), max(b, 0)) for a, b in widths]
    return np.pad(self[crop], grown, constant_values=element(value, dtype_of(self)))


def windows(array: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """A view of shape (..., *places, *kernel) of the last dimensions; RuntimeError where the kernel is too large."""
    rank = len(kernel)
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    spatial = array.shape[array.ndim - rank :]
    if any(span > size for span, size in zip(spans, spatial, strict=True)):
        raise RuntimeError(f"kernel size can't be greater than the (padded) input: {spans} and {list(spatial)}")
    if min(*stride, *dilation, 1) < 1:
        raise RuntimeError(f"stride and dilation must be positive, but are {list(stride)} and {list(dilation)}")
    axes = tuple(range(array.ndim - rank, array.ndim))
    view = np.lib.stride_tricks.sliding_window_view(array, spans, axes)
    steps: list[Any] = [..., *(slice(None, None, step) for step in (*stride, *dilation))]
    return np.asarray(view[tuple(steps)])


def convolution_of_rank(rank: int) -> Callable[..., Array]:
    """conv1d, conv2d or conv3d, with a batch dimension or without."""

    def evaluate(
        input: Array,
        weight: Array,
        bias: Array | None,
        stride: Extent,
        padding: Extent | str,
        dilation: Extent,
        groups: int,
    ) -> Array:
        if weight.ndim != rank + 2 or input.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(f"conv{rank}d: input of shape {input.shape} does not fit weight of shape {weight.shape}")
        if input.dtype != weight.dtype or (bias is not None and bias.dtype != input.dtype):
            dtypes = " and ".join(str(dtype_of(a)) for a in (input, weight, bias) if a is not None)
            raise RuntimeError(f"conv{rank}d: expected operands of one dtype, but got {dtypes}; convert with .to()")
        if input.size:
            refuse_bools(f"conv{rank}d", input)
        batch = input if input.ndim == rank + 2 else input[None]
        steps, spread = expanded(stride, rank), expanded(dilation, rank)
        padded = constant_pad(batch, conv_padding(padding, weight.shape[2:], steps, spread), 0)
        result = convolve(padded, weight, bias, steps, spread, groups)
        return result if input.ndim == rank + 2 else result[0]

    return evaluate


def convolve(
    input: Array, weight: Array, bias: Array | None, stride: Sequence[int], dilation: Sequence[int], groups: int
) -> Array:
    """Cross-correlation of a padded batch (N, C, *spatial) with (O, C / groups, *kernel), as one matrix product."""
    rank, (outputs, depth, *kernel) = weight.ndim - 2, weight.shape
    if input.shape[1] != depth * groups or groups < 1 or outputs % groups:
        raise RuntimeError(
            f"convolution: input {input.shape} and weight {weight.shape} do not fit with groups={groups}"
        )
    if bias is not None and bias.shape != (outputs,):
        raise RuntimeError(f"convolution: expected a bias of shape [{outputs}], but got {list(bias.shape)}")
    view = windows(widen(input), kernel, stride, dilation)
    places = view.shape[2 : 2 + rank]
    grouped = view.reshape(view.shape[0], groups, depth, *view.shape[2:]) if groups > 1 else view[:, None]
    order = (0, 1, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    columns = grouped.transpose(order).reshape(len(input), groups, prod(places), depth * prod(kernel))
    filters = widen(weight).reshape(groups, outputs // groups, depth * prod(kernel)).swapaxes(-1, -2)
    result = library_product(columns, filters).swapaxes(-1, -2).reshape(len(input), outputs, *places)
    if bias is not None:
        result = result + widen(bias).reshape(-1, *(1,) * rank)
    return cast(result, dtype_of(input))


def _avg_pool(rank: int) -> Callable[..., Array]:
    def evaluate(
        self: Array,
        kernel_size: Extent,
        stride: Extent,
        padding: Extent,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None = None,
    ) -> Array:
        refuse_whole_numbers(f"avg_pool{rank}d", self, but=[INT64])
        dtype = dtype_of(self)
        if divisor_override == 0:
            raise RuntimeError(f"avg_pool{rank}d: divisor_override must not be 0")
        kernel, steps, ones, pad, extra = pooling(self.shape, rank, kernel_size, stride, padding, 1, ceil_mode)
        axes = tuple(range(-rank, 0))
        padded = constant_pad(constant_pad(widen(self), pad, 0), extra, 0)
        totals = np.sum(windows(padded, kernel, steps, ones), axis=axes, dtype=np.float64)
        counts = averaged_counts(self.shape[self.ndim - rank :], kernel, steps, pad, extra, count_include_pad)
        means = totals / (counts if divisor_override is None else divisor_override)
        return cast(means if dtype.is_floating else np.trunc(means), dtype)

    return evaluate


def averaged_counts(
    spatial: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    extra: Sequence[int],
    count_include_pad: bool,
) -> Array:
    """How many elements each window averages; what ceil_mode adds never counts."""
    inside = constant_pad(constant_pad(np.ones(tuple(spatial)), pad, int(count_include_pad)), extra, 0)
    return np.asarray(np.sum(windows(inside, kernel, stride, [1] * len(kernel)), axis=tuple(range(-len(kernel), 0))))


def _max_pool_with_indices(rank: int) -> Callable[..., tuple[Array, Array]]:
    """The largest element of each window, and its place in the flattened plane."""

    def evaluate(
        self: Array,
        kernel_size: Extent,
        stride: Extent,
        padding: Extent,
        dilation: Extent,
        ceil_mode: bool,
    ) -> tuple[Array, Array]:
        kernel, steps, spread, pad, extra = pooling(self.shape, rank, kernel_size, stride, padding, dilation, ceil_mode)
        plane = self.shape[self.ndim - rank :]
        lowest = -np.inf if dtype_of(self).is_floating else np.iinfo(self.dtype).min
        padded = constant_pad(constant_pad(widen(self), pad, lowest), extra, lowest)
        numbers = constant_pad(constant_pad(np.arange(prod(plane)).reshape(plane), pad, -1), extra, -1)
        view, places = windows(padded, kernel, steps, spread), windows(numbers, kernel, steps, spread)
        count = prod(view.shape[view.ndim - rank :])
        flat = view.reshape(*view.shape[:-rank], count)
        at = places.reshape(*places.shape[:-rank], count)
        best = place_of_largest(flat, at >= 0)
        values = np.take_along_axis(flat, best, -1)[..., 0]
        index = np.take_along_axis(np.broadcast_to(at, flat.shape), best, -1)[..., 0]
        return cast(values, dtype_of(self)), np.ascontiguousarray(index)

    return evaluate


def place_of_largest(flat: Array, inside: Array) -> Array:
    """Where along the last dimension the largest element is: the first of several maxima, the last of several NaN.

    Only elements `inside` count, in a window of -inf too. The dimension is kept.
    """
    is_nan = flat != flat
    chosen = inside & ((flat == np.max(flat, -1, keepdims=True)) | is_nan)
    first = np.argmax(chosen, -1)[..., None]
    if not is_nan.any():
        return first
    last = flat.shape[-1] - 1 - np.argmax(chosen[..., ::-1], -1)[..., None]
    return np.where(np.take_along_axis(is_nan, first, -1), last, first)


def _max_pool(rank: int) -> Callable[..., Array]:
    def evaluate(self: Array, *sizes: Any) -> Array:
        if rank == 1:
            # In torch this one is no max_pool2d of rows.
            refuse_whole_numbers("max_pool1d", self)
        return _max_pool_with_indices(rank)(self, *sizes)[0]

    return evaluate


def adaptive_avg_pool(rank: int) -> Callable[[Array, Extent], Array]:
    def evaluate(self: Array, output_size: Extent) -> Array:
        dtype = require_float("adaptive_avg_pool", dtype_of(self))
        if self.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(f"adaptive_avg_pool{rank}d: expected {rank + 1} or {rank + 2} dims, got {self.shape}")
        result = self.astype(np.float64)
        for axis, size in zip(range(self.ndim - rank, self.ndim), exactly(output_size, rank), strict=True):
            result = _average_bins(result, axis, size)
        return cast(result, dtype)

    return evaluate


def _average_bins(array: Array, axis: int, bins: int) -> Array:
    """Means of `bins` stretches that cover a dimension; neighbours may share elements."""
    starts, ends = bin_bounds(array.shape[axis], bins)
    tail = np.zeros([1 if i == axis else size for i, size in enumerate(array.shape)], array.dtype)
    pairs = np.stack([starts, ends], 1).reshape(-1)
    totals = np.add.reduceat(np.concatenate([array, tail], axis), pairs, axis)
    lengths = (ends - starts).reshape([-1 if i == axis else 1 for i in range(array.ndim)])
    return np.asarray(np.take(totals, np.arange(0, 2 * bins, 2), axis) / lengths)


def bin_bounds(size: int, bins: int) -> tuple[Array, Array]:
    """Where each of `bins` stretches that cover a dimension begins and ends."""
    if bins < 0:
        raise RuntimeError(f"adaptive pooling: an output size must not be negative, but is {bins}")
    return np.arange(bins) * size // bins, -(-(np.arange(1, bins + 1) * size) // bins)


for _rank in (1, 2, 3):
    _ones, _zeros = [1] * _rank, [0] * _rank
    _conv = convolution_of_rank(_rank)
    for _overload, _padding in (("", f"int[{_rank}] padding={_zeros}"), (".padding", 'str padding="valid"')):
        declare(
            f"aten::conv{_rank}d{_overload}(Tensor input, Tensor weight, Tensor? bias=None,"
            f" int[{_rank}] stride={_ones}, {_padding}, int[{_rank}] dilation={_ones}, int groups=1) -> Tensor",
            _conv,
            traits=Trait.MATMUL | Trait.LIBRARY,
            result=rules.same(),
            shape=window_shapes.convolution,
            fits=window_shapes.bias_of_convolution,
        )

for _rank in (1, 2, 3):
    _n, _zeros, _ones = f"int[{_rank}]", [0] * _rank, [1] * _rank
    _sizes = f"Tensor self, {_n} kernel_size, {_n} stride=[], {_n} padding={_zeros}"
    _divisor = ", int? divisor_override=None" if _rank > 1 else ""
    declare(
        f"aten::avg_pool{_rank}d({_sizes}, bool ceil_mode=False, bool count_include_pad=True{_divisor}) -> Tensor",
        _avg_pool(_rank),
        traits=Trait.REDUCTION | Trait.LIBRARY,
        result=rules.same(),
        shape=window_shapes.pool,
    )
    declare(
        f"aten::max_pool{_rank}d({_sizes}, {_n} dilation={_ones}, bool ceil_mode=False) -> Tensor",
        _max_pool(_rank),
        traits=Trait.REDUCTION | Trait.LIBRARY,
        result=rules.same(),
        shape=window_shapes.pool,
    )
    declare(
        f"aten::max_pool{_rank}d_with_indices({_sizes}, {_n} dilation={_ones}, bool ceil_mode=False)"
        " -> (Tensor, Tensor)",
        _max_pool_with_indices(_rank),
        traits=Trait.REDUCTION | Trait.LIBRARY,
        result=rules.results(rules.same(), rules.indices),
        shape=window_shapes.pool,
    )
    declare(
        f"aten::adaptive_avg_pool{_rank}d(Tensor self, {_n} output_size) -> Tensor",
        adaptive_avg_pool(_rank),
        traits=Trait.REDUCTION | Trait.LIBRARY,
        result=rules.same(),
        shape=window_shapes.adaptive_pool,
    )

declare(
    'aten::pad(Tensor self, int[] pad, str mode="constant", float? value=None) -> Tensor',
    _pad,
    traits=Trait.LIBRARY,
    result=rules.same(),
    shape=window_shapes.pad,
    fits=_fits_padding,
)
declare(
    "aten::constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
    constant_pad,
    traits=Trait.LIBRARY,
    result=rules.same(),
    shape=window_shapes.pad,
)

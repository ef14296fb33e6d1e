"""Ops that change the size of planes: interpolation, adaptive maxima, and windows as columns.

Interpolation weighs a few elements (taps) along one dimension after the other; its adjoint adds up where they were
taken. Source: torch's documentation of each op; Keys 1981, "Cubic convolution interpolation", for bicubic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import floor, prod
from typing import Any

from ....ops import rules, shapes
from ....types.dtypes import BOOL, UINT8
from ....types.lazy_numpy import np
from ...arguments import Arguments, Shape
from ...arrays import Array, cast, dtype_of, refuse_whole_numbers, widen
from ...registry import Trait, declare
from ..indexing_scatter import sum_rows
from . import window_shapes
from .adjoints import adaptive_avg_pool_backward, add_windows
from .window_shapes import Extent, exactly
from .windows import adaptive_avg_pool, bin_bounds, constant_pad, place_of_largest, windows

Scales = Sequence[float] | float | None
Taps = tuple[Array, Array]
"""Indices and weights of shape (places, taps)."""


# --- interpolation ---


def _nearest(places: Array, scale: float, size: int) -> Taps:
    # torch computes this one in float32.
    index = np.minimum(np.floor(places.astype(np.float32) * np.float32(scale)).astype(np.int64), size - 1)
    return index[:, None], np.ones((len(places), 1))


def _nearest_exact(places: Array, scale: float, size: int) -> Taps:
    centers = (places.astype(np.float32) + np.float32(0.5)) * np.float32(scale)
    return np.minimum(np.floor(centers).astype(np.int64), size - 1)[:, None], np.ones((len(places), 1))


def _linear(source: Array, size: int) -> Taps:
    at = np.maximum(source, 0)
    low = np.minimum(np.floor(at).astype(np.int64), size - 1)
    part = np.minimum(np.maximum(at - low, 0), 1)
    return np.stack([low, np.minimum(low + 1, size - 1)], 1), np.stack([1 - part, part], 1)


def _cubic(source: Array, size: int) -> Taps:
    a = -0.75
    low = np.floor(source)
    part = source - low
    distance = np.stack([part + 1, part, 1 - part, 2 - part], 1)
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    index = np.clip(low.astype(np.int64)[:, None] + np.arange(-1, 3), 0, size - 1)
    return index, np.where(distance <= 1, near, far)


_BY_INDEX = {"nearest": _nearest, "nearest-exact": _nearest_exact}
_BY_POSITION = {"linear": (_linear, 1), "bilinear": (_linear, 2), "trilinear": (_linear, 3), "bicubic": (_cubic, 2)}
"""What weighs the elements around a position, and the number of dimensions that the mode is for."""


def resized(
    spatial: Sequence[int], size: Extent | None, scales: Scales, recompute: bool | None
) -> list[tuple[int, float]]:
    """For each dimension the new size, and the step in the source for one in the result."""
    rank = len(spatial)
    if (size is None) == (scales is None):
        raise ValueError("interpolate: only one of size or scale_factor should be defined")
    if size is not None:
        sizes = exactly(size, rank)
        if any(new < 0 for new in sizes):
            raise RuntimeError(f"interpolate: sizes must not be negative, but are {list(sizes)}")
        return [(new, old / new if new else 0.0) for old, new in zip(spatial, sizes, strict=True)]
    given = [float(scales)] * rank if isinstance(scales, int | float) else [float(s) for s in scales or ()]
    if len(given) != rank:
        raise RuntimeError(f"expected a factor for each of {rank} spatial dimensions, but got {given}")
    sizes = tuple(floor(old * factor) for old, factor in zip(spatial, given, strict=True))
    if recompute:
        return [(new, old / new if new else 0.0) for old, new in zip(spatial, sizes, strict=True)]
    return [(new, 1 / factor) for new, factor in zip(sizes, given, strict=True)]


def _taps(size: int, new: int, scale: float, mode: str, align_corners: bool | None, dtype: np.dtype[Any]) -> Taps:
    """Positions and weights in the dtype of the computation, as in torch."""
    places = np.arange(new)
    if mode in _BY_INDEX:
        return _BY_INDEX[mode](places, scale, size)
    if align_corners:
        source = places.astype(dtype) * dtype.type((size - 1) / (new - 1) if new > 1 else 0)
    else:
        source = (places.astype(dtype) + dtype.type(0.5)) * dtype.type(scale) - dtype.type(0.5)
    return _BY_POSITION[mode][0](source, size)


def _check_mode(rank: int, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not available")
    fits = mode in _BY_INDEX or mode == "area" or (mode in _BY_POSITION and _BY_POSITION[mode][1] == rank)
    if not fits:
        raise NotImplementedError(f"interpolate: mode {mode!r} does not take {rank + 2}-d input")
    if align_corners is not None and mode not in _BY_POSITION:
        raise ValueError("align_corners option can only be set with the interpolating modes")


def _interpolate(
    input: Array,
    size: Extent | None,
    scale_factor: Scales,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
) -> Array:
    rank = input.ndim - 2
    _check_mode(rank, mode, align_corners, antialias)
    target = resized(input.shape[2:], size, scale_factor, recompute_scale_factor)
    refuse_whole_numbers("interpolate", input, but=() if mode in _BY_POSITION else [UINT8])
    if mode == "area":
        return adaptive_avg_pool(rank)(input, [new for new, _ in target])
    if not all((*input.shape[2:], *(new for new, _ in target))):
        raise RuntimeError(f"interpolate: sizes of 0: of the input {input.shape}, of the result {target}")
    result = widen(input)
    for axis, (new, scale) in enumerate(target, 2):
        index, weights = _taps(input.shape[axis], new, scale, mode, align_corners, result.dtype)
        shape = (-1, *(1,) * (input.ndim - 1 - axis))
        columns = zip(index.T, weights.T.astype(result.dtype), strict=True)
        parts = [np.take(result, at, axis) * weight.reshape(shape) for at, weight in columns]
        result = reduce(np.add, parts)
    return cast(result, dtype_of(input))


def _interpolate_adjoint(
    grad_output: Array,
    input_size: Sequence[int],
    size: Extent | None,
    scale_factor: Scales,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
) -> Array:
    if mode == "area":
        return adaptive_avg_pool_backward(grad_output.ndim - 2, grad_output, input_size)
    result = widen(grad_output)
    target = resized(input_size[2:], size, scale_factor, recompute_scale_factor)
    for axis, (new, scale) in enumerate(target, 2):
        index, weights = _taps(input_size[axis], new, scale, mode, align_corners, result.dtype)
        rows = np.moveaxis(result, axis, 0)
        shape = (-1, *(1,) * (rows.ndim - 1))
        given = np.concatenate([rows * w.astype(rows.dtype).reshape(shape) for w in weights.T])
        result = np.moveaxis(sum_rows(given, index.T.reshape(-1), input_size[axis]), 0, axis)
    return cast(result, dtype_of(grad_output))


# --- adaptive maxima ---


def _adaptive_max_pool(rank: int) -> Callable[[Array, Extent], tuple[Array, Array]]:
    """The largest element of each bin, and its place in the flattened plane."""

    def evaluate(self: Array, output_size: Extent) -> tuple[Array, Array]:
        if self.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(f"adaptive_max_pool{rank}d: expected {rank + 1} or {rank + 2} dims, got {self.shape}")
        if 0 in self.shape[1:]:
            raise RuntimeError(f"adaptive_max_pool{rank}d: only the first size may be 0, and the shape is {self.shape}")
        refuse_whole_numbers(f"adaptive_max_pool{rank}d", self)
        plane = self.shape[self.ndim - rank :]
        bins = exactly(output_size, rank)
        at = np.zeros((1,) * (2 * rank), np.int64)
        inside = np.ones((1,) * (2 * rank), bool)
        for i, (size, count) in enumerate(zip(plane, bins, strict=True)):
            starts, ends = bin_bounds(size, count)
            longest = int(np.max(ends - starts, initial=0))
            places = starts[:, None] + np.arange(longest)
            shape = [places.shape[j // rank] if j % rank == i else 1 for j in range(2 * rank)]
            inside = inside & (places < ends[:, None]).reshape(shape)
            at = at * size + np.minimum(places, size - 1).reshape(shape)
        if not prod(bins):
            shape = [*self.shape[: self.ndim - rank], *bins]
            return np.zeros(shape, self.dtype), np.zeros(shape, np.int64)
        window = at.reshape(*bins, -1)
        values = widen(self).reshape(*self.shape[: self.ndim - rank], prod(plane))[..., window]
        lowest = -np.inf if dtype_of(self).is_floating else np.iinfo(self.dtype).min
        shown = np.where(inside.reshape(*bins, -1), values, np.asarray(lowest, values.dtype))
        best = place_of_largest(shown, inside.reshape(*bins, -1))
        index = np.take_along_axis(np.broadcast_to(window, shown.shape), best, -1)[..., 0]
        return cast(np.take_along_axis(shown, best, -1)[..., 0], dtype_of(self)), np.ascontiguousarray(index)

    return evaluate


# --- windows as columns ---


def _im2col(self: Array, kernel_size: Extent, dilation: Extent, padding: Extent, stride: Extent) -> Array:
    """(N, C, H, W) → (N, C * kernel, places)."""
    kernel, spread, pad, steps = (exactly(sizes, 2) for sizes in (kernel_size, dilation, padding, stride))
    if self.ndim not in (3, 4):
        raise RuntimeError(f"unfold: expected 3 or 4 dimensions, but the shape is {self.shape}")
    refuse_whole_numbers("unfold", self, but=[BOOL])
    _require_windows(kernel)
    batch = self if self.ndim == 4 else self[None]
    view = windows(constant_pad(batch, [pad[1], pad[1], pad[0], pad[0]], 0), kernel, steps, spread)
    places = prod(view.shape[2:4])
    columns = view.transpose(0, 1, 4, 5, 2, 3).reshape(len(batch), batch.shape[1] * prod(kernel), places)
    return columns if self.ndim == 4 else columns[0]


def _require_windows(kernel: Sequence[int]) -> None:
    if min(kernel) < 1:
        raise RuntimeError(f"unfold: a window has one element at least, but the kernel size is {list(kernel)}")


def _col2im(
    self: Array,
    output_size: Extent,
    kernel_size: Extent,
    dilation: Extent,
    padding: Extent,
    stride: Extent,
) -> Array:
    """(N, C * kernel, places) → (N, C, H, W), overlapping windows added up."""
    kernel, spread, pad, steps = (exactly(sizes, 2) for sizes in (kernel_size, dilation, padding, stride))
    spatial = exactly(output_size, 2)
    grown = [size + 2 * p for size, p in zip(spatial, pad, strict=True)]
    places = [(g - d * (k - 1) - 1) // s + 1 for g, d, k, s in zip(grown, spread, kernel, steps, strict=True)]
    if self.ndim not in (2, 3) or self.shape[-2] % prod(kernel) or self.shape[-1] != prod(places):
        raise RuntimeError(f"fold: columns of shape {self.shape} do not fit kernel {kernel} and {prod(places)} places")
    refuse_whole_numbers("fold", self, but=[BOOL])
    columns = widen(self).reshape(*self.shape[:-2], self.shape[-2] // prod(kernel), *kernel, *places)
    total = add_windows(lambda at: columns[..., *at, :, :], grown, kernel, steps, spread)  # type: ignore[arg-type]
    return cast(constant_pad(total, [-pad[1], -pad[1], -pad[0], -pad[0]], 0), dtype_of(self))


# --- what is known of results ---


def _interpolate_shape(a: Arguments) -> Shape:
    shape = a.shape("input")
    target = resized(shape[2:], a["size"], a["scale_factor"], a["recompute_scale_factor"])
    return (*shape[:2], *(new for new, _ in target))


def _im2col_shape(a: Arguments) -> Shape:
    """Windows as columns, each of as many rows as it has elements."""
    shape = a.shape("self")
    kernel, spread, pad, steps = (exactly(a[n], 2) for n in ("kernel_size", "dilation", "padding", "stride"))
    _require_windows(kernel)
    places = window_shapes.window_counts(shape[-2:], [(p, p) for p in pad], kernel, steps, spread)
    return (*shape[:-3], shape[-3] * prod(kernel), prod(places))


def _col2im_shape(a: Arguments) -> Shape:
    *batch, rows, _ = a.at(0)
    return (*batch, rows // prod(exactly(a["kernel_size"], 2)), *exactly(a["output_size"], 2))


_HOW = 'str mode="nearest", bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False'
for _overload, _size, _scale in (
    ("", "int[]? size=None", "float[]? scale_factor=None"),
    (".number", "int? size=None", "float? scale_factor=None"),
):
    declare(
        f"aten::interpolate{_overload}(Tensor input, {_size}, {_scale}, {_HOW}) -> Tensor",
        _interpolate,
        result=rules.same(),
        shape=_interpolate_shape,
    )
    declare(
        f"gs::interpolate_adjoint{_overload}(Tensor grad_output, int[] input_size, {_size.removesuffix('=None')},"
        f" {_scale.removesuffix('=None')}, str mode, bool? align_corners, bool? recompute_scale_factor) -> Tensor",
        _interpolate_adjoint,
        result=rules.same(),
        shape=shapes.sized("input_size"),
    )
for _rank in (1, 2, 3):
    declare(
        f"aten::adaptive_max_pool{_rank}d(Tensor self, int[{_rank}] output_size) -> (Tensor, Tensor)",
        _adaptive_max_pool(_rank),
        traits=Trait.REDUCTION | Trait.LIBRARY,
        result=rules.results(rules.same(), rules.indices),
        shape=window_shapes.adaptive_pool,
    )
declare(
    "aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
    _im2col,
    result=rules.like(),
    shape=_im2col_shape,
)
declare(
    "aten::col2im(Tensor self, int[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding,"
    " int[2] stride) -> Tensor",
    _col2im,
    result=rules.like(),
    shape=_col2im_shape,
)
declare(
    "aten::fold(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=[1, 1],"
    " int[2] padding=[0, 0], int[2] stride=[1, 1]) -> Tensor",
    _col2im,
    result=rules.like(),
    shape=_col2im_shape,
)

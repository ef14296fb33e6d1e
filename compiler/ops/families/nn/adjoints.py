"""The adjoints of padding, convolution and pooling, and transposed convolution, which is one of them.

Each maps a gradient of the result to one of an argument; all are linear, and the op itself is the adjoint of its
adjoint. What windows give back is added up one offset of the kernel at a time. Source: Dumoulin and Visin 2016,
"A guide to convolution arithmetic for deep learning", and torch's documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ....ops import rules, shapes
from ....types.dtypes import INT64
from ....types.lazy_numpy import np
from ...arrays import Array, cast, dtype_of, refuse_whole_numbers, widen
from ...libraries import library_product
from ...registry import Trait, declare
from ..indexing_scatter import sum_rows
from . import window_shapes
from .window_shapes import Extent, expanded, pair_widths, pooling
from .windows import averaged_counts, bin_bounds, constant_pad, convolution_of_rank, padded_places, windows


def _flat(padding: Sequence[int]) -> list[int]:
    """Equal widths on both sides, as `pad` takes them."""
    return [width for size in reversed(padding) for width in (size, size)]


def add_windows(
    part: Callable[[tuple[int, ...]], Array],
    spatial: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    """The adjoint of `windows`: adds up what each offset of the kernel gives back, an array (..., *places)."""
    total: Array | None = None
    for offset in np.ndindex(*kernel):
        given = part(offset)
        places = given.shape[given.ndim - len(kernel) :]
        if total is None:
            total = np.zeros((*given.shape[: given.ndim - len(kernel)], *spatial), given.dtype)
        where = (
            slice(o * d, o * d + s * (p - 1) + 1, s) if p else slice(0)
            for o, d, s, p in zip(offset, dilation, stride, places, strict=True)
        )
        total[(..., *where)] += given
    assert total is not None, "a kernel has at least one element"
    return total


# --- convolution ---


def _conv_input(
    input_size: Sequence[int],
    weight: Array,
    grad_output: Array,
    stride: Extent,
    padding: Extent,
    dilation: Extent,
    groups: int,
) -> Array:
    """The gradient of a convolution's input, batched or not."""
    rank = weight.ndim - 2
    kernel = weight.shape[2:]
    steps, pad, spread = (expanded(sizes, rank) for sizes in (stride, padding, dilation))
    batch = grad_output if grad_output.ndim == rank + 2 else grad_output[None]
    places, spatial = batch.shape[2:], tuple(input_size)[len(input_size) - rank :]
    filters = widen(weight).reshape(groups, weight.shape[0] // groups, -1).swapaxes(-1, -2)
    rows = widen(batch).reshape(len(batch), groups, weight.shape[0] // groups, prod(places))
    columns: Any = library_product(filters, rows).reshape(len(batch), groups * weight.shape[1], *kernel, *places)
    grown = [size + 2 * p for size, p in zip(spatial, pad, strict=True)]
    total = add_windows(lambda offset: columns[(slice(None), slice(None), *offset)], grown, kernel, steps, spread)
    found = cast(constant_pad(total, [-width for width in _flat(pad)], 0), dtype_of(grad_output))
    return found.reshape(tuple(input_size))


def _conv_weight(
    input: Array,
    weight_size: Sequence[int],
    grad_output: Array,
    stride: Extent,
    padding: Extent,
    dilation: Extent,
    groups: int,
) -> Array:
    """The gradient of a convolution's weight: one matrix product over all batches and places."""
    outputs, depth, *kernel = weight_size
    rank = len(kernel)
    steps, pad, spread = (expanded(sizes, rank) for sizes in (stride, padding, dilation))
    batch, grad = (x if x.ndim == rank + 2 else x[None] for x in (input, grad_output))
    places = grad.shape[2:]
    view = windows(constant_pad(widen(batch), _flat(pad), 0), kernel, steps, spread)
    inside: tuple[Any, ...] = (..., *(slice(p) for p in places), *(slice(None),) * rank)
    view = view[inside]
    grouped = view.reshape(len(batch), groups, depth, *view.shape[2:]) if groups > 1 else view[:, None]
    order = (1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    columns = grouped.transpose(order).reshape(groups, len(batch) * prod(places), depth * prod(kernel))
    rows = widen(grad).reshape(len(grad), groups, outputs // groups, prod(places)).transpose(1, 2, 0, 3)
    product = library_product(rows.reshape(groups, outputs // groups, -1), columns)
    return cast(product.reshape(tuple(weight_size)), dtype_of(grad_output))


def _conv_transposed(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Extent,
    padding: Extent,
    output_padding: Extent,
    groups: int,
    dilation: Extent,
) -> Array:
    """The adjoint of a convolution as an op of its own; weight is (C, O / groups, *kernel)."""
    rank = weight.ndim - 2
    if input.dtype != weight.dtype:
        dtypes = f"{dtype_of(input)} and {dtype_of(weight)}"
        raise RuntimeError(
            f"conv_transpose{rank}d: expected operands of one dtype, but got {dtypes}; convert with .to()"
        )
    if input.size:
        refuse_whole_numbers(f"conv_transpose{rank}d", input, but=[INT64])
    steps, pad, extra, spread = (expanded(sizes, rank) for sizes in (stride, padding, output_padding, dilation))
    if input.ndim not in (rank + 1, rank + 2) or input.shape[-rank - 1] != weight.shape[0] or weight.shape[0] % groups:
        raise RuntimeError(
            f"conv_transpose{rank}d: input {input.shape} and weight {weight.shape} do not fit with groups={groups}"
        )
    if any(e >= max(s, d) for e, s, d in zip(extra, steps, spread, strict=True)):
        raise RuntimeError("output padding must be smaller than either stride or dilation")
    spatial = [
        (size - 1) * s - 2 * p + d * (k - 1) + e + 1
        for size, s, p, d, k, e in zip(
            input.shape[input.ndim - rank :], steps, pad, spread, weight.shape[2:], extra, strict=True
        )
    ]
    if min(spatial) < 1:
        raise RuntimeError(f"conv_transpose{rank}d: the output would have the size {spatial}")
    size = [*input.shape[: input.ndim - rank - 1], weight.shape[1] * groups, *spatial]
    result = _conv_input(size, weight, widen(input), steps, pad, spread, groups)
    if bias is not None:
        result = result + widen(bias).reshape(-1, *(1,) * rank)
    return cast(result, dtype_of(input))


def _convolution(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Extent,
    padding: Extent,
    dilation: Extent,
    transposed: bool,
    output_padding: Extent,
    groups: int,
) -> Array:
    """Convolution of any rank, transposed or not."""
    if transposed:
        return _conv_transposed(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return convolution_of_rank(weight.ndim - 2)(input, weight, bias, stride, padding, dilation, groups)


# --- pooling and padding ---


def avg_pool_backward(
    rank: int,
    grad_output: Array,
    input_size: Sequence[int],
    kernel_size: Extent,
    stride: Extent,
    padding: Extent,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Array:
    """Each element's share in every window that it was averaged in, over the last `rank` dimensions."""
    shape = tuple(input_size)
    kernel, steps, ones, pad, extra = pooling(shape, rank, kernel_size, stride, padding, 1, ceil_mode)
    counts = averaged_counts(shape[len(shape) - rank :], kernel, steps, pad, extra, count_include_pad)
    share = widen(grad_output) / (counts if divisor_override is None else divisor_override)
    sides = zip(shape[len(shape) - rank :], pair_widths(pad), pair_widths(extra), strict=True)
    grown = [size + sum(widths) + sum(more) for size, widths, more in sides]
    total = add_windows(lambda offset: share, grown, kernel, steps, ones)
    cropped = constant_pad(constant_pad(total, [-w for w in extra], 0), [-w for w in pad], 0)
    return cast(cropped, dtype_of(grad_output))


def adaptive_avg_pool_backward(
    rank: int, grad_output: Array, input_size: Sequence[int], output_size: Extent | None = None
) -> Array:
    """Each element's share in the bins that cover it, one of the last `rank` dimensions after the other."""
    del output_size  # It is that of the gradient.
    result = grad_output.astype(np.float64)
    for axis in range(result.ndim - rank, result.ndim):
        size, bins = input_size[axis], result.shape[axis]
        starts, ends = bin_bounds(size, bins)
        inside = (np.arange(size) >= starts[:, None]) & (np.arange(size) < ends[:, None])
        shares = inside / (ends - starts)[:, None]
        result = np.moveaxis(np.tensordot(result, shares, (axis, 0)), -1, axis)
    return cast(result, dtype_of(grad_output))


def _of_rank(adjoint: Callable[..., Array], rank: int) -> Callable[..., Array]:
    def evaluate(*arguments: Any) -> Array:
        return adjoint(rank, *arguments)

    return evaluate


def _pad_backward(grad_output: Array, input_size: Sequence[int], pad: Sequence[int], mode: str) -> Array:
    """Crops; what padding repeated is added to where it came from."""
    if mode == "constant":
        return constant_pad(grad_output, [-width for width in pad], 0)
    result = widen(grad_output)
    first = result.ndim - len(pad) // 2
    for axis, (before, after) in enumerate(pair_widths(pad), first):
        if not (before or after):
            continue
        source = padded_places(input_size[axis], before, after, mode)
        rows = sum_rows(np.moveaxis(result, axis, 0), source, input_size[axis])
        result = np.moveaxis(rows, 0, axis)
    return cast(result, dtype_of(grad_output))


_HOW = "int[] stride, int[] padding, int[] dilation"

declare(
    f"gs::conv_input(int[] input_size, Tensor weight, Tensor grad_output, {_HOW}, int groups) -> Tensor",
    _conv_input,
    traits=Trait.MATMUL | Trait.LIBRARY,
    result=rules.same(2),
    shape=shapes.sized("input_size"),
)
declare(
    f"gs::conv_weight(Tensor input, int[] weight_size, Tensor grad_output, {_HOW}, int groups) -> Tensor",
    _conv_weight,
    traits=Trait.MATMUL | Trait.LIBRARY,
    result=rules.like(2),
    shape=shapes.sized("weight_size"),
)
declare(
    f"aten::convolution(Tensor input, Tensor weight, Tensor? bias, {_HOW}, bool transposed, int[] output_padding,"
    " int groups) -> Tensor",
    _convolution,
    traits=Trait.MATMUL | Trait.LIBRARY,
    result=rules.same(),
    shape=window_shapes.general_convolution,
)
for _rank in (1, 2, 3):
    _n, _ones, _zeros = f"int[{_rank}]", [1] * _rank, [0] * _rank
    declare(
        f"aten::conv_transpose{_rank}d{'' if _rank == 1 else '.input'}(Tensor input, Tensor weight,"
        f" Tensor? bias=None, {_n} stride={_ones}, {_n} padding={_zeros}, {_n} output_padding={_zeros},"
        f" int groups=1, {_n} dilation={_ones}) -> Tensor",
        _conv_transposed,
        traits=Trait.MATMUL | Trait.LIBRARY,
        result=rules.same(),
        shape=window_shapes.transposed_convolution,
    )
    _divisor = ", int? divisor_override" if _rank > 1 else ""
    declare(
        f"gs::avg_pool{_rank}d_adjoint(Tensor grad_output, int[] input_size, {_n} kernel_size, {_n} stride,"
        f" {_n} padding, bool ceil_mode, bool count_include_pad{_divisor}) -> Tensor",
        _of_rank(avg_pool_backward, _rank),
        traits=Trait.REDUCTION | Trait.LIBRARY,
        result=rules.same(),
        shape=shapes.sized("input_size"),
    )
    declare(
        f"gs::adaptive_avg_pool{_rank}d_adjoint(Tensor grad_output, int[] input_size, {_n} output_size) -> Tensor",
        _of_rank(adaptive_avg_pool_backward, _rank),
        traits=Trait.REDUCTION | Trait.LIBRARY,
        result=rules.same(),
        shape=shapes.sized("input_size"),
    )

declare(
    "gs::pad_adjoint(Tensor grad_output, int[] input_size, int[] pad, str mode) -> Tensor",
    _pad_backward,
    traits=Trait.LIBRARY,
    result=rules.same(),
    shape=shapes.sized("input_size"),
)

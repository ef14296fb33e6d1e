"""Shapes of convolutions, pooling, padding and resizing, and of their adjoints."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..ops.families.nn.resize import resized
from ..ops.families.nn.windows import conv_padding, expanded, pair_widths, pooling
from .rules import Arguments, Shape, Shapes, same, shape_of, sized


def _places(
    spatial: Sequence[int],
    widths: Sequence[tuple[int, int]],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Shape:
    """How many windows there are along each dimension."""
    grown = [size + before + after for size, (before, after) in zip(spatial, widths, strict=True)]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if any(span > size for span, size in zip(spans, grown, strict=True)):
        raise RuntimeError(f"kernel size can't be greater than the (padded) input: {spans} and {grown}")
    if min(*stride, *dilation, 1) < 1:
        raise RuntimeError(f"stride and dilation must be positive, but are {list(stride)} and {list(dilation)}")
    return tuple((size - span) // step + 1 for size, span, step in zip(grown, spans, stride, strict=True))


@shape_of("conv1d", "conv2d", "conv3d")
def convolution(a: Arguments) -> Shape:
    return _convolved(a.shape("input"), a.shape("weight"), a["stride"], a["padding"], a["dilation"], a["groups"])


def _convolved(
    input: Shape,
    weight: Shape,
    stride: Sequence[int],
    padding: Sequence[int] | str,
    dilation: Sequence[int],
    groups: int,
) -> Shape:
    rank = len(weight) - 2
    if len(input) not in (rank + 1, rank + 2) or input[-rank - 1] != weight[1] * groups:
        raise RuntimeError(f"input {list(input)} and weight {list(weight)} do not fit with groups={groups}")
    steps, spread = expanded(stride, rank), expanded(dilation, rank)
    widths = pair_widths(conv_padding(padding, weight[2:], steps, spread))
    return (*input[: -rank - 1], weight[0], *_places(input[-rank:], widths, weight[2:], steps, spread))


def _transposed(
    input: Shape,
    weight: Shape,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Shape:
    rank = len(weight) - 2
    each = [expanded(sizes, rank) for sizes in (stride, padding, output_padding, dilation)]
    spatial = [
        (size - 1) * s - 2 * p + d * (k - 1) + o + 1
        for size, k, s, p, o, d in zip(input[-rank:], weight[2:], *each, strict=True)
    ]
    return (*input[: -rank - 1], weight[1] * groups, *spatial)


@shape_of("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed_convolution(a: Arguments) -> Shape:
    sizes = (a["stride"], a["padding"], a["output_padding"], a["dilation"])
    return _transposed(a.shape("input"), a.shape("weight"), *sizes, a["groups"])


@shape_of("convolution")
def general_convolution(a: Arguments) -> Shape:
    if a["transposed"]:
        return transposed_convolution(a)
    return convolution(a)


@shape_of("avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d")
def pool(a: Arguments) -> Shape:
    shape, rank = a.shape("self"), _rank_of(a)
    sizes = (a["kernel_size"], a["stride"], a["padding"], a.get("dilation", 1))
    kernel, steps, spread, pad, extra = pooling(shape, rank, *sizes, a["ceil_mode"])
    pairs = zip(pair_widths(pad), pair_widths(extra), strict=True)
    widths = [(before + more, after + last) for (before, after), (more, last) in pairs]
    return (*shape[:-rank], *_places(shape[-rank:], widths, kernel, steps, spread))


shape_of(*(f"max_pool{rank}d_with_indices" for rank in (1, 2, 3)))(pool)


def _rank_of(a: Arguments) -> int:
    """The number in `avg_pool2d`."""
    return int(next(c for c in a.op.schema.base_name if c.isdigit()))


@shape_of(*(f"adaptive_{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (1, 2, 3)))
def adaptive_pool(a: Arguments) -> Shape:
    rank = _rank_of(a)
    return (*a.shape("self")[:-rank], *expanded(a["output_size"], rank))


@shape_of("pad", "constant_pad_nd")
def pad(a: Arguments) -> Shape:
    shape, widths = a.shape("self"), a["pad"]
    if len(widths) % 2 or len(widths) > 2 * len(shape):
        raise RuntimeError(f"pad: {list(widths)} does not give two widths for each of the last dims of {list(shape)}")
    pairs = [(0, 0)] * (len(shape) - len(widths) // 2) + pair_widths(widths)
    result = tuple(size + before + after for size, (before, after) in zip(shape, pairs, strict=True))
    if min(result, default=0) < 0:
        raise RuntimeError(f"pad: widths {list(widths)} leave less than nothing of shape {list(shape)}")
    return result


@shape_of("interpolate")
def interpolate(a: Arguments) -> Shape:
    shape = a.shape("input")
    target = resized(shape[2:], a["size"], a["scale_factor"], a["recompute_scale_factor"])
    return (*shape[:2], *(new for new, _ in target))


@shape_of("im2col")
def im2col(a: Arguments) -> Shape:
    """Windows as columns, each of as many rows as it has elements."""
    shape = a.shape("self")
    kernel, spread, pad, steps = (expanded(a[n], 2) for n in ("kernel_size", "dilation", "padding", "stride"))
    places = _places(shape[-2:], [(p, p) for p in pad], kernel, steps, spread)
    return (*shape[:-3], shape[-3] * prod(kernel), prod(places))


@shape_of("col2im", "fold")
def col2im(a: Arguments) -> Shape:
    *batch, rows, _ = a.at(0)
    return (*batch, rows // prod(expanded(a["kernel_size"], 2)), *expanded(a["output_size"], 2))


# --- adjoints: what they are of says the shape ---

shape_of("conv_input", "pad_adjoint", "interpolate_adjoint")(sized("input_size"))
shape_of(*(f"{kind}_pool{rank}d_adjoint" for kind in ("avg", "adaptive_avg") for rank in (1, 2, 3)))(
    sized("input_size")
)
shape_of("conv_weight")(sized("weight_size"))
shape_of("max_pool2d_with_indices_backward", "avg_pool2d_backward")(same("self"))
shape_of("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")(same("self"))


@shape_of("_batch_norm_impl_index")
def batch_norm(a: Arguments) -> Shapes:
    """The result, statistics of the batch while training, a reserve; the last result is no tensor."""
    shape = a.shape("input")
    saved = shape[1:2] if a["training"] else (0,)
    return [shape, saved, saved, (0,), None]

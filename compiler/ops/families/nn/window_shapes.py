"""How many windows there are: the shapes of padding, convolutions and pooling, by the sizes they are given."""

from __future__ import annotations

from collections.abc import Sequence

from ....ops import fitting
from ...arguments import Arguments, Shape

Extent = Sequence[int] | int


def pair_widths(pad: Sequence[int]) -> list[tuple[int, int]]:
    """torch's flat list, last dimension first, as NumPy's pairs."""
    return [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]


def expanded(sizes: Extent, rank: int) -> tuple[int, ...]:
    """One int for each spatial dimension; a single one stands for all."""
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if len(given) not in (1, rank):
        raise RuntimeError(f"expected one number or {rank}, one for each spatial dimension, but got {list(given)}")
    return given * rank if len(given) == 1 else given


def exactly(sizes: Extent, rank: int) -> tuple[int, ...]:
    """One int for each spatial dimension, of which one in a list does not stand for all."""
    if not isinstance(sizes, int) and len(sizes) != rank:
        raise RuntimeError(f"expected {rank} numbers, one for each spatial dimension, but got {list(sizes)}")
    return expanded(sizes, rank)


def conv_padding(
    padding: Extent | str, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """The widths as `pad` takes them."""
    if padding == "valid":
        return [0] * (2 * len(kernel))
    if padding == "same":
        if any(s != 1 for s in stride):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return [width for total in reversed(totals) for width in (total // 2, total - total // 2)]
    if isinstance(padding, str):
        raise RuntimeError(f'padding must be "valid", "same" or integers, not {padding!r}')
    widths = expanded(padding, len(kernel))
    if min(widths, default=0) < 0:
        raise RuntimeError(f"negative padding is not supported: {list(widths)}")
    return [width for size in reversed(widths) for width in (size, size)]


def pooling(
    shape: Sequence[int],
    rank: int,
    kernel_size: Extent,
    stride: Extent,
    padding: Extent,
    dilation: Extent,
    ceil_mode: bool,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], list[int], list[int]]:
    """Kernel, stride and dilation for each dimension, the padding as `pad` takes it, and what ceil_mode adds to it."""
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(f"pooling: expected {rank + 1} or {rank + 2} dimensions, but the shape is {tuple(shape)}")
    if 0 in shape[len(shape) - rank - 1 :]:
        raise RuntimeError(f"pooling: no size but that of the batch may be 0, and the shape is {tuple(shape)}")
    kernel, spread, pad = (expanded(sizes, rank) for sizes in (kernel_size, dilation, padding))
    steps = expanded(stride, rank) if isinstance(stride, int) or stride else kernel
    if any(p < 0 for p in pad):
        raise RuntimeError(f"pad must not be negative, but is {list(pad)}")
    if any(2 * p > k for p, k in zip(pad, kernel, strict=True)):
        raise RuntimeError(
            f"pad should be at most half of effective kernel size, but got {list(pad)} and {list(kernel)}"
        )
    extra = [0] * rank
    for i, size in enumerate(shape[len(shape) - rank :]):
        free = size + 2 * pad[i] - spread[i] * (kernel[i] - 1) - 1
        last = -(-free // steps[i]) * steps[i]
        if ceil_mode and last < size + pad[i]:
            extra[i] = max(last - free, 0)
    flat = [width for size in reversed(pad) for width in (size, size)]
    return kernel, steps, spread, flat, [width for size in reversed(extra) for width in (0, size)]


def window_counts(
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
    return (*input[: -rank - 1], weight[0], *window_counts(input[-rank:], widths, weight[2:], steps, spread))


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


def transposed_convolution(a: Arguments) -> Shape:
    sizes = (a["stride"], a["padding"], a["output_padding"], a["dilation"])
    return _transposed(a.shape("input"), a.shape("weight"), *sizes, a["groups"])


def general_convolution(a: Arguments) -> Shape:
    if a["transposed"]:
        return transposed_convolution(a)
    return convolution(a)


def pool(a: Arguments) -> Shape:
    shape, rank = a.shape("self"), _rank_of(a)
    sizes = (a["kernel_size"], a["stride"], a["padding"], a.get("dilation", 1))
    kernel, steps, spread, pad, extra = pooling(shape, rank, *sizes, a["ceil_mode"])
    pairs = zip(pair_widths(pad), pair_widths(extra), strict=True)
    widths = [(before + more, after + last) for (before, after), (more, last) in pairs]
    return (*shape[:-rank], *window_counts(shape[-rank:], widths, kernel, steps, spread))


def _rank_of(a: Arguments) -> int:
    """The number in `avg_pool2d`."""
    return int(next(c for c in a.schema.base_name if c.isdigit()))


def adaptive_pool(a: Arguments) -> Shape:
    rank = _rank_of(a)
    return (*a.shape("self")[:-rank], *exactly(a["output_size"], rank))


def pad(a: Arguments) -> Shape:
    shape, widths = a.shape("self"), a["pad"]
    if len(widths) % 2 or len(widths) > 2 * len(shape):
        raise RuntimeError(f"pad: {list(widths)} does not give two widths for each of the last dims of {list(shape)}")
    pairs = [(0, 0)] * (len(shape) - len(widths) // 2) + pair_widths(widths)
    result = tuple(size + before + after for size, (before, after) in zip(shape, pairs, strict=True))
    if min(result, default=0) < 0:
        raise RuntimeError(f"pad: widths {list(widths)} leave less than nothing of shape {list(shape)}")
    return result


def bias_of_convolution(a: Arguments) -> None:
    weight = a.shape("weight")
    if weight[0] % a["groups"]:
        raise fitting.misfit(a, f"{weight[0]} outputs do not divide into {a['groups']} groups")
    for bias in fitting.shapes_given(a, "bias"):
        if bias != weight[:1]:
            raise fitting.misfit(a, f"expected a bias for each of {weight[0]} outputs, but got shape {list(bias)}")

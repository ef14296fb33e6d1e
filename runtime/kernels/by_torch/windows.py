"""Gradients of convolutions and average pools by torch's own ops for them, on a CPU and on devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ....compiler.ops.families.nn.window_shapes import expanded

_Sizes = Sequence[int]


def conv_input(input_size: _Sizes, weight: torch.Tensor, grad_output: torch.Tensor, *how: Any) -> torch.Tensor:
    """The gradient of a convolution by its input, of this size, with or without a batch."""
    batch = grad_output if grad_output.dim() == weight.dim() else grad_output[None]
    size = input_size if len(input_size) == weight.dim() else [1, *input_size]
    return _convolution_backward(batch, _unread(batch, size), weight, how, 0).reshape(tuple(input_size))


def conv_weight(input: torch.Tensor, weight_size: _Sizes, grad_output: torch.Tensor, *how: Any) -> torch.Tensor:
    """The gradient of a convolution by its weight, of this size."""
    batch, grad = (x if x.dim() == len(weight_size) else x[None] for x in (input, grad_output))
    return _convolution_backward(grad, batch, _unread(grad, weight_size), how, 1)


def _convolution_backward(
    grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, how: Sequence[Any], wanted: int
) -> torch.Tensor:
    rank, (*sizes, groups) = weight.dim() - 2, how
    stride, padding, dilation = (expanded(given, rank) for given in sizes)
    mask = [wanted == 0, wanted == 1, False]
    found: torch.Tensor = torch.ops.aten.convolution_backward.default(
        grad_output, input, weight, None, stride, padding, dilation, False, [0] * rank, groups, mask
    )[wanted]
    return found


def _unread(like: torch.Tensor, size: _Sizes) -> torch.Tensor:
    """A tensor of whose elements nothing depends: without memory for each, but on a CPU, where torch has a slower way
    for expanded ones, and memory that nobody touches costs nothing."""
    return like.new_empty(tuple(size)) if like.device.type == "cpu" else like.new_empty(()).expand(tuple(size))


def avg_pool_adjoint(rank: int) -> Callable[..., torch.Tensor]:
    """The gradient of average pooling, by torch's op for a plane or a space; a line is a plane of one row.

    Under `vmap`, where torch has no rule for these ops, their results would have no gradient: there autograd is asked.
    """
    backward = torch.ops.aten.avg_pool3d_backward.default if rank == 3 else torch.ops.aten.avg_pool2d_backward.default

    def run(
        grad: torch.Tensor,
        size: _Sizes,
        kernel: _Sizes,
        stride: _Sizes,
        padding: _Sizes,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None = None,
    ) -> torch.Tensor:
        windows, steps, pads = (expanded(given, rank) if given else () for given in (kernel, stride, padding))
        steps = steps or windows
        if rank == 1:
            grad, size = grad.unsqueeze(-2), [*size[:-1], 1, size[-1]]
            windows, steps, pads = (1, *windows), (1, *steps), (0, *pads)
        found: torch.Tensor = backward(
            grad, _unread(grad, size), windows, steps, pads, ceil_mode, count_include_pad, divisor
        )
        return found.squeeze(-2) if rank == 1 else found

    return run

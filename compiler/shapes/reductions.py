"""Shapes of reductions, scans, orders, losses and normalizations."""

from __future__ import annotations

from ..ops.dims import axes_of, wrap_dim
from .rules import Arguments, Shape, Shapes, all_broadcast, broadcast, replaced, same, shape_of


@shape_of(
    *("sum", "mean", "prod", "nansum", "nanmean", "logsumexp", "amax", "amin", "max", "min", "aminmax"),
    *("argmax", "argmin", "var", "std", "var_mean", "std_mean", "all", "any", "count_nonzero", "median", "nanmedian"),
    *("norm", "linalg_vector_norm", "kthvalue", "mode"),
)
def reduced(a: Arguments) -> Shape:
    """Over `dim`, by default all; `keepdim` keeps what is reduced as 1."""
    shape = a.shape("self")
    axes = axes_of(a.get("dim"), len(shape))
    if a.get("keepdim", False):
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


shape_of("max.other", "min.other")(all_broadcast)


@shape_of("trace", "dist")
def number(a: Arguments) -> Shape:
    """One number."""
    return ()


shape_of(
    *("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "sort", "argsort", "prelu"),
    *("softmax", "_softmax", "log_softmax", "_log_softmax"),
)(same("self"))
shape_of("_softmax_backward_data", "_log_softmax_backward_data")(same("grad_output"))


@shape_of("topk")
def topk(a: Arguments) -> Shape:
    shape = a.shape("self")
    return replaced(shape, wrap_dim(a["dim"], len(shape)), a["k"]) if shape else ()


@shape_of("sum_to_size", "_grad_sum_to_size")
def sum_to_size(a: Arguments) -> Shape:
    shape, size = a.shape("self"), a["size"]
    if size is None:
        return shape
    if broadcast(size, shape) != shape:
        raise RuntimeError(f"size {list(size)} is not expandable to the shape {list(shape)} of the tensor")
    return tuple(size)


# --- losses ---


def is_reduced(a: Arguments) -> bool:
    """Whether a loss is one number; the codes of reductions are torch's."""
    return a["reduction"] not in (0, "none")


@shape_of(
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "kl_div"),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits"),
)
def elementwise_loss(a: Arguments) -> Shape:
    shape = all_broadcast(a)
    return () if is_reduced(a) else shape


@shape_of("nll_loss", "nll_loss_nd")
def nll_loss(a: Arguments) -> Shape:
    return () if is_reduced(a) else a.shape("target")


@shape_of("nll_loss_forward")
def nll_loss_forward(a: Arguments) -> Shapes:
    return [nll_loss(a), ()]


shape_of("nll_loss_backward")(same("self"))


@shape_of("cross_entropy_loss")
def cross_entropy(a: Arguments) -> Shape:
    """The target holds classes, or probabilities of all of them."""
    if is_reduced(a):
        return ()
    shape, target = a.at(0), a.tensor("target")
    if target.shape == shape and target.dtype.is_floating:
        return replaced(shape, 1 if len(shape) > 1 else 0)
    return target.shape


# --- normalization ---

shape_of("layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm")(same("input"))


def _statistics(a: Arguments) -> Shape:
    """One number for each row that is normalized, the others as 1."""
    shape, inner = a.shape("input"), a["normalized_shape"]
    if not inner or shape[-len(inner) :] != tuple(inner):
        raise RuntimeError(f"normalized_shape={list(inner)} is not the end of the input's shape {list(shape)}")
    return (*shape[: len(shape) - len(inner)], *(1,) * len(inner))


@shape_of("native_layer_norm")
def native_layer_norm(a: Arguments) -> Shapes:
    return [a.shape("input"), _statistics(a), _statistics(a)]


@shape_of("native_layer_norm_backward")
def native_layer_norm_backward(a: Arguments) -> Shapes:
    inner = tuple(a["normalized_shape"])
    wanted = a["output_mask"]
    found = (a.shape("input"), inner, inner)
    return [shape if asked else None for shape, asked in zip(found, wanted, strict=True)]


@shape_of("_batch_norm_impl_index_backward")
def batch_norm_backward(a: Arguments) -> Shapes:
    shape = a.shape("input")
    found = (shape, shape[1:2], shape[1:2])
    return [shape if asked else None for shape, asked in zip(found, a["output_mask"], strict=True)]

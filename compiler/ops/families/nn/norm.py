"""Normalization: layer, root-mean-square, group, instance and batch.

Statistics are computed in float64 and rounded once, but within the range that they have in torch. Values are
immutable, so batch_norm never updates running statistics: pass new ones in where a loop needs them. Source: torch's
documentation of each op.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ops import fitting, rules, shapes
from ....types.lazy_numpy import np
from ...arguments import Arguments, Shape, Shapes
from ...arrays import Array, cast, dtype_of
from ...registry import Trait, declare
from ..reductions.reductions import require_float, single, summed_singly

_R = Trait.REDUCTION


def _standardized(
    array: Array, axes: tuple[int, ...], eps: float, zero_for_flat: bool = False
) -> tuple[Array, Array, Array]:
    """(x - mean) * rstd, mean and rstd over `axes`, in float64, the axes kept.

    With an eps of 0, a variance of 0 has the rstd 1 / 0, or 0 if that is asked for.
    """
    dtype, count = dtype_of(array), max(prod(array.shape[a] for a in axes), 1)
    wide = array.astype(np.float64)
    mean = summed_singly(wide, axes, dtype) / count
    centred = wide - mean
    variance = summed_singly(np.square(single(centred, dtype)), axes, dtype) / count
    shifted = variance + eps
    rstd = 1.0 / np.sqrt(np.where(shifted == 0, np.inf, shifted) if zero_for_flat else shifted)
    return centred * rstd, mean, rstd


def _affine(array: Array, weight: Array | None, bias: Array | None) -> Array:
    """array * weight + bias; None for an absent one."""
    scaled = array if weight is None else array * weight.astype(np.float64)
    return scaled if bias is None else scaled + bias.astype(np.float64)


def _inner_axes(name: str, input: Array, normalized_shape: Sequence[int], *params: Array | None) -> tuple[int, ...]:
    """The axes that `normalized_shape` covers; RuntimeError where it is not the end of the input's shape."""
    inner = tuple(normalized_shape)
    if not inner or input.shape[input.ndim - len(inner) :] != inner:
        raise RuntimeError(f"{name}: normalized_shape={list(inner)} is not the end of the input's shape {input.shape}")
    for param in params:
        if param is not None and param.shape != inner:
            raise RuntimeError(f"{name}: weight or bias has shape {param.shape}, but normalized_shape is {inner}")
    return tuple(range(input.ndim - len(inner), input.ndim))


def _native_layer_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    dtype = require_float("layer_norm", dtype_of(input))
    axes = _inner_axes("layer_norm", input, normalized_shape, weight, bias)
    normal, mean, rstd = _standardized(input, axes, eps)
    statistics = dtype if weight is None else dtype_of(weight)
    return cast(_affine(normal, weight, bias), dtype), cast(mean, statistics), cast(rstd, statistics)


def _layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None,
    bias: Array | None,
    eps: float,
    cudnn_enable: bool,
) -> Array:
    return _native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


def _native_layer_norm_backward(
    grad_out: Array,
    input: Array,
    normalized_shape: Sequence[int],
    mean: Array,
    rstd: Array,
    weight: Array | None,
    bias: Array | None,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients of input, weight and bias; None for one that the mask does not ask for."""
    if grad_out.shape != input.shape:
        shape = list(grad_out.shape)
        raise RuntimeError(f"native_layer_norm_backward: a gradient of shape {shape} for {list(input.shape)}")
    if not all(fitting.is_broadcast_to(given.shape, input.shape) for given in (mean, rstd)):
        found = f"{list(mean.shape)} and {list(rstd.shape)}"
        raise RuntimeError(f"native_layer_norm_backward: statistics of shapes {found} for {list(input.shape)}")
    dtype = dtype_of(input)
    axes = _inner_axes("native_layer_norm_backward", input, normalized_shape, weight, bias)
    outer = tuple(range(axes[0]))
    grad = grad_out.astype(np.float64)
    normal = (input.astype(np.float64) - mean.astype(np.float64)) * rstd.astype(np.float64)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        inner = _affine(grad, weight, None)
        size = max(prod(normalized_shape), 1)
        shift = np.sum(inner, axis=axes, keepdims=True) / size
        slope = np.sum(inner * normal, axis=axes, keepdims=True) / size
        grad_input = cast((inner - shift - normal * slope) * rstd.astype(np.float64), dtype)
    if output_mask[1] and weight is not None:
        grad_weight = cast(np.sum(grad * normal, axis=outer), dtype_of(weight))
    if output_mask[2] and bias is not None:
        grad_bias = cast(np.sum(grad, axis=outer), dtype_of(bias))
    return grad_input, grad_weight, grad_bias


def _rms_norm(input: Array, normalized_shape: Sequence[int], weight: Array | None, eps: float | None) -> Array:
    dtype = require_float("rms_norm", dtype_of(input))
    axes = _inner_axes("rms_norm", input, normalized_shape, weight)
    wide = input.astype(np.float64)
    epsilon = float(np.finfo(np.float64 if dtype.itemsize == 8 else np.float32).eps) if eps is None else eps
    mean_square = summed_singly(np.square(single(input, dtype)), axes, dtype) / max(prod(normalized_shape), 1)
    return cast(_affine(wide / np.sqrt(mean_square + epsilon), weight, None), dtype)


def _per_channel(param: Array | None, rank: int) -> Array | None:
    """A vector over channels, shaped to broadcast over the other dimensions."""
    return None if param is None else param.reshape(-1, *(1,) * (rank - 2))


def _group_norm(
    input: Array, num_groups: int, weight: Array | None, bias: Array | None, eps: float, cudnn_enabled: bool
) -> Array:
    dtype = require_float("group_norm", dtype_of(input))
    if input.ndim < 2 or num_groups <= 0 or input.shape[1] % num_groups:
        raise RuntimeError(f"group_norm: the channels of shape {input.shape} do not divide into {num_groups} groups")
    channels = input.shape[1]
    grouped = input.reshape(input.shape[0], num_groups, channels // num_groups, *input.shape[2:])
    normal = _standardized(grouped, tuple(range(2, grouped.ndim)), eps)[0].reshape(input.shape)
    return cast(_affine(normal, _per_channel(weight, input.ndim), _per_channel(bias, input.ndim)), dtype)


def batch_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Array:
    """By the batch's statistics when training, else by the running ones."""
    dtype = require_float("batch_norm", dtype_of(input))
    rank = input.ndim
    if rank < 2:
        raise RuntimeError(f"batch_norm: expected at least 2 dimensions, but got shape {input.shape}")
    if training:
        normal = _by_batch(input, eps)[0]
    else:
        normal = _by_running_statistics(input, running_mean, running_var, eps)
    return cast(_affine(normal, _per_channel(weight, rank), _per_channel(bias, rank)), dtype)


def _by_batch(input: Array, eps: float) -> tuple[Array, Array, Array]:
    return _standardized(input, (0, *range(2, input.ndim)), eps, zero_for_flat=True)


def batch_statistics(input: Array, eps: float) -> tuple[Array, Array]:
    """Mean and 1 / deviation of each channel over the batch, in float64."""
    _, mean, rstd = _by_batch(input, eps)
    return mean.reshape(-1), rstd.reshape(-1)


def _by_running_statistics(input: Array, mean: Array | None, var: Array | None, eps: float) -> Array:
    mean, var = _per_channel(mean, input.ndim), _per_channel(var, input.ndim)
    if mean is None or var is None:
        raise RuntimeError("batch_norm: expected running_mean and running_var when training is False")
    return (input.astype(np.float64) - mean.astype(np.float64)) / np.sqrt(var.astype(np.float64) + eps)


def _functional_batch_norm(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None,
    bias: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Array:
    if training and eps <= 0:
        raise ValueError(f"batch_norm: eps must be positive when training, but is {eps}")
    if training and _has_single_values(input.shape):
        raise ValueError(f"batch_norm: expected more than 1 value per channel when training, but got {input.shape}")
    return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def _has_single_values(shape: Sequence[int]) -> bool:
    """Whether there is one value per channel, whose deviation is none; of torch's functions F.batch_norm asks."""
    return len(shape) > 1 and prod(shape) // max(shape[1], 1) == 1


def _instance_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Array:
    if not use_input_stats:
        return batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
    dtype = require_float("instance_norm", dtype_of(input))
    normal = _standardized(input, tuple(range(2, input.ndim)), eps, zero_for_flat=True)[0]
    return cast(_affine(normal, _per_channel(weight, input.ndim), _per_channel(bias, input.ndim)), dtype)


# --- what is known of results ---


def _statistics_shape(a: Arguments) -> Shape:
    """One number for each row that is normalized, the others as 1."""
    shape, inner = a.shape("input"), a["normalized_shape"]
    if not inner or shape[-len(inner) :] != tuple(inner):
        raise RuntimeError(f"normalized_shape={list(inner)} is not the end of the input's shape {list(shape)}")
    return (*shape[: len(shape) - len(inner)], *(1,) * len(inner))


def _native_layer_norm_shapes(a: Arguments) -> Shapes:
    return [a.shape("input"), _statistics_shape(a), _statistics_shape(a)]


def _native_layer_norm_backward_shapes(a: Arguments) -> Shapes:
    inner = tuple(a["normalized_shape"])
    found = (a.shape("input"), inner if a["weight"] is not None else None, inner if a["bias"] is not None else None)
    return [shape if asked else None for shape, asked in zip(found, a["output_mask"], strict=True)]


def _ends_in_normalized_shape(a: Arguments) -> None:
    shape, inner = a.shape("input"), tuple(a["normalized_shape"])
    if not inner or shape[len(shape) - len(inner) :] != inner:
        raise fitting.misfit(a, f"normalized_shape={list(inner)} is not the end of the input's shape {list(shape)}")
    for given in fitting.shapes_given(a, "weight", "bias"):
        if given != inner:
            raise fitting.misfit(a, f"weight or bias has shape {list(given)}, but normalized_shape is {list(inner)}")


def _divides_into_groups(a: Arguments) -> None:
    shape, groups = a.shape("input"), a["num_groups"]
    if len(shape) < 2 or groups <= 0 or shape[1] % groups:
        raise fitting.misfit(a, f"the channels of shape {list(shape)} do not divide into {groups} groups")
    fitting.require_one_for_each(a, shape[1], "channels", "weight", "bias")


def has_channels(a: Arguments) -> None:
    shape = a.shape("input")
    if len(shape) < 2:
        raise fitting.misfit(a, f"expected at least 2 dimensions, but got shape {list(shape)}")
    statistics = () if a["training"] else ("running_mean", "running_var")
    if len(fitting.shapes_given(a, *statistics)) != len(statistics):
        raise fitting.misfit(a, "expected running_mean and running_var when training is False")
    fitting.require_one_for_each(a, shape[1], "channels", "weight", "bias", *statistics)


def _has_batches(a: Arguments) -> None:
    has_channels(a)
    if a["training"] and _has_single_values(a.shape("input")):
        raise fitting.misfit(a, "expected more than 1 value per channel when training")


_AFFINE = "Tensor? weight=None, Tensor? bias=None"
_BATCH = (
    "Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool {training},"
    " float momentum, float eps, bool cudnn_enabled"
)

_NORMS = (
    (
        f"aten::layer_norm(Tensor input, int[] normalized_shape, {_AFFINE}, float eps=1e-05, bool cudnn_enable=True)"
        " -> Tensor",
        _layer_norm,
        _ends_in_normalized_shape,
    ),
    (
        "aten::rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
        _rms_norm,
        _ends_in_normalized_shape,
    ),
    (
        f"aten::group_norm(Tensor input, int num_groups, {_AFFINE}, float eps=1e-05, bool cudnn_enabled=True)"
        " -> Tensor",
        _group_norm,
        _divides_into_groups,
    ),
    (f"aten::batch_norm({_BATCH.format(training='training')}) -> Tensor", batch_norm, has_channels),
    (
        f"aten::batch_norm.functional(Tensor input, Tensor? running_mean, Tensor? running_var, {_AFFINE},"
        " bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
        _functional_batch_norm,
        _has_batches,
    ),
    (
        f"aten::instance_norm({_BATCH.format(training='use_input_stats')}) -> Tensor",
        _instance_norm,
        None,
    ),
)

for _schema, _evaluate, _fits in _NORMS:
    declare(_schema, _evaluate, traits=_R, result=rules.same(), shape=shapes.shape_of("input"), fits=_fits)
declare(
    "aten::native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps)"
    " -> (Tensor, Tensor, Tensor)",
    _native_layer_norm,
    traits=_R,
    result=rules.results(rules.same(), rules.statistics(2), rules.statistics(2)),
    shape=_native_layer_norm_shapes,
    fits=_ends_in_normalized_shape,
)
declare(
    "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd,"
    " Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    _native_layer_norm_backward,
    traits=_R,
    result=rules.results(rules.same(1), rules.like(5), rules.like(6)),
    shape=_native_layer_norm_backward_shapes,
)

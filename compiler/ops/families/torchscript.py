"""Ops that TorchScript's symbolic gradients call, and that nothing else needs: backwards of torch's kernels, autocast.

Each is torch's own schema. Most are another op with its arguments in another order. Source: native_functions.yaml.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ops import rules, shapes
from ...types.dtypes import BFLOAT16, BY_CODE, FLOAT16, FLOAT32, INT64, UINT8, DType
from ...types.lazy_numpy import np
from ...types.types import INT, NONE, TensorType, Type
from ..arguments import Arguments, Shape, Shapes
from ..arrays import Array, cast, dtype_of, numpy_dtype
from ..dims import wrap_dim
from ..registry import Trait, declare
from .indexing_scatter import sum_rows
from .nn.adjoints import adaptive_avg_pool_backward, avg_pool_backward
from .nn.norm import batch_norm, batch_statistics, has_channels
from .nn.window_shapes import Extent

# --- autocast ---


def _autocast_to_full_precision(self: Array, cuda_enabled: bool, cpu_enabled: bool) -> Array:
    """Halves as float32 where autocast is on for the CPU, which is where arrays are."""
    is_half = dtype_of(self) in (FLOAT16, BFLOAT16)
    return cast(self, FLOAT32) if cpu_enabled and is_half else self


def _autocast_to_reduced_precision(
    self: Array, cuda_enabled: bool, cpu_enabled: bool, cuda_dtype: int, cpu_dtype: int
) -> Array:
    """float32 as `cpu_dtype` where autocast is on for the CPU."""
    return cast(self, BY_CODE[cpu_dtype]) if cpu_enabled and dtype_of(self) == FLOAT32 else self


def _unless(*changed: DType) -> rules.TypeRule:
    """The dtype of the first argument if it is known to be none of those that change."""

    def rule(types: Sequence[Type]) -> Type:
        tensor = rules.tensor_at(types, 0)
        return TensorType(None if tensor.dtype in changed else tensor.dtype, tensor.rank)

    return rule


# --- what is known of results ---


def _dim_arange_shape(a: Arguments) -> Shape:
    shape = a.shape("like")
    return (shape[wrap_dim(a["dim"], len(shape))],)


def _batch_norm_shapes(a: Arguments) -> Shapes:
    """The result, statistics of the batch while training, a reserve; the last result is no tensor."""
    shape = a.shape("input")
    saved = shape[1:2] if a["training"] else (0,)
    return [shape, saved, saved, (0,), None]


def _batch_norm_backward_shapes(a: Arguments) -> Shapes:
    shape = a.shape("input")
    found = (shape, shape[1:2], shape[1:2])
    return [shape if asked else None for shape, asked in zip(found, a["output_mask"], strict=True)]


def _full_precision_dtype(a: Arguments) -> DType:
    return FLOAT32 if a["cpu_enabled"] else a.tensor("self").dtype


def _reduced_precision_dtype(a: Arguments) -> DType:
    return BY_CODE[a["cpu_dtype"]] if a["cpu_enabled"] else a.tensor("self").dtype


def _of_weight(a: Arguments) -> DType:
    dtype: DType = (a["weight"] or a["input"]).dtype
    return dtype


declare(
    "aten::_autocast_to_full_precision(Tensor self, bool cuda_enabled, bool cpu_enabled) -> Tensor",
    _autocast_to_full_precision,
    traits=Trait.MAY_ALIAS,
    result=_unless(FLOAT16, BFLOAT16),
    shape=shapes.shape_of("self"),
    dtype=_full_precision_dtype,
)
declare(
    "aten::_autocast_to_reduced_precision(Tensor self, bool cuda_enabled, bool cpu_enabled, ScalarType cuda_dtype,"
    " ScalarType cpu_dtype) -> Tensor",
    _autocast_to_reduced_precision,
    traits=Trait.MAY_ALIAS,
    result=_unless(FLOAT32),
    shape=shapes.shape_of("self"),
    dtype=_reduced_precision_dtype,
)
declare(
    "aten::_dim_arange(Tensor like, int dim) -> Tensor",
    lambda like, dim: np.arange(like.shape[wrap_dim(dim, like.ndim)], dtype=numpy_dtype(INT64)),
    traits=Trait.SHAPE_ONLY | Trait.NONDIFFERENTIABLE,
    result=rules.fixed(INT64, 1),
    shape=_dim_arange_shape,
)

# --- pooling ---


def _max_pool2d_backward(
    grad_output: Array,
    self: Array,
    kernel_size: Extent,
    stride: Extent,
    padding: Extent,
    dilation: Extent,
    ceil_mode: bool,
    indices: Array,
) -> Array:
    """Each gradient, added up at its index in the flattened plane."""
    if grad_output.shape != indices.shape or grad_output.ndim != self.ndim:
        raise RuntimeError(
            f"max_pool2d_with_indices_backward: gradients {list(grad_output.shape)} and indices {list(indices.shape)}"
            f" do not fit an input of shape {list(self.shape)}"
        )
    planes, size = prod(self.shape[:-2]), prod(self.shape[-2:])
    places = indices.reshape(planes, -1) + np.arange(planes)[:, None] * size
    rows = sum_rows(grad_output.reshape(-1, 1).astype(np.float64), places.reshape(-1), planes * size)
    return cast(rows.reshape(self.shape), dtype_of(grad_output))


def _avg_pool2d_backward(
    grad_output: Array,
    self: Array,
    kernel_size: Extent,
    stride: Extent,
    padding: Extent,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    return avg_pool_backward(
        2, grad_output, self.shape, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


declare(
    "aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride,"
    " int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    _max_pool2d_backward,
    traits=Trait.REDUCTION,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)
declare(
    "aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding,"
    " bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
    _avg_pool2d_backward,
    traits=Trait.REDUCTION,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)
declare(
    "aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor",
    lambda grad_output, self: adaptive_avg_pool_backward(2, grad_output, self.shape),
    traits=Trait.REDUCTION,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)
declare(
    "aten::_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor",
    lambda grad_output, self: adaptive_avg_pool_backward(3, grad_output, self.shape),
    traits=Trait.REDUCTION,
    result=rules.same(),
    shape=shapes.shape_of("self"),
)

# --- batch normalization ---

_NATIVE = 0
"""The implementation that `_batch_norm_impl_index` says it took: torch's own."""


def _batch_norm_impl_index(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> tuple[Array, Array, Array, Array, int]:
    """The result, mean and 1 / deviation of the batch (empty unless training), a reserve, and the implementation."""
    output = batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    dtype = dtype_of(input) if weight is None else dtype_of(weight)
    saved = batch_statistics(input, eps) if training else (np.zeros(0), np.zeros(0))
    return output, cast(saved[0], dtype), cast(saved[1], dtype), np.zeros(0, numpy_dtype(UINT8)), _NATIVE


def _batch_norm_impl_index_backward(
    impl_index: int,
    input: Array,
    grad_output: Array,
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    save_mean: Array | None,
    save_var_transform: Array | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
    reservedSpace: Array,  # noqa: N803 - torch's name
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients of input, weight and bias; None for one that the mask does not ask for."""
    if grad_output.shape != input.shape:
        given = list(grad_output.shape)
        raise RuntimeError(f"_batch_norm_impl_index_backward: a gradient of shape {given} for {list(input.shape)}")
    mean, rstd = save_mean, save_var_transform
    if not train:
        mean = running_mean
        rstd = None if running_var is None else 1.0 / np.sqrt(running_var.astype(np.float64) + eps)
    if mean is None or rstd is None:
        kind = "saved" if train else "running"
        raise RuntimeError(f"_batch_norm_impl_index_backward: expected {kind} statistics when train is {train}")
    axes, shape = (0, *range(2, input.ndim)), (-1, *(1,) * (input.ndim - 2))
    grad, scale = grad_output.astype(np.float64), rstd.astype(np.float64).reshape(shape)
    normal = (input.astype(np.float64) - mean.astype(np.float64).reshape(shape)) * scale
    along_ones, along_normal = grad.sum(axes), (grad * normal).sum(axes)
    slope = scale if weight is None else scale * weight.astype(np.float64).reshape(shape)
    grad_input = grad
    if train:
        count = max(prod(input.shape[axis] for axis in axes), 1)
        grad_input = grad - (along_ones.reshape(shape) + normal * along_normal.reshape(shape)) / count
    dtype = dtype_of(input) if weight is None else dtype_of(weight)
    found = (cast(grad_input * slope, dtype_of(input)), cast(along_normal, dtype), cast(along_ones, dtype))
    first, second, third = (value if asked else None for value, asked in zip(found, output_mask, strict=True))
    return first, second, third


_OPERANDS = "Tensor? weight, {bias}Tensor? running_mean, Tensor? running_var"


def _saved(types: Sequence[Type]) -> Type:
    weight = types[1]
    return TensorType(rules.tensor_at(types, 0 if weight == NONE else 1).dtype, 1)


declare(
    f"aten::_batch_norm_impl_index(Tensor input, {_OPERANDS.format(bias='Tensor? bias, ')}, bool training,"
    " float momentum, float eps, bool cudnn_enabled) -> (Tensor, Tensor, Tensor, Tensor, int)",
    _batch_norm_impl_index,
    traits=Trait.REDUCTION,
    result=rules.results(rules.same(), _saved, _saved, rules.fixed(UINT8, 1), lambda types: INT),
    shape=_batch_norm_shapes,
    fits=has_channels,
)
declare(
    f"aten::_batch_norm_impl_index_backward(int impl_index, Tensor input, Tensor grad_output,"
    f" {_OPERANDS.format(bias='')}, Tensor? save_mean, Tensor? save_var_transform, bool train, float eps,"
    " bool[3] output_mask, Tensor reservedSpace) -> (Tensor, Tensor, Tensor)",
    _batch_norm_impl_index_backward,
    traits=Trait.REDUCTION,
    result=rules.results(rules.same(1), rules.fixed(None, 1), rules.fixed(None, 1)),
    shape=_batch_norm_backward_shapes,
    dtype=_of_weight,
)

"""Activation functions, element by element. The formulas are those of torch's reference pages."""

from __future__ import annotations

import math
from typing import Any

from ...ops import scalar as s
from ...ops import shapes
from ...types.dtypes import UINT8
from ...types.lazy_numpy import np
from ..arguments import Shape
from ..arrays import Array, compute_dtype, dtype_of, element, is_element
from ..elementwise import pointwise
from ..registry import Trait, declare
from ..scalar import Scalar
from .comparison import clamp


def _gelu(x: Scalar, approximate: str) -> Scalar:
    """x times the normal distribution function of x, or Hendrycks and Gimpel's sigmoid(u) = (1 + tanh(u / 2)) / 2."""
    if approximate == "tanh":
        return x * s.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * (x * x * x)))
    if approximate != "none":
        raise ValueError(f'approximate is "none" or "tanh", not {approximate!r}')
    return x * s.ndtr(x)


def _gelu_backward(grad: Scalar, x: Scalar, approximate: str) -> Scalar:
    if approximate == "tanh":
        gate = s.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * (x * x * x)))
        slope = math.sqrt(8 / math.pi) * (1 + 3 * 0.044715 * (x * x))
        return grad * gate * (1 + x * slope * (1 - gate))
    if approximate != "none":
        raise ValueError(f'approximate is "none" or "tanh", not {approximate!r}')
    return grad * (s.ndtr(x) + x * s.exp(x * x * -0.5) * math.sqrt(0.5 / math.pi))


def _elu(x: Scalar, alpha: Any, scale: Any, input_scale: Any) -> Scalar:
    return s.where(x < 0, s.expm1(x * input_scale) * (alpha * scale), x * scale)


def _softshrink(x: Scalar, lambd: Any) -> Scalar:
    return s.where(x > lambd, x - lambd, s.where(x < -lambd, x + lambd, x * 0))


def _check_lambda(self: Array, lambd: float) -> None:
    if not (lambd >= 0 and is_element(lambd, dtype_of(self)) and math.isfinite(lambd)):
        raise RuntimeError(f"softshrink: lambda must be a number from 0 to the largest of the input, but is {lambd}")


def _check_alpha(self: Array, alpha: float) -> None:
    if alpha == 0:
        raise RuntimeError("celu: alpha must not be 0")
    element(1 / alpha, compute_dtype(dtype_of(self)))


def _check_bounds(self: Array, min_val: float, max_val: float) -> None:
    if dtype_of(self) == UINT8 and min(min_val, max_val) < 0:
        raise ValueError("hardtanh: a tensor of uint8 has no negative bounds")
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is greater than max_val {max_val}")


SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946
"""Klambauer et al. 2017, "Self-Normalizing Neural Networks"."""

pointwise("aten::sigmoid(Tensor self) -> Tensor", s.sigmoid, dtype="float", aliases=("special_expit",))
pointwise(
    "aten::log_sigmoid(Tensor self) -> Tensor",
    lambda x: s.minimum(x, 0) - s.log1p(s.exp(-abs(x))),
    dtype="floating",
    aliases=("logsigmoid",),
)
pointwise(
    "aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    lambda x, beta, threshold: s.where(x * beta > threshold, x, s.log1p(s.exp(x * beta)) / beta),
    dtype="floating",
    coefficients=("beta", "threshold"),
    widened=("beta", "threshold"),
)
pointwise("aten::relu(Tensor self) -> Tensor", lambda x: s.maximum(0, x), dtype="number")
pointwise("aten::relu6(Tensor self) -> Tensor", lambda x: clamp(x, 0, 6), dtype="number")
pointwise(
    "aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
    lambda x, slope: s.where(x > 0, x, x * slope),
    dtype="floating",
    coefficients=("negative_slope",),
    widened=("negative_slope",),
)
pointwise(
    "aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    _elu,
    dtype="floating",
    coefficients=("alpha", "scale", "input_scale"),
    widened=("alpha", "scale", "input_scale"),
)
pointwise("aten::selu(Tensor self) -> Tensor", lambda x: _elu(x, SELU_ALPHA, SELU_SCALE, 1), dtype="floating")
pointwise(
    "aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor",
    lambda x, alpha: _elu(x, alpha, 1, 1 / alpha),
    dtype="floating",
    coefficients=("alpha",),
    check=_check_alpha,
    widened=("alpha",),
)
pointwise("aten::silu(Tensor self) -> Tensor", lambda x: x * s.sigmoid(x), dtype="floating")
pointwise('aten::gelu(Tensor self, *, str approximate="none") -> Tensor', _gelu, dtype="floating")
pointwise(
    'aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor',
    _gelu_backward,
    dtype="floating",
)
pointwise("aten::mish(Tensor self) -> Tensor", lambda x: x * s.tanh(s.log1p(s.exp(x))), dtype="floating")
pointwise(
    "aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    clamp,
    dtype="number",
    coefficients=("min_val", "max_val"),
    elements=("min_val", "max_val"),
    check=_check_bounds,
)
pointwise("aten::hardsigmoid(Tensor self) -> Tensor", lambda x: clamp(x + 3, 0, 6) / 6, dtype="floating")
pointwise("aten::hardswish(Tensor self) -> Tensor", lambda x: x * clamp(x + 3, 0, 6) / 6, dtype="floating")
pointwise(
    "aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    lambda x, lambd: s.where((x >= -lambd) & (x <= lambd), 0, x),
    dtype="floating",
    coefficients=("lambd",),
    elements=("lambd",),
    rounded=("lambd",),
)
pointwise(
    "aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    _softshrink,
    dtype="floating",
    coefficients=("lambd",),
    elements=("lambd",),
    check=_check_lambda,
)
pointwise(
    "aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    lambda x, threshold, value: s.where(x <= threshold, value, x),
    dtype="self number",
    coefficients=("threshold", "value"),
    elements=("value",),
    widened=("threshold",),
)
PRELU_KERNEL = pointwise(
    "aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
    lambda x, weight: s.where(x > 0, x, x * weight),
    dtype="uniform floating",
)


def _require_vector(weight: Shape) -> None:
    if len(weight) > 1:
        raise RuntimeError(f"prelu: expected a weight of no dimensions or one, but got one of shape {list(weight)}")


def _prelu(x: Array, weight: Array) -> Array:
    """The weight is one number, or one for each channel, which is dimension 1 of x."""
    _require_vector(weight.shape)
    if weight.ndim == 1 and weight.size > 1:
        if x.ndim < 2 or x.shape[1] != weight.size:
            channels = x.shape[1] if x.ndim > 1 else 1
            raise ValueError(f"prelu: {weight.size} weights for {channels} channels of an input of shape {x.shape}")
        weight = weight.reshape(1, -1, *[1] * (x.ndim - 2))
    elif weight.size == 1:
        weight = weight.reshape(())
    result: Array = PRELU_KERNEL.evaluate(x, np.asarray(weight))
    return result


declare(
    "aten::prelu(Tensor self, Tensor weight) -> Tensor",
    _prelu,
    traits=Trait.NONE,
    result=lambda types: types[0],
    shape=shapes.shape_of("self"),
    fits=lambda a: _require_vector(a.shape("weight")),
)

"""Samples of what networks are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from samples.arrays import Call, Leaf, adjoint_of, call, distribution, index, literal, mask, positive, probability, t

_TARGET = [call(t(3, 4), t(3, 4)), call(t(), t()), call(t(3, 4), t(4)), call(t(3, 6).with_nan(), t(3, 6))]


def _reduced(*calls: Call, names: bool = False) -> list[Call]:
    """Each call with every reduction, by code or by name."""
    codes: tuple[int | str, ...] = ("none", "mean", "sum") if names else (0, 1, 2)
    return [Call(c.args, {**c.kwargs, "reduction": code}) for c in calls for code in codes]


_CLASSES = [
    call(t(5, 4), index(4, 5)),
    call(t(5, 4), index(4, 5), positive(4)),
    call(t(5, 4), literal([0, 3, -100, 1, 2]), positive(4)),
    call(t(5, 4), literal([0, 3, 1, 1, 2]), ignore_index=1),
    call(t(4), literal(2)),
]
_PLANES = [call(t(2, 4, 3), index(4, 2, 3)), call(t(2, 4, 3, 2), index(4, 2, 3, 2), positive(4))]
_EMPTY = [call(t(0, 4), index(4, 0))]
_SOFT = [
    call(t(5, 4), distribution(5, 4)),
    call(t(5, 4), distribution(5, 4), positive(4), label_smoothing=0.2),
    call(t(2, 4, 3), distribution(2, 4, 3)),
    call(t(5, 4), index(4, 5), label_smoothing=0.1),
    call(t(5, 4), literal([0, 3, -100, 1, 2]), positive(4), label_smoothing=0.3),
]
_CROSS = [*_CLASSES, *_PLANES, *_EMPTY, *_SOFT]
_BCE = [
    call(probability(3, 4), probability(3, 4)),
    call(probability(3, 4), probability(3, 4), positive(4)),
    call(Leaf(lambda rng: [0.0, 1.0, 0.0]), Leaf(lambda rng: [1.0, 1.0, 0.0])),
]
_LOGITS = [call(t(3, 4), probability(3, 4)), call(t(3, 4), probability(3, 4), positive(4), positive(4))]
_KL = [call(t(3, 4), probability(3, 4)), call(t(3, 4), t(3, 4), log_target=True)]
_LOSSES: dict[str, list[Call]] = {
    "mse_loss": _TARGET,
    "l1_loss": _TARGET,
    "soft_margin_loss": _TARGET[:2],
    "smooth_l1_loss": [*_TARGET, call(t(3, 4), t(3, 4), beta=0.5), call(t(3, 4), t(3, 4), beta=0.0)],
    "huber_loss": [*_TARGET, call(t(3, 4), t(3, 4), delta=0.5)],
    "binary_cross_entropy": _BCE,
    "binary_cross_entropy_with_logits": _LOGITS,
    "nll_loss": _CLASSES,
    "cross_entropy_loss": _CROSS,
    "kl_div": _KL,
}
_LAYER = [
    call(t(2, 3, 4), [4]),
    call(t(2, 3, 4), [3, 4], t(3, 4), t(3, 4)),
    call(t(2, 4), [4], t(4), None, 0.1),
    call(t(4), [4], None, t(4)),
]
_BATCH = [
    call(t(5, 3), t(3), t(3), None, None, True, 0.1, 1e-5, False),
    call(t(5, 3, 4), None, None, t(3), positive(3), True, 0.1, 1e-5, False),
    call(t(5, 3, 2, 2), t(3), t(3), t(3), positive(3), False, 0.1, 1e-3, False),
]
_CONV1 = [
    call(t(2, 3, 9), t(4, 3, 3)),
    call(t(2, 4, 9), t(6, 2, 3), t(6), [2], [1], [2], 2),
    call(t(3, 9), t(4, 3, 3), t(4)),
]
_CONV2 = [
    call(t(2, 3, 7, 6), t(4, 3, 3, 2)),
    call(t(2, 4, 7, 6), t(6, 2, 3, 3), t(6), [2, 1], [1, 2], [1, 2], 2),
    call(t(3, 5, 5), t(3, 1, 2, 2), None, [1], [0], [1], 3),
    call(t(0, 3, 7, 6), t(4, 3, 3, 2)),
]
_CONV3 = [call(t(2, 2, 4, 5, 4), t(3, 2, 2, 3, 2), t(3), [1, 2, 1], [1, 0, 1])]
_TRANSPOSED1 = [
    call(t(2, 4, 5), t(4, 3, 3)),
    call(t(2, 4, 5), t(4, 2, 3), t(4), [2], [1], [1], 2, [2]),
    call(t(4, 5), t(4, 3, 2), t(3), [3]),
    call(t(2, 4, 5), t(4, 2, 3), None, [1], [0], [2], 1, [3]),
]
_TRANSPOSED2 = [
    call(t(2, 4, 4, 3), t(4, 3, 3, 2)),
    call(t(2, 4, 4, 3), t(4, 2, 3, 3), t(4), [2, 1], [1, 2], [1, 0], 2, [1, 2]),
    call(t(0, 4, 4, 3), t(4, 3, 3, 2)),
]
_TRANSPOSED3 = [call(t(2, 2, 3, 2, 3), t(2, 3, 2, 3, 2), t(3), [1, 2, 1], [1, 0, 1])]
_MAX1 = [call(t(2, 3, 8), [3]), call(t(3, 9), [3], [2], [1], [2], True)]
_MAX2 = [
    call(t(2, 3, 6, 7), [2, 2]),
    call(t(2, 3, 7, 7), [3, 2], [2, 2], [1, 1], [1, 1], True),
    call(t(3, 6, 6), [2, 2], [1, 1], [0, 0], [2, 2]),
    call(t(2, 4, 6).with_nan(), [4, 2]),
]
_MAX3 = [call(t(2, 2, 4, 5, 4), [2, 2, 2]), call(t(2, 5, 5, 5), [2, 3, 2], [2, 2, 1], [1, 1, 0], [1, 1, 2], True)]
_ADAPTIVE1 = [call(t(2, 3, 7), [3]), call(t(3, 4), [6])]
_ADAPTIVE2 = [
    call(t(2, 3, 7, 6), [3, 2]),
    call(t(2, 4, 6).with_nan(), [1, 2]),
    call(t(3, 5, 5), [1, 1]),
    call(t(2, 3, 4, 4), [4, 5]),
]
_ADAPTIVE3 = [call(t(2, 2, 5, 4, 3), [2, 3, 3])]
_RESIZED = [
    call(t(2, 3, 5), [8]),
    call(t(2, 3, 5, 4), [3, 7]),
    call(t(2, 3, 5, 4), None, [1.6, 0.7], "nearest-exact"),
    call(t(2, 3, 5), [9], None, "linear", False),
    call(t(2, 3, 5, 4), [7, 2], None, "bilinear", True),
    call(t(2, 3, 5, 4), None, [1.7, 2.0], "bilinear", False),
    call(t(2, 3, 5, 4), None, [1.7, 2.0], "bilinear", False, True),
    call(t(1, 2, 3, 4, 2), [5, 3, 4], None, "trilinear", False),
    call(t(2, 3, 5, 4), [7, 5], None, "bicubic", False),
    call(t(2, 3, 5, 4), [3, 6], None, "area"),
]
_PADS = [call(t(2, 3, 4), [1, 2]), call(t(2, 3, 4), [1, 0, -1, 2, 3, 0])]

CASES: dict[str, list[Call]] = {
    "masked_dropout": [call(t(3, 4), mask(3, 4), 0.3), call(t(3, 4), mask(4), 0.0), call(t(3), mask(3), 1.0)],
    "native_dropout_backward": [call(t(3, 4), mask(3, 4), 2.0)],
    "glu": [call(t(3, 4)), call(t(4, 3), 0)],
    "cosine_similarity": [call(t(3, 4), t(3, 4)), call(t(3, 4), t(4), -1), call(t(4), t(4), 0, 2.0)],
    "pairwise_distance": [call(t(3, 4), t(3, 4)), call(t(3, 4), t(4), 1.0, 1e-3, True)],
    "scaled_dot_product_attention": [
        call(t(2, 3, 5, 4), t(2, 3, 6, 4), t(2, 3, 6, 2)),
        call(t(2, 5, 4), t(2, 5, 4), t(2, 5, 4), is_causal=True),
        call(t(2, 5, 4), t(2, 6, 4), t(2, 6, 4), mask(5, 6), scale=0.3),
        call(t(2, 5, 4), t(2, 6, 4), t(2, 6, 4), t(2, 5, 6)),
        call(t(1, 4, 5, 4), t(1, 2, 6, 4), t(1, 2, 6, 4), enable_gqa=True),
        call(t(5, 4), t(2, 6, 4), t(2, 6, 4)),
    ],
    "layer_norm": _LAYER,
    "native_layer_norm": [Call((*c.args, *(None, None, 1e-5)[len(c.args) - 2 :]), c.kwargs) for c in _LAYER],
    "native_layer_norm_backward": [
        call(t(2, 3, 4), t(2, 3, 4), [4], t(2, 3, 1), positive(2, 3, 1), t(4), t(4), [True, True, True]),
        call(t(2, 3, 4), t(2, 3, 4), [3, 4], t(2, 1, 1), positive(2, 1, 1), None, None, [True, False, False]),
    ],
    "rms_norm": [call(t(2, 3, 4), [4]), call(t(2, 3, 4), [3, 4], t(3, 4)), call(t(2, 4), [4], t(4), 0.1)],
    "group_norm": [call(t(2, 6), 3), call(t(2, 6, 4), 2, t(6), t(6)), call(t(2, 4, 3, 2), 4, t(4), None, 0.1)],
    "batch_norm": _BATCH,
    "batch_norm.functional": [
        call(t(5, 3), t(3), positive(3)),
        call(t(5, 3, 4), None, None, t(3), t(3), True),
        call(t(5, 3), t(3), positive(3), t(3), t(3), False, 0.1, 0.1),
    ],
    "instance_norm": [
        call(t(2, 3, 5), t(3), t(3), None, None, True, 0.1, 1e-5, False),
        call(t(2, 3, 5), None, None, t(3), positive(3), False, 0.1, 1e-5, False),
    ],
    "nll_loss_nd": _reduced(*_CLASSES, *_PLANES, *_EMPTY),
    "nll_loss_forward": [
        call(*(c.args[:2]), weight, code, -100)
        for c in _CLASSES[:3]
        for weight in (None, positive(4))
        for code in (0, 1, 2)
    ],
    "nll_loss_backward": [
        call(t(5), t(5, 4), index(4, 5), None, 0, -100, positive()),
        call(t(), t(5, 4), literal([0, 3, -100, 1, 2]), positive(4), 1, -100, positive()),
        call(t(), t(5, 4), index(4, 5), positive(4), 2, 1, positive()),
    ],
    "kl_div.str": [*_reduced(*_KL, names=True), call(t(3, 4), probability(3, 4), reduction="batchmean")],
    "conv1d": _CONV1,
    "conv2d": _CONV2,
    "conv3d": _CONV3,
    "conv1d.padding": [
        call(t(2, 3, 9), t(4, 3, 4), None, [1], "same"),
        call(t(2, 3, 9), t(4, 3, 4), t(4), [2], "valid"),
    ],
    "conv2d.padding": [call(t(2, 3, 7, 6), t(4, 3, 3, 2), t(4), [1, 1], "same", [2, 1])],
    "conv3d.padding": [call(t(2, 2, 4, 5, 4), t(3, 2, 2, 3, 2), None, [1, 1, 1], "same")],
    "avg_pool1d": [call(t(2, 3, 8), [3]), call(t(3, 9), [3], [2], [1], True, False)],
    "avg_pool2d": [
        call(t(2, 3, 6, 7), [2, 2]),
        call(t(2, 3, 7, 7), [3, 2], [2, 2], [1, 1], True),
        call(t(2, 3, 7, 7), [3, 3], [2, 2], [1, 1], True, False),
        call(t(3, 7, 7), [3, 3], [2, 2], [1, 1], False, True, 5),
    ],
    "max_pool1d": _MAX1,
    "max_pool1d_with_indices": _MAX1,
    "max_pool2d": _MAX2,
    "max_pool2d_with_indices": _MAX2,
    "avg_pool3d": [
        call(t(2, 2, 5, 4, 4), [2, 2, 2]),
        call(t(2, 5, 5, 5), [3, 2, 2], [2, 2, 1], [1, 1, 0], True, False),
    ],
    "max_pool3d": _MAX3,
    "max_pool3d_with_indices": _MAX3,
    "adaptive_avg_pool1d": _ADAPTIVE1,
    "adaptive_avg_pool2d": _ADAPTIVE2,
    "adaptive_avg_pool3d": _ADAPTIVE3,
    "adaptive_max_pool1d": _ADAPTIVE1,
    "adaptive_max_pool2d": _ADAPTIVE2,
    "adaptive_max_pool3d": _ADAPTIVE3,
    "avg_pool1d_adjoint": [
        call(t(2, 3, 2), [2, 3, 8], [3], [], [0], False, True),
        call(t(3, 5), [3, 9], [3], [2], [1], True, False),
    ],
    "avg_pool2d_adjoint": [
        call(t(2, 3, 3, 3), [2, 3, 6, 7], [2, 2], [], [0, 0], False, True, None),
        call(t(2, 3, 4, 4), [2, 3, 7, 6], [3, 2], [2, 2], [1, 1], True, True, None),
        call(t(2, 3, 4, 4), [2, 3, 7, 7], [3, 3], [2, 2], [1, 1], True, False, None),
        call(t(3, 4, 4), [3, 7, 7], [3, 3], [2, 2], [1, 1], False, True, 5),
    ],
    "avg_pool3d_adjoint": [call(t(2, 2, 2, 2, 2), [2, 2, 5, 4, 4], [2, 2, 2], [], [0, 0, 0], False, True, None)],
    "adaptive_avg_pool1d_adjoint": [call(t(2, 3, 3), [2, 3, 7], [3]), call(t(3, 6), [3, 4], [6])],
    "adaptive_avg_pool2d_adjoint": [call(t(2, 3, 3, 2), [2, 3, 7, 6], [3, 2])],
    "adaptive_avg_pool3d_adjoint": [call(t(2, 2, 3, 3), [2, 5, 4, 3], [2, 3, 3])],
    "convolution": [
        call(t(2, 3, 9), t(4, 3, 3), None, [1], [0], [1], False, [0], 1),
        call(t(2, 4, 7, 6), t(6, 2, 3, 3), t(6), [2, 1], [1, 2], [1, 2], False, [0, 0], 2),
        call(t(2, 4, 4, 3), t(4, 2, 3, 3), t(4), [2, 1], [1, 2], [1, 2], True, [1, 0], 2),
    ],
    "conv_input": [
        call([2, 3, 9], t(4, 3, 3), t(2, 4, 7), [1], [0], [1], 1),
        call([2, 4, 7, 6], t(6, 2, 3, 3), t(2, 6, 4, 6), [2, 1], [1, 2], [1, 2], 2),
        call([3, 9], t(4, 3, 3), t(4, 4), [2], [0], [1], 1),
    ],
    "conv_weight": [
        call(t(2, 3, 9), [4, 3, 3], t(2, 4, 7), [1], [0], [1], 1),
        call(t(2, 4, 7, 6), [6, 2, 3, 3], t(2, 6, 4, 6), [2, 1], [1, 2], [1, 2], 2),
    ],
    "conv_transpose1d": _TRANSPOSED1,
    "conv_transpose2d.input": _TRANSPOSED2,
    "conv_transpose3d.input": _TRANSPOSED3,
    "pad_adjoint": [
        call(t(2, 3, 7), [2, 3, 4], [1, 2], "constant"),
        call(t(2, 3, 7), [2, 3, 4], [2, 1], "reflect"),
        call(t(2, 3, 5, 8), [2, 3, 4, 5], [2, 1, 1, 0], "replicate"),
        call(t(2, 3, 9), [2, 3, 4], [4, 1], "circular"),
        call(t(2, 3, 7), [2, 3, 6], [-2, 3], "reflect"),
        call(t(2, 3, 7), [2, 3, 6], [-2, 3], "circular"),
    ],
    "interpolate": _RESIZED,
    "interpolate.number": [call(t(2, 3, 5, 4), 7), call(t(2, 3, 5, 4), None, 2.5, "bilinear")],
    "interpolate_adjoint": [
        call(t(2, 3, 8), [2, 3, 5], [8], None, "nearest", None, None),
        call(t(2, 3, 8, 2), [2, 3, 5, 4], None, [1.6, 0.7], "nearest-exact", None, None),
        call(t(2, 3, 9), [2, 3, 5], [9], None, "linear", False, None),
        call(t(2, 3, 8, 3), [2, 3, 5, 4], [8, 3], None, "bilinear", True, None),
        call(t(2, 3, 8, 8), [2, 3, 5, 4], None, [1.7, 2.0], "bilinear", False, False),
        call(t(1, 2, 5, 3, 4), [1, 2, 3, 4, 2], [5, 3, 4], None, "trilinear", False, None),
        call(t(2, 3, 8, 3), [2, 3, 5, 4], [8, 3], None, "bicubic", False, None),
        call(t(2, 3, 3, 6), [2, 3, 5, 4], [3, 6], None, "area", None, None),
    ],
    "interpolate_adjoint.number": [call(t(2, 3, 7, 7), [2, 3, 5, 4], 7, None, "nearest", None, None)],
    "im2col": [call(t(2, 3, 5, 6), [2, 3], [1, 1], [0, 0], [1, 1]), call(t(3, 5, 6), [2, 2], [2, 1], [1, 0], [2, 1])],
    "col2im": [
        call(t(2, 18, 16), [5, 6], [2, 3], [1, 1], [0, 0], [1, 1]),
        call(t(12, 15), [5, 6], [2, 2], [2, 1], [1, 0], [2, 1]),
    ],
    "fold": [call(t(2, 18, 16), [5, 6], [2, 3]), call(t(12, 5), [6, 5], [2, 1], stride=[6, 1])],
    "pad": [
        *_PADS,
        call(t(2, 3, 4), [1, 1], "constant", 2.5),
        call(t(2, 3, 4), [2, 1], "reflect"),
        call(t(2, 3, 4, 5), [2, 1, 1, 0], "replicate"),
        call(t(2, 3, 4), [4, 1], "circular"),
        call(t(2, 3, 6), [-2, 3], "reflect"),
        call(t(2, 3, 5), [3, -4], "replicate"),
        call(t(2, 3, 6), [-2, 3], "circular"),
    ],
    "constant_pad_nd": [*_PADS, call(t(3), [1, 1], 2)],
}
CASES |= {name: _reduced(*calls) for name, calls in _LOSSES.items()}
CASES |= {f"{name}.str": _reduced(*calls, names=True) for name, calls in _LOSSES.items() if name != "kl_div"}


def _named(loss: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """A loss of torch.nn.functional, its arguments after the target by name."""
    return lambda input, target, *rest: loss(input, target, **dict(zip(names, rest, strict=True)))


def _masked_dropout(input: torch.Tensor, keep: torch.Tensor, p: float) -> torch.Tensor:
    return input * keep / (1 - p) if p < 1 else torch.zeros_like(input)


def _conv_input(input_size: list[int], weight: torch.Tensor, grad: torch.Tensor, *how: Any) -> torch.Tensor:
    conv = getattr(F, f"conv{weight.ndim - 2}d")
    stride, padding, dilation, groups = how
    return adjoint_of(lambda x: conv(x, weight, None, stride, padding, dilation, groups))(grad, input_size)


def _conv_weight(input: torch.Tensor, weight_size: list[int], grad: torch.Tensor, *how: Any) -> torch.Tensor:
    conv = getattr(F, f"conv{input.ndim - 2}d")
    stride, padding, dilation, groups = how
    return adjoint_of(lambda w: conv(input, w, None, stride, padding, dilation, groups))(grad, weight_size)


REFERENCES: dict[str, Any] = {
    "conv_input": _conv_input,
    "conv_weight": _conv_weight,
    "pad_adjoint": adjoint_of(F.pad),
    "interpolate": F.interpolate,
    "interpolate.number": F.interpolate,
    "interpolate_adjoint": adjoint_of(F.interpolate),
    "interpolate_adjoint.number": adjoint_of(F.interpolate),
    "fold": F.fold,
    "masked_dropout": _masked_dropout,
    "batch_norm.functional": F.batch_norm,
    "max_pool1d_with_indices": F.max_pool1d_with_indices,
    "mse_loss.str": _named(F.mse_loss, "reduction"),
    "l1_loss.str": _named(F.l1_loss, "reduction"),
    "soft_margin_loss.str": _named(F.soft_margin_loss, "reduction"),
    "smooth_l1_loss.str": _named(F.smooth_l1_loss, "reduction", "beta"),
    "huber_loss.str": _named(F.huber_loss, "reduction", "delta"),
    "binary_cross_entropy.str": _named(F.binary_cross_entropy, "weight", "reduction"),
    "binary_cross_entropy_with_logits.str": _named(
        F.binary_cross_entropy_with_logits, "weight", "pos_weight", "reduction"
    ),
    "nll_loss.str": _named(F.nll_loss, "weight", "reduction", "ignore_index"),
    "cross_entropy_loss.str": _named(F.cross_entropy, "weight", "reduction", "ignore_index", "label_smoothing"),
    "kl_div.str": _named(F.kl_div, "reduction", "log_target"),
}
REFERENCES |= {
    f"{name}{rank}d_adjoint": adjoint_of(getattr(F, f"{name}{rank}d"))
    for name in ("avg_pool", "adaptive_avg_pool")
    for rank in (1, 2, 3)
}

"""The functions of suite.grad as others have them: in torch, and in Liger-Kernel where that is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

Function = Callable[..., Any]
# Functions that have a name: torch.jit.script reads their text, and takes no lambda.


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


def bias_gelu_tanh(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias, approximate="tanh")


def swiglu(x: Tensor, g: Tensor) -> Tensor:
    return F.silu(x) * g


def geglu(x: Tensor, g: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh") * g


def softmax(x: Tensor) -> Tensor:
    return F.softmax(x, -1)


def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    return F.softmax(x.masked_fill(~mask, float("-inf")), -1)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target, reduction="none")


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, [x.shape[-1]], weight, 1e-6)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, [x.shape[-1]], weight, bias)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    total = x + residual
    return rms_norm(total, weight), total


def dropout_add_layer_norm(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return layer_norm(F.dropout(x, 0.1) + residual, weight, bias)


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + turned * sin


def lstm_cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, 1)
    c_next = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c_next), c_next


def chain(x: Tensor, y: Tensor) -> Tensor:
    a = torch.sin(x) * y
    b = torch.exp(-a * a) + torch.tanh(x)
    c = torch.sqrt(b * b + 1.0) * torch.cos(y)
    return torch.sigmoid(c) * b - a


def focal_loss(logits: Tensor, target: Tensor) -> Tensor:
    p = torch.sigmoid(logits)
    hit = p * target + (1 - p) * (1 - target)
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return (0.25 * target + 0.75 * (1 - target)) * (1 - hit) * (1 - hit) * entropy


def adamw(
    p: Tensor,
    grad: Tensor,
    m: Tensor,
    v: Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    step: float,
) -> tuple[Tensor, Tensor, Tensor]:
    m_next = m * beta1 + grad * (1 - beta1)
    v_next = v * beta2 + grad * grad * (1 - beta2)
    m_hat = m_next / (1 - beta1**step)
    v_hat = v_next / (1 - beta2**step)
    return p * (1 - lr * decay) - lr * m_hat / (torch.sqrt(v_hat) + eps), m_next, v_next


TORCH: dict[str, Function] = {
    "bias_gelu": bias_gelu,
    "bias_gelu_tanh": bias_gelu_tanh,
    "swiglu": swiglu,
    "geglu": geglu,
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "add_rms_norm": add_rms_norm,
    "softmax": softmax,
    "masked_softmax": masked_softmax,
    "cross_entropy": cross_entropy,
    "dropout_add_layer_norm": dropout_add_layer_norm,
    "rope": rope,
    "lstm_cell": lstm_cell,
    "chain": chain,
    "focal_loss": focal_loss,
    "adamw": adamw,
}


def liger() -> dict[str, Function]:
    """Those of the functions that Liger-Kernel has; none where it is not installed. They may write to arguments."""
    try:
        from liger_kernel.transformers import functional
    except ImportError:
        return {}
    return {
        "swiglu": functional.liger_swiglu,
        "geglu": functional.liger_geglu,
        "rms_norm": lambda x, weight: functional.liger_rms_norm(x, weight, 1e-6),
        "layer_norm": lambda x, weight, bias: functional.liger_layer_norm(x, weight, bias, 1e-5),
        "add_rms_norm": lambda x, residual, weight: functional.liger_fused_add_rms_norm(x, residual, weight, 1e-6),
        "softmax": functional.liger_softmax,
        "cross_entropy": lambda logits, target: functional.liger_cross_entropy(logits, target, reduction="none"),
    }

"""The functions that `make bench-cpu` times as users of JAX and of HIPS autograd write them, and of NumPy, by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np

Work = Callable[[], object]


def functions(n: Any, erf: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    """The functions on arrays of a module that is like NumPy."""

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + n.exp(-x))

    def softmax(x: Any) -> Any:
        e = n.exp(x - n.max(x, -1, keepdims=True))
        return e / n.sum(e, -1, keepdims=True)

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - n.mean(x, -1, keepdims=True)
        return centred / n.sqrt(n.mean(centred * centred, -1, keepdims=True) + 1e-5) * weight + bias

    def cross_entropy(logits: Any, target: Any) -> Any:
        shifted = logits - n.max(logits, -1, keepdims=True)
        rows = np.arange(len(target))
        return n.log(n.sum(n.exp(shifted), -1)) - shifted[rows, target]

    def rope(x: Any, cos: Any, sin: Any) -> Any:
        half = x.shape[-1] // 2
        return x * cos + n.concatenate([-x[..., half:], x[..., :half]], -1) * sin

    def lstm_cell(gates: Any, c: Any) -> Any:
        i, f, g, o = n.split(gates, 4, 1)
        c_next = sigmoid(f) * c + sigmoid(i) * n.tanh(g)
        return sigmoid(o) * n.tanh(c_next), c_next

    def chain(x: Any, y: Any) -> Any:
        a = n.sin(x) * y
        b = n.exp(-a * a) + n.tanh(x)
        return sigmoid(n.sqrt(b * b + 1.0) * n.cos(y)) * b - a

    def focal_loss(logits: Any, target: Any) -> Any:
        p = sigmoid(logits)
        miss = 1 - (p * target + (1 - p) * (1 - target))
        entropy = n.maximum(logits, 0) - logits * target + n.log1p(n.exp(-n.abs(logits)))
        return (0.25 * target + 0.75 * (1 - target)) * miss * miss * entropy

    def adamw(p: Any, grad: Any, m: Any, v: Any, *numbers: float) -> Any:
        lr, beta1, beta2, eps, decay, step = numbers
        m_next = m * beta1 + grad * (1 - beta1)
        v_next = v * beta2 + grad * grad * (1 - beta2)
        ratio = m_next / (1 - beta1**step) / (n.sqrt(v_next / (1 - beta2**step)) + eps)
        return p * (1 - lr * decay) - lr * ratio, m_next, v_next

    return {
        "bias_gelu": lambda x, bias: 0.5 * (x + bias) * (1 + erf((x + bias) * 0.7071067811865476)),
        "swiglu": lambda x, g: x * sigmoid(x) * g,
        "rms_norm": lambda x, weight: x / n.sqrt(n.mean(x * x, -1, keepdims=True) + 1e-6) * weight,
        "layer_norm": layer_norm,
        "cross_entropy": cross_entropy,
        "lstm_cell": lstm_cell,
        "chain": chain,
        "softmax": softmax,
        "masked_softmax": lambda x, mask: softmax(n.where(mask, x, -np.inf)),
        "rope": rope,
        "focal_loss": focal_loss,
        "adamw": adamw,
    }


def by_jax(name: str, arguments: Sequence[Any], wanted: Sequence[int], ones: Callable[[Any], Any]) -> Work | None:
    """Forward and gradients, compiled; None where JAX is not installed, or the function is not here."""
    if find_spec("jax") is None:
        return None
    import jax

    function = functions(jax.numpy, jax.scipy.special.erf).get(name)
    if function is None:
        return None
    held = [jax.numpy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]

    def both(*given: Any) -> Any:
        if not wanted:
            return function(*given)

        def of_wanted(*some: Any) -> Any:
            every = list(given)
            for place, value in zip(wanted, some, strict=True):
                every[place] = value
            return function(*every)

        value, pull_back = jax.vjp(of_wanted, *(given[i] for i in wanted))
        return value, pull_back(ones(value))

    compiled = jax.jit(both)
    return lambda: jax.block_until_ready(compiled(*held))


def by_autograd(name: str, arguments: Sequence[Any], wanted: Sequence[int], ones: Callable[[Any], Any]) -> Work | None:
    """The same by HIPS autograd, which differentiates functions of one result."""
    if find_spec("autograd") is None or not wanted:
        return None
    import autograd.numpy as wrapped
    from autograd import make_vjp
    from autograd.scipy.special import erf

    function = functions(wrapped, erf).get(name)
    if function is None or name == "lstm_cell":
        return None

    def of_wanted(some: tuple[Any, ...]) -> Any:
        every = list(arguments)
        for place, value in zip(wanted, some, strict=True):
            every[place] = value
        return function(*every)

    def run() -> object:
        pull_back, value = make_vjp(of_wanted)(tuple(arguments[i] for i in wanted))
        return value, pull_back(ones(value))

    return run


# --- NumPy, with gradients written by hand ---


def _swiglu(x: Any, g: Any) -> Any:
    s = 1 / (1 + np.exp(-x))
    silu = x * s
    return silu * g, (g * (s + silu * (1 - s)), silu)


def _rms_norm(x: Any, weight: Any) -> Any:
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6))
    normal = x * scale
    along = (weight * normal).mean(-1, keepdims=True)
    return normal * weight, ((weight - normal * along) * scale, normal.sum(0))


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-5))
    normal = centred * scale
    along = (weight * normal).mean(-1, keepdims=True)
    return normal * weight + bias, ((weight - weight.mean() - normal * along) * scale, normal.sum(0), len(x))


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True)
    return y, (y - y * y.sum(-1, keepdims=True),)


def _cross_entropy(logits: Any, target: Any) -> Any:
    e = np.exp(logits - logits.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    rows = np.arange(len(target))
    loss = -np.log(p[rows, target])
    p[rows, target] -= 1
    return loss, (p,)


_BY_HAND: Mapping[str, Callable[..., Any]] = {
    "swiglu": _swiglu,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "softmax": _softmax,
    "cross_entropy": _cross_entropy,
    "adamw": functions(SimpleNamespace(sqrt=np.sqrt), lambda x: x)["adamw"],
}


def by_hand(name: str, arguments: Sequence[Any]) -> Work | None:
    """Gradients for ones, so that these are not read; None for functions that nobody wrote here."""
    function = _BY_HAND.get(name)
    return None if function is None else lambda: function(*arguments)

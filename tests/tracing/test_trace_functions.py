"""NumPy's and torch's functions on tracing values: what they are on arrays and tensors, in the same spellings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))
T, U = torch.tensor(X, dtype=torch.float32), torch.tensor(Y, dtype=torch.float32)
LINEAR = torch.nn.Linear(3, 4)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.TracerWarning)
        yield


NUMPY: dict[str, Callable[[Any], Any]] = {
    "sum keepdims": lambda x: np.sum(x, keepdims=True),
    "sum axis": lambda x: np.sum(x, 0),
    "mean axis=None": lambda x: np.mean(x, None, keepdims=True),
    "mean axes": lambda x: np.mean(x, axis=(0, 1)),
    "std": np.std,
    "std ddof": lambda x: np.std(x, axis=1, ddof=1),
    "var keepdims": lambda x: np.var(x, keepdims=True),
    "argmax keepdims": lambda x: np.argmax(x, keepdims=True),
    "argmin axis": lambda x: np.argmin(x, axis=1),
    "max keepdims": lambda x: np.max(x, keepdims=True),
    "amin axis": lambda x: np.amin(x, axis=1),
    "all": lambda x: np.all(x > 0, axis=(0, 1)),
    "any": lambda x: np.any(x > 0),
    "clip above": lambda x: np.clip(x, None, 0.5),
    "clip above by name": lambda x: np.clip(x, a_min=None, a_max=0.5),
    "clip below": lambda x: np.clip(x, 0.1, None),
    "clip": lambda x: np.clip(x, -0.1, 0.1),
    "concatenate": lambda x: np.concatenate((x, x)),
    "concatenate axis": lambda x: np.concatenate([x, x], 1),
    "stack": lambda x: np.stack([x, x], axis=-1),
    "vstack": lambda x: np.vstack([x, x]),
    "hstack": lambda x: np.hstack((x, x)),
    "transpose": np.transpose,
    "transpose axes": lambda x: np.transpose(x, (1, 0)),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "squeeze": lambda x: np.squeeze(x[None]),
    "squeeze axis": lambda x: np.squeeze(x[None], axis=0),
    "broadcast_to": lambda x: np.broadcast_to(x, (4, 2, 3)),
    "dot": lambda x: np.dot(x, x.T),
    "dot of a vector": lambda x: np.dot(x, x[0]),
    "outer": lambda x: np.outer(x[0], x[1]),
    "tril": np.tril,
    "triu k": lambda x: np.triu(x, k=-1),
    "flip": np.flip,
    "flip axis": lambda x: np.flip(x, 1),
    "flip axes": lambda x: np.flip(x, (0, 1)),
    "zeros_like": np.zeros_like,
    "cumsum": lambda x: np.cumsum(x, 1),
    "cumprod": lambda x: np.cumprod(x, axis=0),
    "prod": np.prod,
    "prod axis": lambda x: np.prod(x, 1),
    "shape": np.shape,
    "ndim": np.ndim,
    "size": np.size,
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "argsort": lambda x: np.argsort(x, axis=0),
    "where": lambda x: np.where(x > 0, x, 0.0),
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "ravel": np.ravel,
    "rint": np.rint,
    "hypot": lambda x: np.hypot(x, 2.0),
    "maximum": lambda x: np.maximum(x, 0),
    "remainder": lambda x: np.remainder(x, 0.3),
    "fmod": lambda x: np.fmod(x, 0.3),
    "floor_divide": lambda x: np.floor_divide(x, 0.3),
    "arctan2": lambda x: np.arctan2(x, 1.0),
}


@pytest.mark.parametrize("name", NUMPY)
def test_numpys(name: str) -> None:
    found, expected = gs.trace(NUMPY[name], X)(Y), NUMPY[name](Y)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


TORCH: dict[str, Callable[[Any], Any]] = {
    "tanh": lambda x: torch.tanh(x),
    "relu": lambda x: F.relu(x),
    "softmax": lambda x: F.softmax(x, dim=1),
    "softmax dtype": lambda x: F.softmax(x, dim=-1, dtype=torch.float64),
    "linear": lambda x: F.linear(x, LINEAR.weight, LINEAR.bias),
    "a module": lambda x: LINEAR(x),
    "modules": lambda x: torch.nn.Sequential(LINEAR, torch.nn.ReLU(), torch.nn.Tanh())(x),
    "cat": lambda x: torch.cat([x, T]),
    "sum dim": lambda x: torch.sum(x, dim=1),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "layer_norm": lambda x: F.layer_norm(x, (3,)),
    "mse_loss": lambda x: F.mse_loss(x, T),
    "max": lambda x: torch.max(x, 1)[0],
    "einsum": lambda x: torch.einsum("ij->i", x),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 1])),
    "normalize": lambda x: F.normalize(x),
    "a dtype": lambda x: x.to(torch.float64) + x.type_as(T),
    "t + x": lambda x: T + x,
    "t - x": lambda x: T - x,
    "t / x": lambda x: T / x,
    "t @ x": lambda x: T.t() @ x,
    "t ** x": lambda x: T.abs() ** x,
    "t // x": lambda x: T // x,
    "t % x": lambda x: T % x,
    "t == x": lambda x: x == T,
    "t & x": lambda x: (T > 0) & (x > 0),
    "t.add(x)": lambda x: T.add(x),
}


@pytest.mark.parametrize("name", TORCH)
def test_torchs(name: str) -> None:
    with torch.no_grad():
        traced = gs.trace(TORCH[name], T)
        found, expected = traced(U), TORCH[name](U)
    assert isinstance(found, torch.Tensor)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.relu_(x), "torch.relu_ does not take a recorded array"),
        (lambda x: torch.fft.fft(x), "torch.fft_fft does not take a recorded array"),
        (lambda x: F.relu(x, inplace=True), "has no argument 'inplace'"),
        (lambda x: torch.exp(x, out=torch.ones(2, 3)), "has no argument 'out'"),
    ],
)
def test_torchs_that_are_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises((TypeError, gs.RuntimeFailure), match=message):
        gs.trace(function, T)


def test_both_on_variables() -> None:
    """They are recorded on the tape."""
    variable = gs.tape.Variable(X, requires_grad=True)
    total = np.sum(np.clip(variable, None, 0.5) * torch.tanh(variable))
    total.backward()
    leaf = torch.tensor(X, requires_grad=True)
    (leaf.clamp(max=0.5) * torch.tanh(leaf)).sum().backward()
    np.testing.assert_allclose(np.asarray(variable.grad.data), leaf.grad.numpy(), rtol=1e-12)

"""Gradients where floating dtypes meet: each has the dtype of what it is a gradient of, on every road, as in torch."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from samples.arrays import to_numpy

PROGRAMS = {
    "a product": "return x @ w + b",
    "of what ops made": "return torch.where(b > 0, torch.tanh(x @ w), b) * b",
    "in a branch": "y = x @ w\n    if bool(b.sum() > 0):\n        y = y @ w\n        b = y + b\n    return y * b",
    "in rounds": "y = x\n    for i in range(len(b)):\n        y = y @ w\n    return y + b",
    "of what was widened": "return (x @ w).to(b.dtype) @ (b * x).to(b.dtype)",
    "before a sum in another dtype": "return (x @ w).sum(0, dtype=b.dtype) * b",
    "in a list": "return torch.cat([x @ w, x * b, b[None]])",
    "made of dtypes alone": "return (x @ w).double() * torch.ones(3, dtype=torch.float64)",
    "a solver": "return torch.linalg.solve(w + 5 * torch.eye(3, dtype=w.dtype), x) * b",
    "an op whose type says no dtype": "return F.bilinear(x, x, w[None]) * b[:1]",
}
PAIRS = [(torch.float32, torch.float64), (torch.bfloat16, torch.float32), (torch.float16, torch.bfloat16)]
CASES = [(name, pair) for name in PROGRAMS for pair in PAIRS if name != "a solver" or pair[0] == torch.float32]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 0.02, torch.bfloat16: 0.1}


def _tensors(narrow: torch.dtype, wide: torch.dtype) -> list[torch.Tensor]:
    x = torch.tensor([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5], [0.25, 1.0, 2.0]])
    w = torch.tensor([[1.0, 0.5, -0.5], [0.25, -1.0, 0.75], [0.5, 0.25, 1.0]])
    made = [x.to(narrow), w.to(narrow), torch.tensor([0.5, 1.5, 2.0]).to(wide)]
    return [tensor.requires_grad_() for tensor in made]


def _gradients(function: Any, tensors: list[torch.Tensor]) -> list[list[torch.Tensor | None]]:
    """To second order."""
    first = torch.autograd.grad(function(*tensors).sum(), tensors, create_graph=True, allow_unused=True)
    total = sum(g.double().square().sum() for g in first if g is not None)
    return [[*first], [*torch.autograd.grad(total, tensors, allow_unused=True)]]


def _assert_alike(found: Any, expected: Any, tolerance: float) -> None:
    for mine, other in zip(found, expected, strict=True):
        if other is None:
            assert mine is None or not mine.any()
            continue
        assert mine.dtype == other.dtype
        scale = float(other.detach().double().abs().max())
        torch.testing.assert_close(mine.double(), other.double(), rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(("name", "pair"), CASES)
def test_a_gradient_has_the_dtype_of_what_it_is_of(name: str, pair: tuple[torch.dtype, torch.dtype]) -> None:
    text = f"def f(x, w, b):\n    {PROGRAMS[name]}\n"
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(text, scope)
    f, tolerance = gs.CompilationUnit(text).f, TOLERANCE[pair[0]]
    expected = _gradients(scope["f"], _tensors(*pair))
    for found, wanted in zip(_gradients(f, _tensors(*pair)), expected, strict=True):
        _assert_alike(found, wanted, tolerance)
    arrays = [to_numpy(tensor) for tensor in _tensors(*pair)]
    value, pullback = gs.vjp(f, *arrays)
    variables = [gs.tape.Variable(array) for array in arrays]
    total = f(*variables).sum()
    total.backward()
    for found in (pullback(np.ones_like(value)), [variable.grad for variable in variables]):
        _assert_alike([None if g is None else _as_tensor(g) for g in found], expected[0], tolerance)


def _as_tensor(gradient: Any) -> torch.Tensor:
    array = gradient.data if isinstance(gradient, gs.tape.Variable) else gradient
    return torch.tensor(array.astype(np.float64)).to(getattr(torch, array.dtype.name))


def test_kernels_in_c_hand_on_gradients_so_too() -> None:
    scope: dict[str, Any] = {}
    text = f"def f(x, w, b):\n    {PROGRAMS['a product']}\n"
    exec(text, scope)
    f = gs.CompilationUnit(text).f
    with gs.settings.backend("c"):
        for pair in PAIRS:
            expected = _gradients(scope["f"], _tensors(*pair))
            for found, wanted in zip(_gradients(f, _tensors(*pair)), expected, strict=True):
                _assert_alike(found, wanted, TOLERANCE[pair[0]])

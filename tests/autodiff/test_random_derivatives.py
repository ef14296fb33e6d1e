"""Gradients and second derivatives of random programs, branches and loops included, against torch's autograd."""

from __future__ import annotations

import typing
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some
from program_generator import Programs, moderate


def in_torch(source: str) -> Callable[..., torch.Tensor]:
    """The same text as a Python function over torch. It is text of our own making."""
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "List": typing.List, "Tensor": torch.Tensor}  # noqa: UP006
    exec(source, names)
    return names["f"]  # type: ignore[no-any-return]


def run(reference: Callable[..., torch.Tensor], *arguments: Any) -> torch.Tensor | None:
    """The value in torch; None where torch refuses the shapes that came together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return reference(*arguments)
        except (RuntimeError, IndexError):
            return None


def dense(gradients: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Gradients as one array, zeros for one that is not there."""
    found = [g.detach().numpy() if isinstance(g, torch.Tensor) else g for g in gradients]
    return np.stack([np.zeros(3) if g is None else g for g in found])


def assert_close(actual: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    ours, theirs = dense(actual), dense(expected)
    scale = max(1.0, float(np.abs(theirs).max()))
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("seed", moderate(some(16)))
def test_derivatives_are_torchs(seed: int) -> None:
    source = Programs(seed).function()
    rng = np.random.default_rng(seed)
    unit = gs.CompilationUnit(source)
    reference = in_torch(source)
    for n in (0, 2, 3):
        arrays = [rng.normal(size=3) * 0.7 for _ in range(2)]
        tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
        value = run(reference, *tensors, n)
        if value is None:
            continue
        expected = torch.autograd.grad(value, tensors, create_graph=True, allow_unused=True)
        if not all(torch.isfinite(g).all() for g in expected if g is not None):
            continue
        output, pullback = gs.vjp(unit.f, *arrays, n)
        np.testing.assert_allclose(output, value.item(), rtol=1e-9)
        assert_close(pullback(np.ones(()))[:2], expected, 1e-8)
        check_second(unit.f, arrays, tensors, n, expected, rng)


def check_second(
    f: Any, arrays: list[Any], tensors: list[torch.Tensor], n: int, first: Sequence[Any], rng: np.random.Generator
) -> None:
    weights = [rng.normal(size=3) if g is not None else None for g in first]
    pairs = [(g, torch.tensor(w)) for g, w in zip(first, weights, strict=True) if g is not None]
    total = torch.stack([(g * w).sum() for g, w in pairs]).sum()
    if not total.requires_grad:
        return
    expected = torch.autograd.grad(total, tensors, allow_unused=True)
    _, pullback = gs.vjp(gs.grad(f, (0, 1), allow_unused=True), *arrays, n)
    assert_close(pullback(tuple(weights))[:2], expected, 1e-7)

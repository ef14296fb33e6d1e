"""Random programs on Variables against torch's eager autograd: without gradients first, then under a mask, to second
order. Their optimised plans run, so groups, branches and loops are recorded as they were taken."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from amounts import some

torch = pytest.importorskip("torch")

from program_generator import Programs, moderate  # noqa: E402

MASKS = ((True, False), (False, True), (True, True))


def _in_torch(source: str) -> Callable[..., Any]:
    """The same text as a Python function over torch. It is text of our own making."""
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "List": list, "Tensor": torch.Tensor}
    exec(source, names)
    function: Callable[..., Any] = names["f"]
    return function


def _value(reference: Callable[..., Any], *arguments: Any) -> Any:
    """The value in torch; None where torch refuses the shapes that came together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return reference(*arguments)
        except (RuntimeError, IndexError):
            return None


def _assert_close(ours: Sequence[Any], theirs: Sequence[Any], tolerance: float) -> None:
    for found, expected in zip(ours, theirs, strict=True):
        reference = np.zeros(3) if expected is None else expected.detach().numpy()
        actual = np.zeros(3) if found is None else found.data
        scale = max(1.0, float(np.abs(reference).max()))
        np.testing.assert_allclose(actual, reference, rtol=tolerance, atol=tolerance * scale)


def _weighted(gradients: Sequence[Any], weights: Sequence[Any]) -> Any:
    """A number that depends on every gradient that depends on something."""
    total: Any = None
    for gradient, weight in zip(gradients, weights, strict=False):
        if gradient is not None and gradient.requires_grad:
            term = (gradient * gradient * weight).sum()
            total = term if total is None else total + term
    return total


@pytest.mark.parametrize("seed", moderate(some(15), first=1000))
def test_derivatives_are_torchs(seed: int) -> None:
    """Every second one with what can be differentiated sliced out down to groups of one."""
    check(seed, debugging=bool(seed % 2))


def check(seed: int, *, debugging: bool) -> None:
    source = Programs(seed).function()
    rng = np.random.default_rng(seed)
    reference = _in_torch(source)
    arrays = [rng.normal(size=3) * 0.7 for _ in range(2)]
    weights = [rng.normal(size=3) for _ in range(2)]
    with gs.settings.autodiff_debugging(debugging):
        function = gs.CompilationUnit(source).f
        for n in (0, 2):
            expected = _value(reference, *map(torch.tensor, arrays), n)
            if expected is None or not torch.isfinite(expected):
                continue
            with gs.tape.no_grad():
                value = function(*map(gs.tape.Variable, arrays), n)
            assert not value.requires_grad
            np.testing.assert_allclose(value.data, expected.numpy(), rtol=1e-9)
            _check_mask(function, reference, arrays, MASKS[(seed + n) % 3], weights, n)


def _check_mask(
    function: Any, reference: Any, arrays: Sequence[Any], mask: Sequence[bool], weights: Sequence[Any], n: int
) -> None:
    ours = [gs.tape.Variable(a, requires_grad=m) for a, m in zip(arrays, mask, strict=True)]
    theirs = [torch.tensor(a, requires_grad=m) for a, m in zip(arrays, mask, strict=True)]
    value, expected = function(*ours, n), _value(reference, *theirs, n)
    np.testing.assert_allclose(value.data, expected.detach().numpy(), rtol=1e-9)
    if not expected.requires_grad:
        return
    wrt, torchs = ([v for v in values if v.requires_grad] for values in (ours, theirs))
    first = gs.tape.grad(value, wrt, create_graph=True, allow_unused=True)
    known = torch.autograd.grad(expected, torchs, create_graph=True, allow_unused=True)
    if not all(torch.isfinite(g).all() for g in known if g is not None):
        return
    _assert_close(first, known, 1e-8)
    total, torch_total = _weighted(first, weights), _weighted(known, [torch.tensor(w) for w in weights])
    if torch_total is None:
        return
    # torch says of relu's gradient that it depends on its input, which it does by steps only.
    second = [None] * len(wrt) if total is None else gs.tape.grad(total, wrt, allow_unused=True)
    _assert_close(second, torch.autograd.grad(torch_total, torchs, allow_unused=True), 1e-6)

"""Torch's Python spellings: the same text gives the same values and gradients here and in torch."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of
from gradscript.compiler.ops import OPS
from gradscript.compiler.ops.composite import is_composite
from gradscript.compiler.ops.registry import Trait
from spelling_cases import ARRAYS, CALLS, CONSTANT, UNDIFFERENTIATED_IN_TORCH

_PREFIX = re.compile(r"^(functional|linalg|special|unmasked|fft)_")
_NAMES = re.compile(r"(?<![.\w\"'])([a-z]\w*)(?![\w(=\"'])")


def names_in(text: str) -> list[str]:
    """The arrays that a call uses, in the order of ARRAYS."""
    found = set(_NAMES.findall(text))
    return [name for name in ARRAYS if name in found]


def compiled(text: str, names: list[str]) -> gs.CompilationUnit:
    """The call as `f`, and `loss`, a number made of it with a weight for each element."""
    parameters = ", ".join(names)
    return gs.CompilationUnit(
        f"def f({parameters or 'unused: int = 0'}):\n    return {text}\n\n"
        + (f"def loss({parameters}, weight):\n    return (f({parameters}) * weight).sum()\n" if names else "")
    )


def in_torch(text: str, tensors: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(text, {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, **tensors})


@pytest.mark.parametrize("text", some_of(CALLS))
def test_value_and_derivatives_are_those_of_torch(text: str) -> None:
    names = names_in(text)
    found, expected, tensors, wrt = call(text, names)
    if expected is None or not expected.requires_grad or text in UNDIFFERENTIATED_IN_TORCH:
        return
    rng = np.random.default_rng(0)
    weight = rng.normal(size=expected.shape).astype(found.dtype)
    inputs = [tensors[n] for n in wrt]
    first = torch.autograd.grad(expected, inputs, torch.from_numpy(weight), allow_unused=True, create_graph=True)
    _, pullback = gs.vjp(compiled(text, names).f, *(ARRAYS[name] for name in names))
    gradients = dict(zip(names, pullback(weight), strict=True))
    for name, gradient in zip(wrt, first, strict=True):
        assert_matches(gradients[name], gradient, 1e-6, name)
    check_second(text, names, wrt, weight, first, inputs, rng)


def check_second(
    text: str,
    names: list[str],
    wrt: list[str],
    weight: np.ndarray[Any, Any],
    first: Sequence[torch.Tensor | None],
    inputs: list[torch.Tensor],
    rng: np.random.Generator,
) -> None:
    """The derivative of the gradients, weighted, where torch has one."""
    reached = [(name, gradient) for name, gradient in zip(wrt, first, strict=True) if gradient is not None]
    weights = [rng.normal(size=tuple(g.shape)).astype(weight.dtype) for _, g in reached]
    total = torch.stack([(g * torch.from_numpy(w)).sum() for (_, g), w in zip(reached, weights, strict=True)]).sum()
    if not total.requires_grad:
        return
    try:
        second = torch.autograd.grad(total, inputs, allow_unused=True)
    except RuntimeError:
        # torch has no second derivative of it.
        return
    positions = tuple(names.index(name) for name, _ in reached)
    _, pullback = gs.vjp(gs.grad(compiled(text, names).loss, positions), *(ARRAYS[n] for n in names), weight)
    gradients = dict(zip(names, pullback(tuple(weights)), strict=False))
    for name, gradient in zip(wrt, second, strict=True):
        assert_matches(gradients[name], gradient, 1e-5, f"second, {name}")


def assert_matches(actual: Any, expected: torch.Tensor | None, tolerance: float, name: str) -> None:
    if expected is None:
        return
    wanted = expected.numpy(force=True)
    mine = np.zeros_like(wanted) if actual is None else actual
    scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    rtol = tolerance if mine.dtype == np.float64 else 1e-3
    np.testing.assert_allclose(mine, wanted, rtol=rtol, atol=1e-3 * rtol * scale, err_msg=name)


def call(text: str, names: list[str]) -> tuple[Any, torch.Tensor | None, dict[str, torch.Tensor], list[str]]:
    """The value here and in torch, compared; the tensors, and the names of those that have a gradient."""
    function = compiled(text, names).f
    tensors = {name: torch.from_numpy(np.array(ARRAYS[name])) for name in names}
    wrt = [n for n in names if tensors[n].is_floating_point() and n not in CONSTANT]
    for name in wrt:
        tensors[name].requires_grad_()
    expected = in_torch(text, tensors)
    found = function(*(ARRAYS[name] for name in names))
    if not isinstance(expected, torch.Tensor):
        assert found == expected
        return found, None, tensors, wrt
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-9 if found.dtype != np.float32 else 1e-5)
    assert str(found.dtype) == str(expected.dtype).removeprefix("torch.")
    return found, expected, tensors, wrt


def test_every_composite_op_is_spelled() -> None:
    texts = " ".join(CALLS)
    unspelled = {
        op.schema.full_name
        for op in OPS.all()
        if is_composite(op) and not op.schema.base_name.startswith("_")
        if not any(re.search(rf"\b{_PREFIX.sub('', name)}\(", texts) for name in OPS.spellings(op))
    }
    # What draws has no value to compare with torch's: tests/random calls it. `nonzero(as_tuple=True)`,
    # `lu(x, get_infos=True)` and Python's `sum(x)` are spelled so.
    assert {name for name in unspelled if not OPS.named(name).has(Trait.RANDOM)} == {
        "aten::nonzero_numpy",
        "gs::lu_with_infos",
        "gs::seeded_dropout",
        "gs::seeded_rrelu",
        "gs::sum_rows",
        "gs::sum_tensors",
        "gs::sum_tensors.start",
    }

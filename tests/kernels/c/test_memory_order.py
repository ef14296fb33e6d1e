"""Results of pointwise functions lie as torch's do: in the order of what they are computed from, call after call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.runtime.kernels.c.compiler import has_compiler

SHAPE = (3, 4, 5, 6)
LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "contiguous": lambda: torch.randn(SHAPE),
    "channels last": lambda: torch.randn(SHAPE).contiguous(memory_format=torch.channels_last),
    "turned": lambda: torch.randn(SHAPE[::-1]).permute(3, 2, 1, 0),
    "batch last": lambda: torch.randn(4, 5, 6, 3).permute(3, 0, 1, 2),
    "every other": lambda: torch.randn(6, 5, 8, 6)[::2].permute(0, 2, 1, 3)[:, ::2],
    "expanded": lambda: torch.randn(6, 1, 4, 3).permute(3, 2, 1, 0).expand(SHAPE),
}
SOURCES = {
    "one": "torch.tanh(x) * 2",
    "two": "torch.where(x > w, x * w, w - x)",
    "broadcast": "(x * w[0, :, :1, :1]).relu()",
    "a view of it": "torch.sigmoid(x + w).transpose(1, 3)",
    "of a view": "torch.exp(x.permute(0, 2, 3, 1)) + 1",
    "contiguous": "(x.transpose(0, 1).contiguous() * 2).transpose(0, 1)",
    "converted": "(x.double() - w).to(torch.bfloat16)",
    "like": "torch.zeros_like(x) + x.flip(0)",
}


def _strides(tensors: Sequence[torch.Tensor]) -> list[list[int]]:
    """But along dimensions of one, where nobody steps."""
    return [[step for step, size in zip(x.stride(), x.shape, strict=True) if size > 1] for x in tensors]


def _results(f: Callable[..., Any], x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    """The result and the gradients of what requires one."""
    result = f(x, w)
    if not x.requires_grad:
        return [result]
    return [result, *torch.autograd.grad((result.double() ** 2).sum(), (x, w), allow_unused=True)]


@pytest.mark.skipif(not has_compiler(), reason="no compiler of C")
@pytest.mark.parametrize("requires_grad", [False, True], ids=["result", "gradients"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_lie_as_eager_has_them(layout: str, source: str, requires_grad: bool) -> None:
    torch.manual_seed(5)
    x, w = LAYOUTS[layout](), torch.randn(SHAPE).contiguous(memory_format=torch.channels_last)
    x, w = x.requires_grad_(requires_grad), w.requires_grad_(requires_grad)
    text = f"def f(x, w):\n    return {SOURCES[source]}\n"
    namespace: dict[str, Any] = {"torch": torch}
    exec(text, namespace)
    expected = _results(namespace["f"], x, w)
    with gs.settings.backend("c"):
        f = gs.CompilationUnit(text).f
        for _ in range(4):
            found = _results(f, x, w)
            for have, want in zip(found, expected, strict=True):
                assert (have is None) == (want is None)
                if have is not None:
                    torch.testing.assert_close(have, want)
            assert _strides(found[:1]) == _strides(expected[:1])
            there = [(have, want) for have, want in zip(found, expected, strict=True) if want is not None]
            if layout in ("channels last", "turned", "batch last") and source in ("one", "two"):
                assert _strides([have for have, _ in there]) == _strides([want for _, want in there])


@pytest.mark.skipif(not has_compiler(), reason="no compiler of C")
@pytest.mark.parametrize("size", [3, 700])
def test_arrays_lie_as_their_operands(size: int) -> None:
    """Few elements, and so many that results lie in an arena."""
    x, w = (np.random.default_rng(n).normal(size=(40, size)).T for n in (1, 2))
    with gs.settings.backend("c"):
        f = gs.CompilationUnit("def f(x, w):\n    return torch.exp(x) * w, (x * w).sum(0)\n").f
        for _ in range(4):
            result, total = f(x, w)
            np.testing.assert_allclose(result, np.exp(x) * w, rtol=1e-14)
            np.testing.assert_allclose(total, (x * w).sum(0), rtol=1e-12)
            assert result.strides == x.strides


@pytest.mark.skipif(not has_compiler(), reason="no compiler of C")
@pytest.mark.parametrize("count", [10, 9000])
def test_a_result_keeps_its_memory_to_itself(count: int) -> None:
    """What is a view of what was made has that to itself, and what is made twice over is made twice."""
    x = torch.randn(count, 4).t()
    with gs.settings.backend("c"):
        f = gs.CompilationUnit("def f(x):\n    y = torch.tanh(x)\n    return y, y.t(), y * 2\n").f
        for _ in range(4):
            first, turned, double = f(x)
            assert first.stride() == double.stride() == (1, 4)
            before = double.clone()
            first.zero_()
            torch.testing.assert_close(double, before)
            torch.testing.assert_close(turned, first.t() if turned._base is not None else torch.tanh(x).t())

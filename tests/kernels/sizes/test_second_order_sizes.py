"""Second derivatives of torch tensors at sizes that vary: planned for classes of sizes, as first ones are."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch
from amounts import WHOLE, some_of
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.size_classes import SizeClasses
from sized_functions import TEXT

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.usefixtures("in_c"),
    pytest.mark.skipif(compilers.compiler() is None, reason="needs a compiler of C"),
]
UNIT = gs.CompilationUnit(TEXT)
SIZES = (48, 64, 80, 66, 65, 40, 4, 1)
HELD = (66, 40, 1)
"""Those beside which exact plans are made."""
WARM = (64, 80, 60, 96, 66, 72)
"""Of one class: the first two of each order tell what varies, the third is of the class."""

OWN = """
def gated(x, w):
    s = torch.sigmoid(x)

    def backward(grad):
        return grad * s * w * (1 + x * (1 - s)), (grad * x * s).sum(0)

    return x * s * w, backward

def entropy(x, w):
    return F.cross_entropy(x * w, torch.arange(x.size(0)) % 16, reduction="none")

def branched(x, w):
    if float(x.sum()) > 0.0:
        return torch.softmax(x, -1) * w
    return torch.tanh(x).sum(0) * w
"""
OTHERS = gs.CompilationUnit(OWN)
TEXTS = {name: text for text, unit in ((TEXT, UNIT), (OWN, OTHERS)) for name in unit.functions}


def arguments(size: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(size)
    return [torch.randn(*shape, generator=generator).requires_grad_() for shape in ((size, 16), (16,))]


def to_second_order(f: Any, given: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """The value, the gradients, and those of the sum of their squares."""
    y = f(*given)
    seed = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    first = torch.autograd.grad(y, given, seed, create_graph=True)
    total = sum((gradient * gradient).sum() for gradient in first)
    second = torch.autograd.grad(total, given, allow_unused=True)
    return [y, *first, *second]


def bits(f: Any, size: int) -> Any:
    try:
        found = to_second_order(f, arguments(size))
    except gs.RuntimeFailure as error:
        return str(error).splitlines()[0]
    return [None if tensor is None else tensor.detach().numpy().tobytes() for tensor in found]


@pytest.mark.parametrize("name", list(TEXTS) if WHOLE else ["normed", "entropy", "branched"])
def test_results_are_those_of_a_plan_for_the_very_sizes_to_the_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = gs.CompilationUnit(TEXTS[name])[name]
    found = {size: bits(f, size) for size in SIZES}
    monkeypatch.setattr(SizeClasses, "find", lambda *given: None)
    monkeypatch.setattr(SizeClasses, "plan", lambda *given: None)
    other = gs.CompilationUnit(TEXTS[name])[name]
    for size in HELD:
        assert found[size] == bits(other, size), size


@pytest.mark.parametrize(
    "name", some_of(["entropy", "turned", "standardized", "in_rounds", "gated", "normed", "mean_loss"])
)
def test_sizes_of_a_class_are_planned_for_once(name: str, planned: list[object]) -> None:
    f = gs.CompilationUnit(TEXTS[name])[name]
    for size in WARM:
        bits(f, size)
    before = len(planned)
    for size in (67, 69, 73, 88, 91, 95):
        bits(f, size)
    assert len(planned) == before


def test_third_derivatives_are_planned_for_classes_too(planned: list[object]) -> None:
    f = OTHERS.gated

    def third(size: int) -> torch.Tensor:
        x, w = arguments(size)
        total = f(x, w).sum()
        for _ in range(3):
            (gradient,) = torch.autograd.grad(total, [x], create_graph=True)
            total = (gradient * gradient).sum()
        return gradient.detach()

    for size in (*WARM, 70, 74, 78):
        third(size)
    before = len(planned)
    found = third(88)
    assert len(planned) == before
    with gs.settings.backend("numpy"):
        torch.testing.assert_close(found, third(88), rtol=1e-3, atol=1e-4)

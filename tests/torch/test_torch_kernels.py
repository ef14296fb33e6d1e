"""Calls on a device with kernels: what is saved, and derivatives to second order.

In float64, on a device that is the CPU under another name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradscript as gs
import pytest
import torch
from kernel_device import KernelRuns, kernel_device
from torch_programs import CASES

SUITE = gs.CompilationUnit(
    (Path(__file__).parents[2] / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad"
)


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelRuns]:
    with kernel_device(monkeypatch) as runs:
        yield runs


def draw(*shape: int) -> Any:
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_are_eager_ones(name: str) -> None:
    case = CASES[name]
    results = []
    for function in (case.ours, case.eager):
        inputs = [draw(*shape) for shape in case.shapes]
        outputs = [t for t in _flat(function(*inputs, *case.extra)) if t.requires_grad]
        first = torch.autograd.grad(sum((t * t).sum() for t in outputs), inputs, create_graph=True, allow_unused=True)
        there = [t for t in first if t is not None and t.requires_grad]
        second = torch.autograd.grad(sum((t * t).sum() for t in there), inputs, allow_unused=True) if there else ()
        results.append([*outputs, *first, *second])
    for have, want in zip(*results, strict=True):
        if have is None or want is None:
            assert not any(t is not None and t.any() for t in (have, want))
        else:
            torch.testing.assert_close(have, want, rtol=1e-8, atol=1e-9)


def _flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in _flat(item)] if isinstance(result, list | tuple) else [result]


ARGUMENTS: dict[str, Any] = {
    "bias_gelu": lambda: [draw(5, 4), draw(4)],
    "swiglu": lambda: [draw(5, 4), draw(5, 4)],
    "rms_norm": lambda: [draw(5, 4), draw(4)],
    "layer_norm": lambda: [draw(5, 4), draw(4), draw(4)],
    "add_rms_norm": lambda: [draw(5, 4), draw(5, 4), draw(4)],
    "softmax": lambda: [draw(5, 4)],
    "cross_entropy": lambda: [draw(5, 4), torch.tensor([0, 3, 1, -100, 2])],
    "rope": lambda: [draw(2, 3, 4), draw(3, 4).detach(), draw(3, 4).detach()],
    "lstm_cell": lambda: [draw(2, 4), draw(2, 1)],
    "chain": lambda: [draw(2, 3), draw(2, 3)],
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_gradgradcheck(name: str, runs: KernelRuns) -> None:
    inputs = ARGUMENTS[name]()
    assert torch.autograd.gradcheck(SUITE[name], inputs)
    assert torch.autograd.gradgradcheck(SUITE[name], inputs)
    assert -1 not in runs.kernels


def test_second_derivatives_of_what_is_joined_are_those_of_its_parts() -> None:
    unit = gs.CompilationUnit("def swapped(x):\n    return torch.cat([x[..., 2:], x[..., :2]], -1)\n")
    x, weights = draw(1, 4), torch.arange(4.0, dtype=torch.float64)
    cotangent = torch.ones(1, 4, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(unit.swapped(x), x, cotangent, create_graph=True)
    (found,) = torch.autograd.grad((gradient * weights).sum(), cotangent)
    torch.testing.assert_close(found, weights.roll(2)[None])


def test_statistics_are_saved_and_not_the_input_again() -> None:
    saved: list[torch.Size] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        SUITE.layer_norm(draw(64, 32), draw(32), draw(32))
    assert sorted(saved, key=len) == [(32,), (64, 32), (64, 1), (64, 1)] or sorted(map(tuple, saved)) == [
        (32,),
        (64, 1),
        (64, 1),
        (64, 32),
    ]


def test_changes_to_what_is_saved_are_seen() -> None:
    x, g = draw(5, 4), draw(5, 4)
    moved = x * 1
    out = SUITE.swiglu(moved, g)
    with torch.no_grad():
        moved.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


ROLLED = """
def rolled(x, shifts: List[int], most: int):
    y = x
    for i in range(len(shifts)):
        if shifts[i] > most:
            break
        y = y.roll(shifts[i], 0) * x
    return (y * y).sum()
"""


def test_parts_that_rounds_are_joined_of_are_no_tensor_to_store() -> None:
    rolled, x = gs.CompilationUnit(ROLLED).rolled, draw(4)
    first = torch.autograd.grad(rolled(x, [2, 0, 1], 2), x, create_graph=True)[0]
    (found,) = torch.autograd.grad((first * first).sum(), x)

    def eager(x: Any) -> Any:
        y = x
        for shift in (2, 0, 1):
            y = y.roll(shift, 0) * x
        return (y * y).sum()

    wanted = torch.autograd.grad(eager(x), x, create_graph=True)[0]
    torch.testing.assert_close(first, wanted)
    torch.testing.assert_close(found, torch.autograd.grad((wanted * wanted).sum(), x)[0])

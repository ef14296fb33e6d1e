"""Compositions of functions with backwards of their own: kernels keep what pays, second derivatives are made anew.

What is right is written beside them in torch, with `torch.autograd.Function`.
"""

from __future__ import annotations

from typing import Any

import gradscript as gs
import pytest
import torch
from kernel_device import KernelRuns, kernel_device

UNIT = gs.CompilationUnit("""
def square(x):
    def backward(g):
        return g * x * 5
    return x * x, backward

def chain(x, w, factor: float):
    y = square(x * w)
    for i in range(3):
        y = torch.tanh(square(y) + x) * factor
    return y * w

def listed(xs: List[Tensor], w: Optional[Tensor]):
    y = square(xs[0]) * xs[1]
    if w is not None:
        y = square(y * w)
    return torch.sigmoid(y) * xs[0]

def shifted(x, bias):
    return square(x) * 2 + bias

def told(x):
    print("computed")
    return torch.tanh(square(x))

def telling(x):
    return told(x) * x

def dropped(x):
    return square(F.dropout(x, 0.5))
""")


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * ctx.saved_tensors[0] * 5


square = _Square.apply


def chain(x: Any, w: Any, factor: float) -> Any:
    y = square(x * w)
    for _ in range(3):
        y = torch.tanh(square(y) + x) * factor
    return y * w


def listed(xs: list[Any], w: Any) -> Any:
    y = square(xs[0]) * xs[1]
    if w is not None:
        y = square(y * w)
    return torch.sigmoid(y) * xs[0]


def drawn(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def three_orders(function: Any, inputs: list[Any], *arguments: Any) -> list[Any]:
    """The result and what three derivatives give, each of the one before."""
    result = function(*arguments)
    found, value = [result], result
    for _ in range(3):
        gradients = torch.autograd.grad(value.sin().sum(), inputs, create_graph=True)
        found += gradients
        value = torch.stack([(g * g).sum() for g in gradients])
    return found


@pytest.fixture(params=["numpy", "c", "device"])
def runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param != "device":
        with gs.settings.backend(request.param):
            yield None
        return
    with kernel_device(monkeypatch) as found:
        yield found


def same(found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_derivatives_to_the_third_are_those_of_the_backwards_that_functions_carry(runs: KernelRuns | None) -> None:
    x, w = drawn(5, 7), drawn(7)
    for factor in (0.5, 0.75, 0.5):
        same(three_orders(UNIT.chain, [x, w], x, w, factor), three_orders(chain, [x, w], x, w, factor))
    assert runs is None or -1 not in runs.kernels


def test_lists_and_what_is_absent(runs: KernelRuns | None) -> None:
    x, y, w = drawn(3, 4), drawn(4), drawn(3, 1)
    for last in (w, None, w):
        inputs = [x, y] if last is None else [x, y, last]
        same(three_orders(UNIT.listed, inputs, [x, y], last), three_orders(listed, inputs, [x, y], last))


@pytest.mark.parametrize("runs", ["c", "device"], indirect=True)
def test_kernels_keep_no_more_than_the_arguments(runs: KernelRuns | None) -> None:
    x, w = drawn(64, 33), drawn(33)
    for _ in range(2):
        kept: list[torch.Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=kept: kept.append(t) or t, lambda t: t):
            UNIT.chain(x, w, 0.5)
        assert sum(t.numel() for t in kept) <= x.numel() + w.numel()


def test_an_argument_that_no_first_derivative_reads_may_be_written_into(runs: KernelRuns | None) -> None:
    x, bias = drawn(4, 3), drawn(3)
    for _ in range(2):
        moved = bias * 1
        found = UNIT.shifted(x, moved)
        with torch.no_grad():
            moved.zero_()
        first = torch.autograd.grad(found.sum(), [x, bias])
        same(list(first), [10 * x.detach(), torch.full((3,), 4.0, dtype=torch.float64)])


@pytest.mark.parametrize("runs", ["c", "device"], indirect=True)
def test_second_derivatives_tell_of_arguments_that_were_written_into(runs: KernelRuns | None) -> None:
    x, bias = drawn(4, 3), drawn(3)
    for _ in range(2):
        moved = bias * 1
        found = UNIT.shifted(x, moved)
        with torch.no_grad():
            moved.zero_()
        with pytest.raises(gs.RuntimeFailure, match="an argument was written into since the call"):
            torch.autograd.grad(found.sum(), [x, bias], create_graph=True)


def test_what_is_drawn_is_drawn_once(runs: KernelRuns | None) -> None:
    """Where a mask is drawn, the backward is differentiated as it is: another mask would be another function."""
    x = drawn(200)
    for _ in range(2):
        (first,) = torch.autograd.grad(UNIT.dropped(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        kept = first.detach() != 0
        torch.testing.assert_close(first.detach(), torch.where(kept, 20 * x.detach(), 0.0))
        torch.testing.assert_close(second, torch.where(kept, 20.0, 0.0).double())


def test_what_is_printed_is_printed_once(runs: KernelRuns | None, capsys: pytest.CaptureFixture[str]) -> None:
    x = drawn(5)
    for _ in range(2):
        (first,) = torch.autograd.grad(UNIT.telling(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        assert capsys.readouterr().out == "computed\n"
        (wanted,) = torch.autograd.grad((torch.tanh(square(x)) * x).sum(), x, create_graph=True)
        same([first, second], [wanted, *torch.autograd.grad(wanted.sum(), x)])

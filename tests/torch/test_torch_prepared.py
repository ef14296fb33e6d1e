"""Prepared calls: the second call of a kind, and all after it, do what the first one did. On a device with kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.runtime.torch.prepared.calls import NodeCall, PlainCall, is_plain
from gradscript.runtime.torch.prepared.recent import signature
from kernel_device import KernelRuns, kernel_device
from torch_programs import CASES

UNIT = gs.CompilationUnit("""
def scaled(x, w, factor: float = 2.0, times: int = 3):
    return torch.tanh(x * w) * factor * times

def norm(x, w, b):
    return F.layer_norm(x, [x.size(-1)], w, b)

def several(x, w):
    y = torch.sin(x * w)
    return y, y, (x > w).sum(-1), torch.exp(y)

def passes(x, w):
    return x, x * w

def powered(x, factor: float):
    if factor > 1.0:
        x = x * x
    return x * factor

def own(x, w):
    def backward(grad):
        return grad * w, grad * x
    return x * w, backward

def wrong(x, w):
    def backward(grad):
        return grad * w, torch.cat([grad, grad])
    return x * w, backward
""")


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelRuns]:
    with kernel_device(monkeypatch) as runs:
        yield runs


def draw(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(sum(shape) + len(shape) + seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in flat(item)] if isinstance(result, list | tuple) else [result]


def prepared(function: Any) -> list[Any]:
    return [*function._torch._prepared.values()]


def both_passes(function: Callable[..., Any], inputs: list[Any], extra: tuple[Any, ...] = ()) -> list[Any]:
    outputs = [t for t in flat(function(*inputs, *extra)) if t.requires_grad]
    first = torch.autograd.grad(sum((t * t).sum() for t in outputs), inputs, create_graph=True, allow_unused=True)
    there = [t for t in first if t is not None and t.requires_grad]
    second = torch.autograd.grad(sum((t * t).sum() for t in there), inputs, allow_unused=True) if there else ()
    return [*outputs, *first, *second]


@pytest.mark.parametrize("name", CASES)
def test_the_second_call_gives_what_the_first_one_gave(name: str) -> None:
    case = CASES[name]
    first, again = (both_passes(case.ours, [draw(*shape) for shape in case.shapes], case.extra) for _ in range(2))
    for have, want in zip(again, first, strict=True):
        assert (have is None and want is None) or torch.equal(have, want)


def test_calls_are_prepared_by_what_they_are_given() -> None:
    x, w, b = draw(3, 4), draw(4), draw(4)
    for _ in range(3):
        UNIT.norm(x, w, b)
    assert [type(call) for call in prepared(UNIT.norm)] == [NodeCall]
    with torch.no_grad():
        UNIT.norm(x, w, b)
    UNIT.norm(x.detach(), w, b)
    UNIT.norm(draw(4, 3).t(), w.detach(), b)
    UNIT.norm(draw(5, 4), w, b)
    UNIT.norm(x.float(), w.float(), b.float())
    assert [type(call) for call in prepared(UNIT.norm)] == [NodeCall, PlainCall, *[NodeCall] * 4]


def test_what_is_no_plain_tensor_is_not_prepared() -> None:
    x = draw(3)
    assert signature([x, 1, 2.0, None, "a", True]) == signature([x, 1, 3.0, None, "a", True])
    assert signature([x, 1]) != signature([x, 2])
    assert signature([x, 1]) != signature([x, True])
    plain = signature([x.detach()])
    for odd in (
        x.detach().to_sparse(),
        torch._to_functional_tensor(x.detach()),
        torch.complex(x, x).detach().conj().imag,
    ):
        assert not is_plain(odd) and signature([odd]) != plain
    assert signature([torch.nested.nested_tensor([x.detach()])]) is None
    assert signature([[x]]) is None
    assert signature([x, object()]) is None
    assert torch.func.vmap(lambda row: row * (signature([row]) is None))(x).tolist() == x.tolist()


def test_floats_and_ints_are_those_of_each_call() -> None:
    x, w = draw(5), draw(5)
    for factor in (2.0, -0.5, 2.0, float("inf")):
        for times in (3, 1):
            torch.testing.assert_close(UNIT.scaled(x, w, factor, times), torch.tanh(x * w) * factor * times)
    for _ in range(2):
        torch.testing.assert_close(UNIT.scaled(x, w), torch.tanh(x * w) * 6)
        (found,) = torch.autograd.grad(UNIT.scaled(x, w, 0.25).sum(), x)
        (want,) = torch.autograd.grad((torch.tanh(x * w) * 0.75).sum(), x)
        torch.testing.assert_close(found, want)
    assert all(isinstance(call, NodeCall) for call in prepared(UNIT.scaled))


def test_what_floats_decide_is_decided_by_each() -> None:
    x = draw(4)
    for factor in (2.0, 0.5, 2.0, 0.5):
        found = UNIT.powered(x, factor)
        torch.testing.assert_close(found, (x * x if factor > 1 else x) * factor)
        (gradient,) = torch.autograd.grad(found.sum(), x)
        torch.testing.assert_close(gradient, 2 * x * factor if factor > 1 else torch.full_like(x, factor))


def test_outputs_that_are_one_and_outputs_without_gradient() -> None:
    x, w = draw(3, 4), draw(4)
    for _ in range(3):
        first, second, count, third = UNIT.several(x, w)
        assert first.requires_grad and second.requires_grad and not count.requires_grad
        assert torch.equal(first, second)
        found = torch.autograd.grad((first * 2 + second * 3 + third).sum(), (x, w))
        y = torch.sin(x * w)
        for have, want in zip(found, torch.autograd.grad((y * 5 + torch.exp(y)).sum(), (x, w)), strict=True):
            torch.testing.assert_close(have, want)
        # The gradients of some outputs are undefined.
        (have,) = torch.autograd.grad(third.sum(), x, retain_graph=True) if third.grad_fn is None else (None,)
        assert have is None


def test_gradients_of_some_outputs() -> None:
    x, w = draw(3, 4), draw(4)
    for _ in range(2):
        for which in (0, 1, 3):
            outputs, eager = UNIT.several(x, w), torch.sin(x * w)
            (have,) = torch.autograd.grad(outputs[which].sum(), x)
            (want,) = torch.autograd.grad((torch.exp(eager) if which == 3 else eager).sum(), x)
            torch.testing.assert_close(have, want)


def test_results_share_no_memory_with_arguments() -> None:
    x, w = draw(3), draw(3)
    for _ in range(2):
        same, _ = UNIT.passes(x, w)
        with torch.no_grad():
            same.add_(1)
        assert x._version == 0


def test_gradients_in_any_strides_and_dtypes() -> None:
    x, w, b = draw(3, 4), draw(4), draw(4)
    negated = torch.complex(draw(3, 4).detach(), draw(3, 4).detach()).conj().imag
    for seed in (torch.ones(()).expand(3, 4), draw(4, 3).t(), draw(3, 8)[:, ::2], draw(3, 4).flip(0), negated):
        seed = seed.detach().double()
        want = torch.autograd.grad(torch.nn.functional.layer_norm(x, [4], w, b), (x, w, b), seed)
        for _ in range(2):
            for have, wanted in zip(torch.autograd.grad(UNIT.norm(x, w, b), (x, w, b), seed), want, strict=True):
                torch.testing.assert_close(have, wanted)


def test_what_is_saved_may_come_back_in_other_strides() -> None:
    x, w = draw(3, 4), draw(3, 4)
    UNIT.own(x, w)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t.t().contiguous().t()):
        found = UNIT.own(x, w)
    for have, want in zip(torch.autograd.grad(found.sum(), (x, w)), (w, x), strict=True):
        assert torch.equal(have, want)


def test_changes_to_what_is_saved_are_seen() -> None:
    x, w = draw(3), draw(3)
    for _ in range(2):
        moved = x * 1
        out = UNIT.own(moved, w)
        with torch.no_grad():
            moved.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
    out = UNIT.own(x, w)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.sum().backward()


def test_a_gradient_that_does_not_fit_is_told_each_time() -> None:
    x, w = draw(3, 4), draw(3, 4)
    told = set()
    for _ in range(3):
        out = UNIT.wrong(x, w)
        with pytest.raises(gs.RuntimeFailure, match="size") as caught:
            out.sum().backward()
        told.add((caught.value.code, str(caught.value)))
    assert [code for code, _ in told] == ["R101"]


def test_nothing_is_remembered_of_calls_that_fail() -> None:
    for _ in range(2):
        with pytest.raises(gs.RuntimeFailure):
            UNIT.norm(draw(3, 4), draw(5), draw(4))
    with pytest.raises(gs.RuntimeFailure, match="positional arguments"):
        UNIT.own(draw(3), draw(3), draw(3))


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradscript.runtime.torch import calls

    monkeypatch.setattr(calls, "MAX_PREPARED", 3)
    unit = gs.CompilationUnit("def f(x):\n    return x * 2\n")
    for size in (*range(1, 7), 1):
        assert torch.equal(unit.f(draw(size)), draw(size) * 2)
    assert len(prepared(unit.f)) == 3


def test_gradients_are_gradchecked_through_prepared_calls(runs: KernelRuns) -> None:
    inputs = [draw(3, 4), draw(4), draw(4)]
    assert torch.autograd.gradcheck(UNIT.norm, inputs)
    assert torch.autograd.gradgradcheck(UNIT.norm, inputs)
    assert -1 not in runs.kernels and len(prepared(UNIT.norm)) >= 1

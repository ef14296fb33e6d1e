"""gs.graphed on a device that records: replays do what was captured, on what calls bring, and guards stand outside."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import gradscript as gs
import pytest
import torch
from graph_recording import RecordingDriver, graph_device

UNIT = gs.CompilationUnit("""
def layer(x, w, b):
    return F.gelu(torch.tanh(x) @ w + b) * 2.0


def stacked(x, ws: List[Tensor], rounds: int):
    for i in range(rounds):
        for j in range(len(ws)):
            x = torch.tanh(x @ ws[j]) * (i + 1) + x if i % 2 == 0 else torch.sin(x)
    return x.pow(2).mean(), x


def refined(x, w):
    while float((x * x).sum()) > 0.5:
        x = torch.tanh(x @ w) * 0.5
    return x.sum()


def chosen(x):
    return x[x > 0].sum()


def dropped(x):
    return F.dropout(x, 0.5, True).sum()


def scaled(x, factor: float):
    return (x * factor).sum()


def loss(w, x):
    return F.gelu(x @ w).pow(2).mean()
""")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingDriver]:
    with graph_device(monkeypatch) as found:
        yield found


def draw(*shape: int, seed: int = 0, grad: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=grad)


def layer(x: Any, w: Any, b: Any) -> Any:
    return torch.nn.functional.gelu(torch.tanh(x) @ w + b) * 2.0


def close(have: Any, want: Any) -> None:
    torch.testing.assert_close(have.detach(), want.detach(), rtol=1e-12, atol=1e-12)


def refused(code: str, text: str) -> Any:
    return pytest.raises(gs.RuntimeFailure, match=rf"{code}\]: .*{text}")


def test_replays_run_on_what_calls_bring(device: RecordingDriver) -> None:
    example = [draw(3, 4), draw(4, 5), draw(5)]
    step = gs.graphed(UNIT.layer, *example)
    kept = [tensor.clone() for tensor in example]
    for seed in (1, 2):
        given = [draw(3, 4, seed=seed), draw(4, 5, seed=seed), draw(5, seed=seed)]
        device.launches.clear()
        close(step(*given), layer(*given))
        assert len(device.launches) == 2
    assert step.count == 1 and all(map(torch.equal, example, kept))
    assert repr(step) == "<Graphed layer, 1 kinds of arguments>"


def test_both_passes_are_a_node_of_autograd(device: RecordingDriver) -> None:
    step = gs.graphed(UNIT.layer, draw(3, 4, grad=True), draw(4, 5, grad=True), draw(5))
    for seed in (1, 2):
        given = [draw(3, 4, seed=seed, grad=True), draw(4, 5, seed=seed, grad=True), draw(5, seed=seed)]
        want, found = layer(*given), step(*given)
        close(found, want)
        upstream = draw(3, 5, seed=seed)
        wanted = torch.autograd.grad(want, given[:2], upstream)
        for have, expected in zip(torch.autograd.grad(found, given[:2], upstream), wanted, strict=True):
            close(have, expected)
    assert step.count == 1


def test_loops_that_the_host_decides_are_in_the_graph(device: RecordingDriver) -> None:
    ws = [draw(4, 4, grad=True), draw(4, 4, seed=1, grad=True)]
    step = gs.graphed(UNIT.stacked, draw(3, 4, grad=True), ws, 3)
    x = draw(3, 4, seed=5, grad=True)
    (mean, last), (want, wanted_last) = step(x, ws, 3), UNIT.stacked(x, ws, 3)
    close(mean, want)
    close(last, wanted_last)
    found = torch.autograd.grad([mean, last], [x, *ws], [torch.tensor(2.0, dtype=torch.float64), draw(3, 4)])
    expected = torch.autograd.grad([want, wanted_last], [x, *ws], [torch.tensor(2.0, dtype=torch.float64), draw(3, 4)])
    for have, gradient in zip(found, expected, strict=True):
        close(have, gradient)
    # One of two results alone.
    (have,) = torch.autograd.grad(step(x, ws, 3)[0], x)
    close(have, torch.autograd.grad(UNIT.stacked(x, ws, 3)[0], x)[0])


def test_a_step_with_its_gradients_is_one_graph(device: RecordingDriver) -> None:
    step = gs.graphed(gs.value_and_grad(UNIT.loss), draw(4, 5), draw(3, 4))
    w, x = draw(4, 5, seed=3), draw(3, 4, seed=3)
    value, gradient = step(w, x)
    wanted, expected = gs.value_and_grad(UNIT.loss)(w, x)
    close(value, wanted)
    close(gradient, expected)


def test_a_step_with_its_optimizer_is_one_graph(device: RecordingDriver) -> None:
    """What a function holds is read and written where it lies."""
    w, x = draw(4, 5), draw(3, 4)
    wanted = w.clone()

    def train(x: Any) -> Any:
        value, gradient = gs.value_and_grad(UNIT.loss)(w, x)
        w.sub_(gradient, alpha=0.1)
        return {"loss": value, "rate": 0.1}

    step = gs.graphed(train, x, warmups=1)
    w.copy_(wanted)
    for seed in range(3):
        x = draw(3, 4, seed=seed)
        result = step(x)
        value, gradient = gs.value_and_grad(UNIT.loss)(wanted, x)
        wanted = wanted - 0.1 * gradient
        close(result["loss"], value)
        close(w, wanted)
        assert result["rate"] == 0.1


def test_parameters_are_read_where_they_lie(device: RecordingDriver) -> None:
    w = torch.nn.Parameter(draw(4, 5))
    step = gs.graphed(UNIT.loss, w, draw(3, 4))
    for seed in range(3):
        x = draw(3, 4, seed=seed)
        w.grad = None
        step(w, x).backward()
        first = w.grad.clone()
        close(first, torch.autograd.grad(UNIT.loss(w, x), w)[0])
        # What is accumulated is none of the graph's memory.
        step(w, x).backward()
        close(w.grad, 2 * first)
        with torch.no_grad():
            w -= 0.1 * first
    assert step.count == 1
    step(torch.nn.Parameter(draw(4, 5)), draw(3, 4))
    assert step.count == 2


def test_calls_of_another_kind_are_captured_as_well(device: RecordingDriver) -> None:
    step = gs.graphed(UNIT.scaled, draw(3, 4), 2.0)
    for shape, factor, grad in (((3, 4), 3.0, False), ((2, 4), 2.0, False), ((3, 4), 2.0, True), ((3, 4), -0.0, False)):
        x = draw(*shape, grad=grad)
        found = step(x, factor)
        close(found, (x * factor).sum())
        assert found.requires_grad == grad
    assert step.count == 5
    with torch.no_grad():
        assert not step(draw(3, 4, grad=True), 2.0).requires_grad
    assert step.count == 6


def test_beyond_so_many_kinds_the_function_itself_runs(device: RecordingDriver) -> None:
    step = gs.graphed(UNIT.scaled, draw(3, 4), 0.0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in range(1, 12):
            close(step(draw(3, 4), float(i)), draw(3, 4).sum() * i)
    assert step.count == 8 and len(told) == 1
    message = str(told[0].message)
    assert "scaled has met more than 8 kinds of arguments" in message
    assert "value 2 of the arguments was 7.0, and is 8.0; what is in a tensor may change" in message


def test_what_the_host_waits_for_is_refused(device: RecordingDriver) -> None:
    with refused("R106", "the host waits for what is in a tensor") as caught:
        gs.graphed(UNIT.refined, draw(3, 4), draw(4, 4))
    assert caught.value.span.line == 14 and "torch.where" in str(caught.value)
    with refused("R106", "the host waits"):
        gs.graphed(UNIT.chosen, draw(3, 4))
    with refused("R106", "the host waits"):
        gs.graphed(lambda x: x * float(x.sum()), draw(3))


def test_what_draws_on_the_host_is_refused(device: RecordingDriver) -> None:
    with refused("R106", "draws random numbers on the host"):
        gs.graphed(lambda x: x * torch.rand(3), draw(3))
    with refused("R106", "it seeds the generator"):
        gs.graphed(lambda x: gs.random.manual_seed(3) or UNIT.dropped(x), draw(3))


def test_what_a_replay_would_leave_out_is_refused(device: RecordingDriver) -> None:
    with refused("R106", "it writes to value 2 of its arguments"):
        gs.graphed(lambda x, y: y.add_(x), draw(3), draw(3))
    held = draw(3, grad=True)
    with refused("R106", "gradients with respect to tensors that are none of its arguments"):
        gs.graphed(lambda x: x * held, draw(3))
    close(gs.graphed(lambda x: (x * held).detach(), draw(3))(draw(3, seed=2)), draw(3, seed=2) * held)


def test_an_older_result_has_no_backward(device: RecordingDriver) -> None:
    x = draw(3, 4, grad=True)
    step = gs.graphed(UNIT.scaled, x, 2.0)
    first = step(x, 2.0)
    second = step(x, 2.0)
    with refused("R106", "the graph has run since"):
        first.backward()
    second.backward(retain_graph=True)
    with refused("R106", "the graph has run since"):
        second.backward()
    result = step(x, 2.0)
    squared = result * result
    step(x, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.backward()
    with refused("R106", "a graph has no derivative of its backward"):
        torch.autograd.grad(step(x, 2.0), x, create_graph=True)


def test_an_error_of_the_function_is_its_own(device: RecordingDriver) -> None:
    with refused("R101", "mat1 and mat2 shapes cannot be multiplied|do not fit"):
        gs.graphed(UNIT.layer, draw(3, 4), draw(5, 4), draw(4))


def test_inside_of_a_capture_or_a_transform_the_function_itself_runs(device: RecordingDriver) -> None:
    inner = gs.graphed(UNIT.scaled, draw(3, 4), 2.0)
    outer = gs.graphed(lambda x: inner(x, 2.0) + 1, draw(3, 4))
    x = draw(3, 4, seed=7)
    close(outer(x), (x * 2.0).sum() + 1)
    close(torch.func.vmap(lambda row: inner(row, 2.0))(x), (x * 2.0).sum(1))
    assert inner.count == 1


def test_without_a_device_it_says_so() -> None:
    with refused("R003", "no tensor among the arguments is on one: a CUDA graph") as caught:
        gs.graphed(UNIT.scaled, 1.0, 2.0)
    assert caught.value.span.line == 27
    with refused("R003", "value 1 of the arguments is on cpu"):
        gs.graphed(UNIT.scaled, draw(3), 2.0)
    with refused("R003", "value 1 of the arguments is a ndarray"):
        gs.graphed(UNIT.scaled, draw(3).numpy(), 2.0)
    with pytest.raises(TypeError, match=r"gs.graphed takes a function, not int"):
        gs.graphed(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="warmups is 1 or more"):
        gs.graphed(UNIT.scaled, draw(3), 2.0, warmups=0)

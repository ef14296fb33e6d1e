"""Steps that draw random numbers as graphs: each replay draws what the step itself would, and its backward the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.runtime.settings import random
from graph_recording import RecordingDriver, graph_device

UNIT = gs.CompilationUnit("""
def dropped(x):
    return F.dropout(x, 0.5, True)


def layers(x, ws: List[Tensor]):
    for i in range(len(ws)):
        x = F.dropout(torch.tanh(x @ ws[i]), 0.3, True) + x
    return x


def chosen(x, ws: List[Tensor], trains: bool):
    if trains:
        x = F.dropout(x, 0.5)
    for w in ws:
        x = F.dropout2d((x @ w).unsqueeze(0).unsqueeze(0), 0.5, trains).squeeze(0).squeeze(0)
    return x


def recomputed(x, ws: List[Tensor]):
    for w in ws:
        x = gs.recompute(F.dropout(torch.tanh(x @ w), 0.3, True) * 2.0) + x
    return x


def derived(x):
    seed = gs.seed()
    return x * gs.uniform(seed, x.size()) + gs.uniform(3 * seed - 1, x.size()) - gs.uniform(-seed, [1])


def scaled(x):
    return x * gs.seed() * 1e-19


def noised(x):
    return x + torch.randn_like(x) * torch.randint(1, 5, [3], dtype=torch.float64)


def attended(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)


def drawing_backward(x):
    def backward(g):
        return g * gs.uniform(gs.seed(), x.size())
    return x * 2.0, backward


def looked(x):
    seed = gs.seed()
    if seed % 2 == 0:
        return x * 2
    return x


def compared(x):
    return x * (gs.seed() > 5)


def tabled(x):
    return x * float(gs.seed())


def told(x):
    return x, gs.seed()
""")
Arguments = Callable[[int], list[Any]]


def draw(*shape: int, seed: int = 0, grad: bool = True) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=grad)


def weights(seed: int) -> list[torch.Tensor]:
    return [draw(4, 4, seed=seed + 7 * i) for i in range(3)]


DRAWING: dict[str, Arguments] = {
    "dropped": lambda seed: [draw(3, 4, seed=seed)],
    "layers": lambda seed: [draw(3, 4, seed=seed), weights(seed)],
    "chosen": lambda seed: [draw(3, 4, seed=seed), weights(seed), True],
    "recomputed": lambda seed: [draw(3, 4, seed=seed), weights(seed)],
    "derived": lambda seed: [draw(3, 4, seed=seed)],
    "scaled": lambda seed: [draw(3, 4, seed=seed)],
    "noised": lambda seed: [draw(2, 3, seed=seed)],
    "attended": lambda seed: [draw(2, 5, 4, seed=seed + i) for i in range(3)],
    "drawing_backward": lambda seed: [draw(3, 4, seed=seed)],
}


@pytest.fixture(params=[False, True], ids=["tensors", "addresses"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingDriver]:
    with graph_device(monkeypatch, by_address=request.param) as found:
        yield found


def refused(text: str) -> Any:
    return pytest.raises(gs.RuntimeFailure, match=rf"R106\]: .*{text}")


def steps_of(function: Any, arguments: Arguments, *, records: bool) -> list[torch.Tensor]:
    """What three calls give, and their gradients."""
    found = []
    for turn in range(3):
        given = arguments(turn)
        result = function(*given)
        found.append(result.detach().clone())
        if records:
            leaves = [leaf for value in given for leaf in (value if isinstance(value, list) else [value])]
            leaves = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            upstream = torch.linspace(-1, 2, result.numel(), dtype=torch.float64).reshape(result.shape)
            found += [gradient.clone() for gradient in torch.autograd.grad(result, leaves, upstream)]
    return found


@pytest.mark.parametrize("records", [True, False], ids=["both passes", "forward"])
@pytest.mark.parametrize("name", DRAWING)
def test_replays_draw_what_the_function_would(name: str, records: bool, device: RecordingDriver) -> None:
    function, arguments = UNIT[name], DRAWING[name]
    with torch.set_grad_enabled(records):
        # Neither what was run nor what is captured before is of any consequence.
        if len(name) % 2:
            steps_of(function, arguments, records=records)
        step = gs.graphed(function, *arguments(9))
        with gs.random.local_seed(5):
            found = steps_of(step, arguments, records=records)
        with gs.random.local_seed(5):
            wanted = steps_of(function, arguments, records=records)
    assert step.count == 1
    for have, want in zip(found, wanted, strict=True):
        assert torch.equal(have, want)


def test_each_replay_draws_anew(device: RecordingDriver) -> None:
    step, x = gs.graphed(UNIT.dropped, draw(30, 40)), draw(30, 40)
    masks = []
    for _ in range(3):
        result = step(x)
        mask = result != 0
        masks.append(mask.clone())
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert torch.equal(gradient != 0, mask)
        assert 0.4 < mask.double().mean() < 0.6
    assert 0.4 < (masks[0] == masks[1]).double().mean() < 0.6
    assert 0.4 < (masks[1] == masks[2]).double().mean() < 0.6


def test_both_passes_in_one_graph_see_the_same_numbers(device: RecordingDriver) -> None:
    source = gs.CompilationUnit("def loss(x):\n    y = F.dropout(x, 0.5, True)\n    return (y * y).sum()\n")
    step = gs.graphed(gs.value_and_grad(source.loss), draw(5, 6, grad=False))
    for seed in (1, 2):
        x = draw(5, 6, seed=seed, grad=False)
        value, gradient = step(x)
        kept = gradient != 0
        torch.testing.assert_close(gradient, torch.where(kept, 8 * x, 0.0))
        torch.testing.assert_close(value, (torch.where(kept, 2 * x, 0.0) ** 2).sum())


def test_what_has_a_generator_of_its_own_draws_the_same_each_time(device: RecordingDriver) -> None:
    def masked(x: Any) -> Any:
        with gs.random.local_seed(3):
            return UNIT.dropped(x)

    step, x = gs.graphed(masked, draw(5, 6)), draw(5, 6, seed=2)
    assert torch.equal(step(x), masked(x)) and torch.equal(step(x), masked(x))


def test_a_capture_draws_nothing_itself(device: RecordingDriver) -> None:
    with gs.random.local_seed(4):
        gs.graphed(UNIT.layers, draw(3, 4), weights(1))
        found = UNIT.dropped(draw(5, 6))
    with gs.random.local_seed(4):
        assert torch.equal(UNIT.dropped(draw(5, 6)), found)


def test_torch_seeds_them_where_nobody_else_does(device: RecordingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "_seeded", False)
    step, x, found = gs.graphed(UNIT.dropped, draw(5, 6)), draw(5, 6), []
    for _ in range(2):
        torch.manual_seed(11)
        found.append(step(x).clone())
    assert torch.equal(*found)


@pytest.mark.parametrize(("name", "line"), [("looked", 51), ("compared", 57), ("tabled", 61)])
def test_what_the_host_does_by_a_seed_is_refused(name: str, line: int, device: RecordingDriver) -> None:
    with refused("a seed that it draws is looked at by the host") as caught:
        gs.graphed(UNIT[name], draw(3, grad=False))
    assert caught.value.span.line == line


def test_a_seed_is_no_result(device: RecordingDriver) -> None:
    with refused("a seed that it draws is among its results"):
        gs.graphed(UNIT.told, draw(3))


def test_a_step_that_draws_otherwise_when_captured_is_refused(device: RecordingDriver) -> None:
    for counts, text in (((1, 1, 1, 2), "more"), ((2, 2, 2, 1), "fewer")):
        turns = iter(counts)

        def drifting(x: Any, turns: Iterator[int] = turns) -> Any:
            for _ in range(next(turns)):
                x = UNIT.dropped(x)
            return x

        with refused(f"draws {text} random numbers"):
            gs.graphed(drifting, draw(3))

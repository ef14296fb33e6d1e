"""Programs run again by lists of launches, where the host decides: right on other elements, nothing shared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from weakref import ref

import gradscript as gs
import pytest
import torch
from graph_recording import RecordingDriver, graph_device

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
import data_programs
import whole_models
from data_programs import compare
from gradscript.runtime.execution.function_executor import forget_compiled
from gradscript.runtime.kernels.launches import native, steps
from gradscript.runtime.kernels.launches.launch_list import LaunchList
from gradscript.runtime.kernels.lists.kept import KeptList
from gradscript.runtime.kernels.lists.recording import Recording
from whole_models import flat

CASES = (
    *((data_programs, name) for name in data_programs.PROGRAMS),
    *((whole_models, name) for name in whole_models.MODELS),
)
LISTED = {"transformer", "translation", "wavenet", "chain", "truncated", "tbptt", "lengths_gru"}
"""What the host decides, forward and backward."""


class Runs:
    """How many lists were made, and how often lists ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[LaunchList] = []
        self.runs = 0
        self.recordings = 0
        keep, run, record = KeptList._keep, LaunchList.run, Recording.run

        def kept(this: KeptList, made: LaunchList) -> None:
            self.made.append(made)
            keep(this, made)

        def ran(this: LaunchList, *given: Any) -> list[Any]:
            self.runs += 1
            return run(this, *given)

        def recorded(this: Recording, *given: Any) -> Any:
            self.recordings += 1
            return record(this, *given)

        monkeypatch.setattr(KeptList, "_keep", kept)
        monkeypatch.setattr(LaunchList, "run", ran)
        monkeypatch.setattr(Recording, "run", recorded)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


_LAST: list[str] = []


@pytest.fixture(params=["python", "native", "addresses"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """By the steps' own Python, without it, and with launches that know nothing but addresses."""
    if request.param == "python":
        monkeypatch.setattr(native, "_steps_type", lambda: None)
    elif native._steps_type() is None:
        pytest.skip("needs a compiler of C, and Python's headers")
    if not _LAST or _LAST[0] != request.param:
        # Lists stay with what was compiled.
        forget_compiled()
        _LAST[:] = [request.param]
    with graph_device(monkeypatch, by_address=request.param == "addresses") as found:
        yield found


def other(value: Any, turn: int) -> Any:
    """Of the same kind, with other elements; what data decide stays."""
    if isinstance(value, list):
        return [other(item, turn) for item in value]
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return (value.detach() * (1 + 0.003 * turn)).requires_grad_()


def both(function: Any, values: list[Any]) -> list[Any]:
    """The results and all gradients of the sum of their squares."""
    result = function(*values)
    results = list(result) if isinstance(result, tuple) else [result]
    total = sum((one.double() ** 2).sum() for one in results if one.is_floating_point())
    leaves = [tensor for tensor in flat(values) if tensor.requires_grad]
    return [*[one.detach() for one in results], *torch.autograd.grad(total, leaves, allow_unused=True)]


@pytest.mark.parametrize(("programs", "name"), CASES)
def test_programs_run_again(programs: Any, name: str, device: RecordingDriver, runs: Runs) -> None:
    values = whole_models.tensors(whole_models.arguments(name)) if programs is whole_models else None
    values = values or data_programs.arguments(name, 0)
    found, wanted = [], []
    for turn in range(4):
        given = [other(value, turn) for value in values]
        wanted.append(both(programs.eager(name), given))
        found.append(both(programs.UNIT[name], given))
    for turn in range(4):
        # What was given out is nobody else's: later calls leave it as it was.
        compare(found[turn], wanted[turn])
    if name in LISTED:
        assert len(runs.made) >= 2 and runs.runs >= 4, (len(runs.made), runs.runs)
        assert bool(device.at_addresses) == (_LAST[0] == "addresses")


UNIT = gs.CompilationUnit("""
def rates(x, w, rate: float, n: int):
    for i in range(n):
        x = torch.tanh(x @ w) * rate + x * (rate * 0.5)
    return x

def lesser(x, w, a: float, b: float, n: int):
    for i in range(n):
        x = torch.tanh(x @ w) * min(a, b) + a * max(b, 0.5)
    return x

def dropped(x, ws: List[Tensor], n: int):
    for i in range(n):
        x = F.dropout(torch.relu(x @ ws[i]), 0.5, True)
    return x

def seeded(x, w, seed: int, n: int):
    for i in range(n):
        x = torch.relu(x @ w) * gs.uniform(seed, x.size(), dtype=torch.float64) + x
    return x

def masked(x, w, seeds: List[int]):
    for i in range(2):
        x = torch.relu(x @ w) * gs.uniform(seeds[i], x.size(), dtype=torch.float64) + x
    return x

def drawn(x, seed: int):
    return gs.uniform(seed, x.size(), dtype=torch.float64)

def rows(x, w):
    kept: List[Tensor] = []
    for i in range(x.size(0)):
        kept.append(torch.tanh(x[i] @ w))
    return torch.stack(kept), kept[0]

def until(x, w):
    while float(x.abs().amax()) < 3.0:
        x = x @ w + x
    return x

def passed(x, y, n: int):
    for i in range(n):
        x, y = y, x
    return x, y, torch.exp(x)

def told(x, w, n: int):
    for i in range(n):
        x = torch.relu(x @ w)
        print(n)
    return x

def inverted(x, w, n: int):
    for i in range(n):
        x = torch.linalg.inv(torch.tanh(x)) @ w
    return x

def doubled(x, w, n: int):
    for i in range(n):
        y = torch.exp(x)
        x = torch.cat([torch.tanh(y) * x, torch.sin(y)], 1) @ w
    return x

def grown(x, w, n: int):
    kept: List[Tensor] = []
    for i in range(n):
        x = torch.exp(torch.tanh(x @ w))
        kept.append(x)
    return x, x.t(), x[0], kept[0], kept

def raised(x, w, n: int):
    for i in range(n):
        x = torch.exp(torch.tanh(x @ w))
    return x

def picked(x, n: int):
    total = x.sum() * 0.0
    for i in range(n):
        total = total + x[x > float(i)].sum() * (x > float(i)).nonzero().size(0)
    return total
""")


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


def test_floats_are_those_of_each_call(device: RecordingDriver, runs: Runs) -> None:
    x, w = draw(3, 4), draw(4, 4) / 2
    for rate in (0.5, 0.25, 0.125, 2.0, float("inf"), -0.0, 1e39):
        want = x
        for _ in range(3):
            want = torch.tanh(want @ w) * rate + want * (rate * 0.5)
        torch.testing.assert_close(UNIT.rates(x, w, rate, 3), want, equal_nan=True, rtol=1e-12, atol=1e-12)
    assert len(runs.made) == 1 and runs.runs >= 2


def test_a_float_that_is_one_of_two_is_chosen_by_each_call(device: RecordingDriver, runs: Runs) -> None:
    x, w = draw(3, 4), draw(4, 4) / 2
    for a, b in ((0.2, 0.3), (0.25, 0.35), (0.3, 0.4), (0.7, 0.1), (0.4, 0.9), (0.9, 0.4)):
        want = x
        for _ in range(40):
            want = torch.tanh(want @ w) * min(a, b) + a * max(b, 0.5)
        torch.testing.assert_close(UNIT.lesser(x, w, a, b, 40), want, rtol=1e-12, atol=1e-12)
    assert len(runs.made) == 1 and runs.runs >= 3


@pytest.mark.parametrize("rounds", [1, 3])
def test_seeds_are_drawn_by_each_call(rounds: int, device: RecordingDriver, runs: Runs) -> None:
    """And the backward draws the masks of its own forward again, whatever was drawn since."""
    x, ws = draw(16, 16).abs().requires_grad_(), [draw(16, 16, seed=i).abs() for i in range(rounds)]
    masks, waiting = [], []
    for _ in range(5):
        result = UNIT.dropped(x, ws, rounds)
        masks.append((result > 0).double())
        waiting.append(result)
    for result, mask in zip(waiting, masks, strict=True):
        (gradient,) = torch.autograd.grad(result.sum(), x)
        if rounds == 1:
            torch.testing.assert_close(gradient, 2 * mask @ ws[0].t())
        # Of a function that is linear where all is positive.
        torch.testing.assert_close((gradient * x).sum(), result.sum())
    assert all(not torch.equal(one, two) for i, one in enumerate(masks) for two in masks[:i])
    assert rounds == 1 or (len(runs.made) == 2 and runs.runs == 6 and runs.recordings == 2)


def test_a_seed_may_be_an_argument(device: RecordingDriver, runs: Runs) -> None:
    x, w, first = draw(16, 16), draw(16, 16), None
    for turn, seed in enumerate((7, 8, 1 << 40, 1 << 41, 1 << 42, 7)):
        found = UNIT.seeded(x, w, seed, 3)
        again = UNIT.seeded(x, w, seed, 3)
        assert torch.equal(found, again), (turn, seed)
        first = found if turn == 0 else first
    assert torch.equal(found, first) and not torch.equal(UNIT.seeded(x, w, 8, 3), found)


def test_one_seed_may_be_two_the_next_time(device: RecordingDriver, runs: Runs) -> None:
    x, w = draw(16, 16), draw(16, 16)
    for seeds in ([1 << 40, 1 << 40], [1 << 40, 1 << 40], [1 << 40, 1 << 41], [1 << 40, 1 << 41], [1 << 42, 1 << 40]):
        found, wanted = UNIT.masked(x, w, seeds), x
        for seed in seeds:
            wanted = torch.relu(wanted @ w) * UNIT.drawn(x, seed) + wanted
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_the_same_tensor_twice_may_be_two_the_next_time(device: RecordingDriver, runs: Runs) -> None:
    x, y = draw(3, 4), draw(3, 4, seed=9)
    for _ in range(2):
        first, second, third = UNIT.passed(x, x, 3)
        assert first is x and second is x
    for _ in range(2):
        first, second, third = UNIT.passed(x, y, 3)
        assert torch.equal(first, y) and torch.equal(second, x)
        torch.testing.assert_close(third, torch.exp(y))


def test_results_of_rounds(device: RecordingDriver, runs: Runs) -> None:
    for turn in range(4):
        x, w = draw(5, 4, seed=turn).requires_grad_(), draw(4, 4, seed=turn)
        compare(both(UNIT.rows, [x, w]), both(lambda x, w: (torch.tanh(x @ w), torch.tanh(x[0] @ w)), [x, w]))
    assert len(runs.made) == 2 and runs.runs == 4


@pytest.mark.parametrize("name", ["until", "picked", "told"])
def test_what_data_decide_and_what_is_printed_has_none(
    name: str, device: RecordingDriver, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    x, w = draw(4, 4), draw(4, 4)
    arguments = {"until": [x, w], "picked": [x, 2], "told": [x, w, 2]}[name]
    results = [UNIT[name](*arguments) for _ in range(4)]
    assert all(torch.equal(result, results[0]) for result in results)
    assert not runs.made and runs.recordings == 1
    if name == "told":
        assert capsys.readouterr().out == "2\n" * 8


def test_an_error_is_the_plans_own(device: RecordingDriver, runs: Runs) -> None:
    """What goes wrong in a list is told with the place where it stands in the program."""
    x, w = torch.eye(4, dtype=torch.float64), draw(4, 4)
    for _ in range(3):
        UNIT.inverted(x, w, 3)
    assert runs.runs == 1
    with pytest.raises(gs.RuntimeFailure) as caught:
        UNIT.inverted(x, torch.zeros(4, 4, dtype=torch.float64), 3)
    assert runs.runs == 2 and caught.value.op == "aten::inverse"
    assert "in round 2 of the loop" in str(caught.value)


def test_memory_is_freed_after_its_last_use(
    device: RecordingDriver, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w, most = draw(3, 4), draw(8, 4), []
    for rounds in (5, 50):
        UNIT.doubled(x, w, rounds)
        alive: list[Any] = []
        counts: list[int] = []

        def made(*shape: Any, _alive: list[Any] = alive, _counts: list[int] = counts, **kind: Any) -> torch.Tensor:
            tensor = torch.empty_strided(*shape, **kind)
            _alive.append(ref(tensor))
            _counts.append(sum(one() is not None for one in _alive))
            return tensor

        monkeypatch.setattr(steps, "_empty", made)
        UNIT.doubled(x, w, rounds)
        alive.clear()
        counts.clear()
        UNIT.doubled(x, w, rounds)
        most.append(max(counts))
    assert runs.runs == 2 and most[0] == most[1] <= 3, most


def test_results_are_nobody_elses(device: RecordingDriver, runs: Runs) -> None:
    """Where a list gives them too: views, elements, and what is returned twice."""
    for turn in range(5):
        x, w = draw(3, 4, seed=turn).requires_grad_(), draw(4, 4, seed=turn).requires_grad_()
        results = flat([*UNIT.grown(x, w, 3)])
        want = [x]
        for _ in range(3):
            want.append(torch.exp(torch.tanh(want[-1] @ w)))
        wanted = [want[3], want[3].t(), want[3][0], want[1], want[1], want[2], want[3]]
        compare([one.detach() for one in results], [one.detach() for one in wanted])
        gradients = torch.autograd.grad(sum(one.sum() for one in results), [x, w], retain_graph=True)
        compare([*gradients], [*torch.autograd.grad(sum(one.sum() for one in wanted), [x, w], retain_graph=True)])
        (last,) = torch.autograd.grad(results[2].sum(), [w], retain_graph=True)
        compare([last], [*torch.autograd.grad(wanted[2].sum(), [w])])
        distinct = {one.untyped_storage().data_ptr() for one in results}
        assert len(distinct) == len({id(one) for one in results}) and not any(one._is_view() for one in results)
    assert len(runs.made) >= 2 and runs.runs >= 3


def test_what_was_returned_and_is_written_into(device: RecordingDriver, runs: Runs) -> None:
    """It is told of, or else is none of what the backward takes."""
    for turn in range(5):
        x, w = draw(3, 4, seed=turn).requires_grad_(), draw(4, 4, seed=turn).requires_grad_()
        want = x
        for _ in range(3):
            want = torch.exp(torch.tanh(want @ w))
        wanted, result = torch.autograd.grad(want.sum(), [x, w]), UNIT.raised(x, w, 3)
        with torch.no_grad():
            result.mul_(2.0)
        try:
            found = torch.autograd.grad(result.sum(), [x, w])
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
        else:
            compare([*found], [*wanted])
    assert runs.runs >= 2


def test_floats_and_seeds_that_are_kept_are_those_of_each_call(device: RecordingDriver, runs: Runs) -> None:
    x, w, waiting = draw(3, 4).requires_grad_(), draw(4, 4).requires_grad_(), []
    for rate in (0.5, 0.25, 0.125, 2.0, 1.5):
        want = x
        for _ in range(3):
            want = torch.tanh(want @ w) * rate + want * (rate * 0.5)
        waiting.append((UNIT.rates(x, w, rate, 3), want))
    for found, want in waiting:
        compare([*torch.autograd.grad(found.sum(), [x, w])], [*torch.autograd.grad(want.sum(), [x, w])])
    assert runs.runs >= 4


def test_hooks_for_saved_tensors_see_all_that_is_saved(device: RecordingDriver, runs: Runs) -> None:
    for _ in range(4):
        x, w, packed = draw(3, 4).requires_grad_(), draw(4, 4).requires_grad_(), []

        def pack(tensor: torch.Tensor, _packed: list[Any] = packed) -> torch.Tensor:
            _packed.append(tensor)
            return tensor.clone()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            found = UNIT.rates(x, w, 0.5, 3)
        want = x
        for _ in range(3):
            want = torch.tanh(want @ w) * 0.5 + want * 0.25
        compare([*torch.autograd.grad(found.sum(), [x, w])], [*torch.autograd.grad(want.sum(), [x, w])])
        assert len(packed) >= 3

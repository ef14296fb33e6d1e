"""Programs of loops and lists on a CPU, run again by lists on the memory of slots, beside eager torch.

What calls gave is held until the last one has run, and compared then: nothing is anybody else's.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some
from gradscript.runtime.kernels.c.memory import native
from gradscript.runtime.torch.array_runs import lists_run
from round_programs import random_function

CALLS = 12
FLOATS = """
def clipped(x, w, ws: List[Tensor], a: float, b: float, n: int):
    fs = [a, b, 0.5]
    out: List[Tensor] = []
    for i in range(n):
        fs[i % 3] = min(fs[0], fs[1] * 1.1)
        x = torch.tanh(x @ w) * fs[i % 3] + ws[i % len(ws)]
        if i % 2 == 0:
            out.append(x.t())
    return torch.stack(out).sum(0).t() + x

def swapped(x, w, ws: List[Tensor], a: float, b: float, n: int):
    y = x
    for i in range(n):
        x, y = y, torch.sin(x @ w) + x.mean() * abs(min(a, b))
        y = y / max(1.0, b) if i > 2 else y * pow(a, 2)
    return x, y, x.reshape(-1)[: x.numel() // 2]

def rates(x, w, ws: List[Tensor], a: float, b: float, n: int):
    rate = a
    for i in range(n):
        rate = min(rate * 1.5, b)
        x = x - rate * (torch.relu(x) @ w)
        for v in ws:
            x = x + v * (rate if i < 2 else a) * math.exp(-b)
    return x * rate

def decided(x, w, ws: List[Tensor], a: float, b: float, n: int):
    for i in range(n):
        x = x @ w if float(x.sum()) > 0 else torch.tanh(x) * a
        x = x + ws[i % len(ws)]
    return x * b

def noisy(x, w, ws: List[Tensor], a: float, b: float, n: int):
    kept: List[Tensor] = []
    for i in range(n):
        x = F.layer_norm(x @ w, [x.size(-1)]) * a + ws[0] * b
        kept.append(x[:1])
    return torch.cat(kept, 0).sum(0) + x.masked_fill(ws[0] > 0, b), kept[-1] * 2.0

def tied(x, w, ws: List[Tensor], a: float, b: float, n: int):
    h = x * 0.0
    for i in range(n):
        h = torch.tanh(x @ w + h @ w + h * ws[i % len(ws)])
        x = x.t().contiguous().t()
    return h, x.t(), w.t() @ w

def steps_of_momentum(x, w, ws: List[Tensor], a: float, b: float, n: int):
    moved, momentum = [x * 1, ws[0] * 1], [x * b, x * 0]
    for p, m in zip(moved, momentum):
        m.mul_(0.9).add_(p, alpha=0.1)
        p.sub_(m, alpha=2)
        p.add_(m)
    return moved[0] * a, moved[1], momentum[0] * b, momentum[1] @ w
"""
COUNTS = """
def stepped(x, w, ws: List[Tensor], a: float, b: float, k: int):
    for v in ws:
        x = torch.tanh(x @ w) * k + v
    return x * (k + 1), x * b

def decayed(x, w, ws: List[Tensor], a: float, b: float, k: int):
    rate = a / (k * k + 1)
    for i in range(4):
        if float(x.sum()) < 0:
            break
        x = torch.cumsum(x, 0) * 0.5 - rate * k - 0.1
    return x @ w * k

def inner(x, w, ws: List[Tensor], a: float, b: float, k: int):
    for i in range(3):
        h = x * i * k
        for v in ws:
            x = h * k + v @ w
        x = x * 0.5
    return x, h
"""
"""Integers that kernels take at each call, beside a loop."""
NAMES = [line.split("(")[0].removeprefix("def ") for line in FLOATS.splitlines() if line.startswith("def ")]


@pytest.fixture(autouse=True)
def in_c() -> Iterator[None]:
    with gs.settings.backend("c"):
        if not lists_run():
            pytest.skip("needs a compiler of C, Python's headers, and a torch that hands on tensors")
        yield


class Runs:
    """How often what runs on memory gave results, of arrays and of tensors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: dict[bool, int] = {False: 0, True: 0}
        make = native.native_memory

        def made(seen: Any, *, for_tensors: bool) -> Any:
            run = make(seen, for_tensors=for_tensors)

            def counted(flat: list[Any]) -> Any:
                found = run(flat)
                self.of[for_tensors] += found is not NotImplemented
                return found

            return None if run is None else counted

        monkeypatch.setattr("gradscript.runtime.kernels.c.memory.listed.native_memory", made)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def in_torch(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"torch": torch, "List": list, "Tensor": torch.Tensor, "math": math}
    exec("import torch.nn.functional as F\n" + text, names)
    return names


def flat(values: Any) -> list[Any]:
    if isinstance(values, list | tuple):
        return [item for value in values for item in flat(value)]
    return [values]


def drawn(draw: random.Random, rows: int, columns: int) -> torch.Tensor:
    """A matrix, in one of several layouts."""
    kind = draw.random()
    if kind < 0.6:
        return torch.randn(rows, columns, dtype=torch.float64)
    if kind < 0.75:
        return torch.randn(columns, rows, dtype=torch.float64).t()
    if kind < 0.9:
        return torch.randn(rows, 2 * columns, dtype=torch.float64)[:, ::2]
    return torch.randn(1, columns, dtype=torch.float64).expand(rows, columns)


def with_floats(draw: random.Random) -> list[Any]:
    """Arguments, most often of the sizes, strides and kinds that they had before."""
    # Whatever is drawn here is what it was before, three times in four.
    kinds = draw if draw.random() < 0.25 else random.Random(4)
    rows, columns = kinds.choice([2, 2, 5]), kinds.choice([3, 3, 4])
    x, w = drawn(kinds, rows, columns), torch.randn(columns, columns, dtype=torch.float64)
    ws = [torch.randn(rows, columns, dtype=torch.float64).requires_grad_() for _ in range(2)]
    if kinds.random() < 0.15:
        ws[1] = ws[0]
    x = x.detach().requires_grad_(kinds.random() < 0.85)
    first, second = draw.uniform(0.1, 2), draw.uniform(0.1, 2)
    return [x, w.requires_grad_(kinds.random() < 0.8), ws, first, second if draw.random() < 0.85 else first, 5]


def with_counts(draw: random.Random) -> list[Any]:
    """Arguments that differ by an integer too."""
    return [*with_floats(draw)[:-1], draw.randint(-3, 9)]


def of_rounds(draw: random.Random) -> list[Any]:
    """Those of random functions."""
    n = draw.choice([4, 4, 4, 4, 3])

    def tensor(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, dtype=torch.float64) * 0.3).requires_grad_()

    return [tensor(n, 3, 4), tensor(4, 4), [tensor(4, 4) for _ in range(n)], n]


def results_of(f: Any, given: list[Any], order: int) -> list[Any]:
    """What it gives, the gradients of its squares, and of the second order those of the squares of these."""
    leaves = [t for t in dict.fromkeys(flat(given)) if isinstance(t, torch.Tensor) and t.requires_grad]
    results = flat(f(*given))
    if not order or not any(one.requires_grad for one in results):
        return results
    total = sum((one**2).sum() for one in results)
    found = torch.autograd.grad(total, leaves, create_graph=order > 1, allow_unused=True)
    squares = [(g**2).sum() for g in found if g is not None and g.requires_grad]
    more = torch.autograd.grad(sum(squares), leaves, allow_unused=True) if squares else ()
    return [*[one.detach() for one in results], *found, *more]


def compare(pairs: list[tuple[list[Any], list[Any]]], text: str) -> None:
    for turn, (found, want) in enumerate(pairs):
        assert len(found) == len(want), text
        for have, wanted in zip(found, want, strict=True):
            if have is None or wanted is None:
                # A gradient that is zero may be none.
                assert all(one is None or not one.any() for one in (have, wanted)), text
                continue
            have, wanted = (torch.as_tensor(one).detach() for one in (have, wanted))
            torch.testing.assert_close(
                have, wanted, rtol=1e-9, atol=1e-10, msg=lambda m, turn=turn: f"call {turn}: {m}{text}"
            )


def run_beside(unit: Any, names: dict[str, Any], name: str, seed: int, draws: Any, order: int) -> None:
    draw, pairs, text = random.Random(seed), [], f"\n{name}, seed {seed}"
    torch.manual_seed(seed)
    for turn in range(CALLS):
        given = draws(draw)
        grads = order if turn % 5 != 4 else 0
        try:
            with torch.set_grad_enabled(bool(grads)):
                want = results_of(names[name], given, grads)
        except (RuntimeError, IndexError, ZeroDivisionError, TypeError):
            pytest.skip("torch refuses it too")
        with torch.set_grad_enabled(bool(grads)):
            pairs.append((results_of(unit[name], given, grads), want))
    compare(pairs, text)


def run_arrays_beside(unit: Any, names: dict[str, Any], name: str, seed: int, draws: Any) -> None:
    draw, pairs = random.Random(seed), []
    torch.manual_seed(seed)
    for _ in range(CALLS):
        given = draws(draw)
        try:
            want = results_of(names[name], given, 1)
        except (RuntimeError, IndexError, ZeroDivisionError, TypeError):
            pytest.skip("torch refuses it too")
        if not any(one.requires_grad for one in flat(given) if isinstance(one, torch.Tensor)):
            continue
        arrays = [as_arrays(value) for value in given]
        results, pullback = gs.vjp(unit[name], *arrays)
        rows = results if isinstance(results, tuple) else (results,)
        cotangents = tuple([doubled(one) for one in rows])
        found = flat(pullback(*cotangents))
        leaves = flat(given)
        distinct = {id(leaf): i for i, leaf in reversed(list(enumerate(leaves))) if isinstance(leaf, torch.Tensor)}
        gradients: dict[int, Any] = {}
        spread = [g for g, value in zip(found, flat(given), strict=False)] if len(found) == len(leaves) else None
        if spread is None:
            pairs.append((flat(results), want[: len(flat(results))]))
            continue
        for leaf, gradient in zip(leaves, spread, strict=True):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad and gradient is not None:
                place = distinct[id(leaf)]
                gradients[place] = gradient if place not in gradients else gradients[place] + gradient
        wanted = [i for i, leaf in enumerate(leaves) if distinct.get(id(leaf)) == i and leaf.requires_grad]
        pairs.append(([*flat(results), *[gradients.get(i) for i in wanted]], want))
    compare(pairs, f"\n{name}, seed {seed}, arrays")


def as_arrays(value: Any) -> Any:
    if isinstance(value, list):
        return [as_arrays(item) for item in value]
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def doubled(value: Any) -> Any:
    return [doubled(item) for item in value] if isinstance(value, list) else np.asarray(2 * value)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_loops_with_floats(name: str, runs: Runs) -> None:
    unit, names = gs.CompilationUnit(FLOATS), in_torch(FLOATS)
    for seed in range(some(8)):
        run_beside(unit, names, name, seed, with_floats, 1)
        run_arrays_beside(unit, names, name, seed, with_floats)
    # What decides by data has no list, nor has what writes into a list of floats; and on arrays, what is one program.
    if name not in ("decided", "clipped"):
        assert runs.of[True] and (runs.of[False] or name == "steps_of_momentum"), runs.of


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad:UserWarning")
@pytest.mark.parametrize("name", ["stepped", "decayed", "inner"])
def test_integers_that_differ_from_call_to_call(name: str) -> None:
    unit, names = gs.CompilationUnit(COUNTS), in_torch(COUNTS)
    for seed in range(some(8)):
        run_beside(unit, names, name, seed, with_counts, 1)
        run_arrays_beside(unit, names, name, seed, with_counts)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad:UserWarning")
@pytest.mark.parametrize("seed", range(some(40)))
def test_random_loops(seed: int, runs: Runs) -> None:
    text = random_function(seed)
    unit, names = gs.CompilationUnit(text), in_torch(text)
    run_beside(unit, names, "f", seed, of_rounds, 1 + seed % 3 // 2)
    run_arrays_beside(unit, names, "f", seed, of_rounds)

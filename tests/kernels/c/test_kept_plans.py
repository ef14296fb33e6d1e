"""What was planned is kept: another process plans nothing, and what is not what was put there is planned anew."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.execution.function_executor import choose_aggregation
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.c import pair_planning, planning
from gradscript.runtime.kernels.c.kept.plans import KeptPlans

pytestmark = pytest.mark.skipif(compilers.compiler() is None, reason="there is no compiler of C")
SOURCE = """
def swish(x):
    return x * torch.sigmoid(x)

def normed(x, w, b):
    m = x.mean(-1, True)
    c = x - m
    return c * torch.rsqrt((c * c).mean(-1, True) + 1e-5) * w + b

def layer(x, w, b):
    return torch.relu(torch.matmul(x, w) + b), x.t()

def several(xs: List[Tensor], scale: float):
    return torch.cat(xs, -1) * scale, torch.stack(xs)

def sized(x, y, n: int):
    return x.sum(n) + torch.clamp(y, -0.5, 0.5).sum(n) * n

def table(x):
    return x + torch.tensor([0.5, -0.25, -0.0, 3.0])

def missing(x, w: Optional[Tensor] = None):
    if w is None:
        return x * 2
    return x * w

def curved(x, p: float):
    y = x
    for i in range(3):
        y = y * p + x if p > 0.5 else y - x
    return y

def own(x):
    def backward(g):
        return g * 3 + x
    return x * 2, backward

def calls(x):
    return own(x) * torch.exp(x)

def loss(x):
    return (x * torch.exp(x)).sum()

def rounds(x, ws: List[Tensor]):
    for w in ws:
        x = torch.tanh(x @ w) + x
    return x

def until(x, w, limit: float, at: int):
    rounds = 0
    while float((x * x).sum()) > limit:
        x = torch.tanh(x @ w) * 0.5 + x * 0.1
        rounds += 1
        if rounds == 2:
            x = x / w[at + int(w[0, 0] > 1e3)].sum()
    return x * rounds

def grown(x, ws: List[Tensor]):
    ys: List[Tensor] = []
    for w in ws:
        x = torch.tanh(x @ w)
        ys.append(x * 2)
        if float(x.sum()) > 1e3:
            break
    return torch.stack(ys), ys

def pairs(x: Tuple[Tensor, Tensor]):
    return x[0] * x[1], (x[0], x[1] + 1)
"""
DRAW = np.random.default_rng(0)


def drawn(*shape: int, dtype: Any = np.float32) -> Any:
    return DRAW.standard_normal(shape).astype(dtype)


X, W, B = drawn(3, 4), drawn(4), drawn(4)
CALLS: dict[str, tuple[Any, ...]] = {
    "swish": (X,),
    "normed": (X, W, B),
    "layer": (X, drawn(4, 2), drawn(2)),
    "several": ([X, drawn(3, 2), drawn(3, 1)][:1] * 2, 0.75),
    "sized": (X, X * 2, 1),
    "table": (X,),
    "missing": (X, None),
    "curved": (X, 0.75),
    "own": (X,),
    "calls": (X.astype(np.float64),),
    "until": (X, drawn(4, 4) / 4, 0.25, 1),
    "grown": (X, [drawn(4, 4), drawn(4, 4)]),
    "pairs": ((X, W),),
}


def arrays(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [array for item in value for array in arrays(item)]
    return [value]


def both_passes(unit: Any, name: str) -> list[Any]:
    function, arguments = getattr(unit, name), CALLS[name]
    found = arrays(function(*arguments))
    results, pullback = gs.vjp(function, *arguments)
    found += arrays(results)
    seeds = [np.ascontiguousarray(result) for result in arrays(results)]
    given = seeds if not isinstance(results, tuple) or len(results) == len(seeds) else (seeds[0], tuple(seeds[1:]))
    return found + arrays(pullback(*given)) + arrays(pullback(*given))


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    monkeypatch.setattr(KeptPlans, "stopped", False)
    with gs.settings.backend("c"):
        yield


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the graphs that are planned."""
    found: list[str] = []

    def counted(plan: Callable[..., Any]) -> Callable[..., Any]:
        def run(graph: Any, *given: Any, **named: Any) -> Any:
            found.append(getattr(graph, "name", "pair"))
            return plan(graph, *given, **named)

        return run

    monkeypatch.setattr(planning, "fuse", counted(planning.fuse))
    monkeypatch.setattr(planning, "fuse_groups", counted(planning.fuse_groups))
    monkeypatch.setattr(pair_planning, "pair_gradient", counted(pair_planning.pair_gradient))
    monkeypatch.setattr(pair_planning, "planned_pair", counted(pair_planning.planned_pair))
    return found


def same(ones: list[Any], others: list[Any]) -> bool:
    return len(ones) == len(others) and all(
        (one is None and other is None)
        or (type(one) is type(other) and one.dtype == other.dtype and one.tobytes() == other.tobytes())
        for one, other in zip(ones, others, strict=True)
    )


@pytest.mark.parametrize("name", CALLS)
def test_another_unit_of_the_same_text_plans_nothing(name: str, planned: list[str]) -> None:
    first = both_passes(gs.CompilationUnit(SOURCE), name)
    assert planned
    planned.clear()
    again = gs.CompilationUnit(SOURCE)
    assert same(first, both_passes(again, name))
    assert not planned
    with gs.settings.backend("numpy"):
        wanted = both_passes(again, name)
    for have, want in zip(first, wanted, strict=True):
        assert want is None or np.allclose(have, want, 1e-5, 1e-6)


@pytest.mark.parametrize(
    "other", ["x * torch.tanh(x)", "x * torch.sigmoid(x) + 0.0", "x * torch.sigmoid(x * 1.0000001)"]
)
def test_another_text_is_planned(other: str, planned: list[str]) -> None:
    both_passes(gs.CompilationUnit(SOURCE), "swish")
    planned.clear()
    both_passes(gs.CompilationUnit(SOURCE.replace("x * torch.sigmoid(x)", other)), "swish")
    assert planned


@pytest.mark.parametrize("other", [X.T, X.astype(np.float64), X[:2], np.asfortranarray(X), X[::-1]])
def test_other_arguments_are_planned_for(other: Any, planned: list[str]) -> None:
    unit = gs.CompilationUnit(SOURCE)
    unit.swish(X)
    planned.clear()
    again = gs.CompilationUnit(SOURCE)
    np.testing.assert_allclose(again.swish(other), other / (1 + np.exp(-other)), 1e-5)
    assert planned


def test_a_plan_kept_for_lists_of_open_length_is_for_its_own_length_alone(planned: list[str]) -> None:
    def results(unit: Any, count: int) -> list[Any]:
        y, pullback = gs.vjp(unit.rounds, X, ws[:count])
        dx, dws = pullback(np.ones_like(y))
        return [unit.rounds(X, ws[:count]), y, dx, *dws]

    ws = [drawn(4, 4) for _ in range(12)]
    first = gs.CompilationUnit(SOURCE)
    for count in (9, 6, 12, 7):
        results(first, count)
    assert planned
    for count in (7, 8, 5, 12, 1):
        with gs.settings.backend("numpy"):
            wanted = results(gs.CompilationUnit(SOURCE), count)
        again = results(gs.CompilationUnit(SOURCE), count)
        assert len(again) == len(wanted) == 3 + count
        for have, want in zip(again, wanted, strict=True):
            np.testing.assert_allclose(have, want, 1e-4, 1e-5)


def test_what_a_called_function_does_belongs_to_the_text(planned: list[str]) -> None:
    both_passes(gs.CompilationUnit(SOURCE), "calls")
    planned.clear()
    other = gs.CompilationUnit(SOURCE.replace("g * 3 + x", "g * 4 + x"))
    x = CALLS["calls"][0]
    _, pullback = gs.vjp(other.calls, x)
    np.testing.assert_allclose(pullback(np.ones_like(x))[0], (4 * np.exp(x) + x) + 2 * x * np.exp(x), 1e-9)
    assert planned


@pytest.mark.parametrize(
    "damage", [lambda b: b[:50], lambda b: b[:40] + b"x" + b[41:], lambda b: b"", lambda b: b[32:]]
)
def test_a_plan_that_was_damaged_is_made_anew(
    damage: Callable[[bytes], bytes], planned: list[str], tmp_path: Path
) -> None:
    wanted = both_passes(gs.CompilationUnit(SOURCE), "normed")
    for path in (tmp_path / "plans").iterdir():
        path.write_bytes(damage(path.read_bytes()))
    planned.clear()
    assert same(wanted, both_passes(gs.CompilationUnit(SOURCE), "normed"))
    assert planned
    planned.clear()
    assert same(wanted, both_passes(gs.CompilationUnit(SOURCE), "normed"))
    assert not planned


def test_a_plan_put_in_the_place_of_another_is_none(planned: list[str], tmp_path: Path) -> None:
    unit = gs.CompilationUnit(SOURCE)
    unit.swish(X)
    (own,) = (tmp_path / "plans").iterdir()
    unit.table(X)
    (other,) = set((tmp_path / "plans").iterdir()) - {own}
    own.write_bytes(other.read_bytes())
    planned.clear()
    np.testing.assert_allclose(gs.CompilationUnit(SOURCE).swish(X), X / (1 + np.exp(-X)), 1e-5)
    assert planned


def test_plans_are_numbers_and_names(tmp_path: Path) -> None:
    for name in CALLS:
        both_passes(gs.CompilationUnit(SOURCE), name)
    for path in (tmp_path / "plans").iterdir():
        json.loads(path.read_bytes()[32:])


def test_gradients_of_another_kind_and_donated_ones_are_planned_then(planned: list[str]) -> None:
    both_passes(gs.CompilationUnit(SOURCE), "normed")
    planned.clear()
    results, pullback = gs.vjp(gs.CompilationUnit(SOURCE).normed, X, W, B)
    assert not planned
    turned = np.asfortranarray(np.ones_like(results))
    found = pullback(turned)
    assert planned
    with gs.settings.backend("numpy"):
        wanted = gs.vjp(gs.CompilationUnit(SOURCE).normed, X, W, B)[1](turned)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want, 1e-4, 1e-5)
    x = X.copy()
    _, pullback = gs.vjp(gs.CompilationUnit(SOURCE).swish, x, donate_argnums=0)
    (gradient,) = pullback(np.ones_like(x))
    assert np.may_share_memory(gradient, x)


def test_what_an_op_refuses_is_told_by_the_source() -> None:
    unit = gs.CompilationUnit("def f(x, i):\n    y = x * 2\n    return torch.linalg.inv(y) + y.sum()\n")
    x = np.eye(3)
    i = np.zeros(1)
    assert np.isfinite(unit.f(x, i)).all()
    again = gs.CompilationUnit("def f(x, i):\n    y = x * 2\n    return torch.linalg.inv(y) + y.sum()\n")
    with pytest.raises(gs.RuntimeFailure, match=r"inv[\s\S]*:3:"):
        again.f(np.zeros((3, 3)), i)


def test_what_fails_in_a_plan_that_was_kept_is_told_by_the_source(planned: list[str]) -> None:
    x, w = np.ones((2, 4)), np.eye(4)
    told = []
    for turn in range(2):
        function = gs.CompilationUnit(SOURCE, "kept.grad").until
        planned.clear()
        function(x, w, 0.25, 3)
        gs.vjp(function, x, w, 0.25, 3)[1](x)
        assert turn == 0 or not planned
        for call in (function, partial(gs.vjp, function)):
            with pytest.raises(gs.RuntimeFailure) as caught:
                call(x, w * 1e4, 0.25, 3)
            told.append(str(caught.value))
    assert len(set(told)) == 1 and "kept.grad:55:" in told[0], told


def test_a_process_with_sums_of_its_own_keeps_nothing(planned: list[str], tmp_path: Path) -> None:
    restore = choose_aggregation(zeros=["aten::zeros_like"])
    try:
        both_passes(gs.CompilationUnit(SOURCE), "normed")
    finally:
        restore()
    assert KeptPlans.stopped and not list(tmp_path.glob("plans/*"))


def of_rows(unit: Any, name: str, rows: int) -> list[Any]:
    """Results and gradients for arguments with so many rows."""
    x = np.linspace(-2, 2, 4 * rows, dtype=np.float32).reshape(rows, 4)
    others: dict[str, tuple[Any, ...]] = {
        "normed": (x[0].copy(), x[1].copy()),
        "layer": (x[:4, :2].copy(), x[0, :2].copy()),
        "sized": (x * 2, 1),
        "curved": (0.75,),
    }
    function, given = getattr(unit, name), (x, *others.get(name, ()))
    results, pullback = gs.vjp(function, *given)
    found = arrays(results)
    seeds = [np.array(result, order="C") for result in found]
    return [*arrays(function(*given)), *found, *arrays(pullback(*seeds))]


@pytest.mark.parametrize("name", ["swish", "normed", "layer", "sized", "table", "curved", "own", "calls", "loss"])
def test_what_was_planned_for_a_class_of_sizes_is_kept_for_all_of_it(name: str, planned: list[str]) -> None:
    first = gs.CompilationUnit(SOURCE)
    wanted = {rows: of_rows(first, name, rows) for rows in (64, 96, 160, 100)}
    assert planned
    planned.clear()
    for order in ((160, 100, 64), (100, 160, 96)):
        again = gs.CompilationUnit(SOURCE)
        assert all(same(of_rows(again, name, rows), wanted[rows]) for rows in order)
    assert not planned


def test_sizes_of_no_class_that_was_kept_are_planned_and_kept_beside_it(planned: list[str]) -> None:
    first = gs.CompilationUnit(SOURCE)
    for rows in (64, 96):
        of_rows(first, "normed", rows)
    other = gs.CompilationUnit(SOURCE)
    wanted = {rows: of_rows(other, "normed", rows) for rows in (100, 200_000, 200_064)}
    planned.clear()
    again = gs.CompilationUnit(SOURCE)
    assert all(same(of_rows(again, "normed", rows), wanted[rows]) for rows in wanted)
    assert not planned


def test_what_is_kept_holds_no_arguments() -> None:
    for _ in range(2):
        unit, held = gs.CompilationUnit(SOURCE), []
        for rows in (64, 96, 160):
            x = np.zeros((rows, 4), np.float32)
            _, pullback = gs.vjp(unit.normed, x, W, B)
            pullback(np.zeros_like(x))
            held.append(weakref.ref(x))
            del x, pullback
        gc.collect()
        assert all(found() is None for found in held)


def test_gradients_of_another_kind_are_planned_for_sizes_of_a_class_that_was_kept(planned: list[str]) -> None:
    first = gs.CompilationUnit(SOURCE)
    for rows in (64, 96):
        of_rows(first, "normed", rows)
    planned.clear()
    x = np.linspace(-2, 2, 512, dtype=np.float32).reshape(128, 4)
    turned = np.asfortranarray(x)
    _, pullback = gs.vjp(gs.CompilationUnit(SOURCE).normed, x, x[0].copy(), x[1].copy())
    assert not planned
    found = pullback(turned)
    assert planned
    with gs.settings.backend("numpy"):
        wanted = gs.vjp(gs.CompilationUnit(SOURCE).normed, x, x[0].copy(), x[1].copy())[1](turned)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want, 1e-4, 1e-4)


def test_another_process_plans_nothing_and_gives_the_same_bits(tmp_path: Path) -> None:
    code = f"""
import sys, numpy as np, gradscript as gs
gs.settings.backend = "c"
unit = gs.CompilationUnit({SOURCE!r})
x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
y, pullback = gs.vjp(unit.normed, x, x[0].copy(), x[1].copy())
print(y.tobytes().hex(), *[g.tobytes().hex() for g in pullback(y)], unit.table(x).tobytes().hex())
print(gs.grad(unit.loss)(x).tobytes().hex())
print("gradscript.compiler.fusion.fuse" in sys.modules)
"""
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300).stdout
        for _ in range(2)
    ]
    first, second = (text.split() for text in said)
    assert first[:-1] == second[:-1]
    assert (first[-1], second[-1]) == ("True", "False")


def test_where_the_cache_cannot_be_written_calls_run_all_the_same(tmp_path: Path) -> None:
    wanted = both_passes(gs.CompilationUnit(SOURCE), "normed")
    (tmp_path / "plans").chmod(0o500)
    try:
        assert same(wanted, both_passes(gs.CompilationUnit(SOURCE), "normed"))
        both_passes(gs.CompilationUnit(SOURCE), "swish")
    finally:
        (tmp_path / "plans").chmod(0o700)

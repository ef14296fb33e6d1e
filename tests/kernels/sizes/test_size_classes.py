"""Sizes that vary: plans are made for classes of them, and give what a plan for the very sizes does."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import WHOLE, some_of
from gradscript.compiler.fusion.straight import Unfusable
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.c import planned as planned_in_c
from gradscript.runtime.kernels.c.layouts import seen_array
from gradscript.runtime.kernels.size_classes import MAX_FAMILIES, SizeClasses
from sized_functions import TEXT

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.usefixtures("in_c"),
]
UNIT = gs.CompilationUnit(TEXT)
SIZES = (48, 64, 65, 51, 40, 39, 7, 97, 4, 1, 300)
FEW = SIZES if WHOLE else (48, 65, 40, 39, 4, 1)
"""Even and odd ones, around what the functions ask, and the least."""
needs_compiler = pytest.mark.skipif(compilers.compiler() is None, reason="needs a compiler of C")


def arguments(size: int) -> list[np.ndarray]:
    draw = np.random.default_rng(size)
    return [draw.standard_normal((size, 16)).astype(np.float32), draw.standard_normal(16).astype(np.float32)]


def results_of(f: Any, given: list[np.ndarray]) -> list[np.ndarray] | str:
    """What a function gives by two roads, with its gradients for two kinds of seeds; or the error that it ends in."""
    try:
        y, pull_back = gs.vjp(f, *given)
        plain = f(*given)
    except gs.RuntimeFailure as error:
        return str(error).splitlines()[0]
    seeds = [np.linspace(-1, 1, y.size, dtype=np.float32).reshape(y.shape), np.broadcast_to(np.float32(0.5), y.shape)]
    return [y, plain, *pull_back(seeds[0]), *pull_back(seeds[1])]


@needs_compiler
@pytest.mark.parametrize("name", some_of(UNIT.functions))
def test_results_are_those_of_a_plan_for_the_very_sizes_to_the_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {size: results_of(UNIT[name], arguments(size)) for size in FEW}
    monkeypatch.setattr(SizeClasses, "find", lambda *given: None)
    monkeypatch.setattr(SizeClasses, "plan", lambda *given: None)
    other = gs.CompilationUnit(TEXT)
    for size, have in found.items():
        want = results_of(other[name], arguments(size))
        if isinstance(want, str):
            assert have == want, size
            continue
        assert [(a.shape, a.dtype, a.tobytes()) for a in have] == [(a.shape, a.dtype, a.tobytes()) for a in want], size


FEWER = """
def summed(x, w):
    return (torch.sin(x) * w).sum(0)

def biased(x, w):
    return F.gelu(x + w)

def turned_pairs(x, w):
    return torch.cat([-x[:, 8:], x[:, :8]], 1) * w
"""


@needs_compiler
@pytest.mark.parametrize("name", ["summed", "biased", "turned_pairs"])
def test_few_rows_are_of_the_class_of_many_and_give_the_bits_of_their_own_plan(
    name: str, planned: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    f, sizes = gs.CompilationUnit(FEWER)[name], (2, 3, 31, 63, 64, 65, 500)
    for size in (3000, 2500):
        results_of(f, arguments(size))
    before = len(planned)
    found = {size: results_of(f, arguments(size)) for size in sizes}
    assert len(planned) == before
    monkeypatch.setattr(SizeClasses, "find", lambda *given: None)
    monkeypatch.setattr(SizeClasses, "plan", lambda *given: None)
    other = gs.CompilationUnit(FEWER)[name]
    for size, have in found.items():
        assert [a.tobytes() for a in have] == [a.tobytes() for a in results_of(other, arguments(size))], size


@needs_compiler
@pytest.mark.parametrize("name", some_of(["normed", "turned", "standardized", "in_rounds", "counted", "mean_loss"]))
def test_sizes_of_a_class_are_planned_for_once(name: str, planned: list[object]) -> None:
    f = gs.CompilationUnit(TEXT)[name]
    for size in (64, 80, 60, 96):
        results_of(f, arguments(size))
    before = len(planned)
    for size in range(66, 96):
        if size != 80:
            results_of(f, arguments(size))
    assert len(planned) == before


@needs_compiler
def test_what_is_kept_of_rows_has_room_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: dict[str, set[str]] = {}
    module_of = planned_in_c.module_of

    def noted(kernels: Any) -> Any:
        made = module_of(kernels)
        for function in made.functions:
            texts.setdefault(function.name, set()).add(function.text)
        return made

    monkeypatch.setattr(planned_in_c, "module_of", noted)
    f = gs.CompilationUnit("def f(x):\n    return torch.softmax(torch.softmax(x * x.sum(1, True), 0), 1)\n").f
    for size in (40, 20, 200):
        f(np.ones((size, 32), np.float32))
    # That of the first call is for its size alone.
    assert [*map(len, texts.values())] == [2]


@needs_compiler
def test_gradients_of_torch_are_met_for_every_size() -> None:
    for size in SIZES[:6]:
        x, w = (torch.tensor(a, requires_grad=True) for a in arguments(size))
        wanted = (x - x.mean(0)) / torch.sqrt(x.var(0) + 1e-5) * w
        wanted.backward(torch.ones_like(wanted) * 0.5)
        y, pull_back = gs.vjp(UNIT.standardized, *arguments(size))
        for have, want in zip([y, *pull_back(np.full_like(y, 0.5))], [wanted, x.grad, w.grad], strict=True):
            np.testing.assert_allclose(have, want.detach().numpy(), rtol=3e-4, atol=3e-5)


@needs_compiler
def test_a_size_that_does_not_fit_is_told_as_for_the_first() -> None:
    unit = gs.CompilationUnit("def product(x, y):\n    return torch.tanh(x @ y) * 2.0\n")
    for size in (8, 10, 12):
        assert unit.product(np.ones((4, size)), np.ones((size, 3))).shape == (4, 3)
    with pytest.raises(gs.RuntimeFailure, match="do not fit"):
        unit.product(np.ones((4, 14)), np.ones((13, 3)))


@needs_compiler
def test_sizes_that_were_equal_may_differ_later() -> None:
    unit = gs.CompilationUnit("def added(x, y):\n    return torch.tanh(x) + y\n")
    for sizes in ((8, 8), (10, 10), (12, 12), (12, 1), (1, 12), (9, 9)):
        x, y = (np.arange(size, dtype=np.float64) for size in sizes)
        np.testing.assert_allclose(unit.added(x, y), np.tanh(x) + y)
    with pytest.raises(gs.RuntimeFailure):
        unit.added(np.ones(12), np.ones(11))


@needs_compiler
def test_lists_and_strided_arguments_have_classes_too(planned: list[object]) -> None:
    unit = gs.CompilationUnit("""
def joined(parts: List[Tensor], x):
    return torch.cat(parts, 0) * 2.0 + torch.sin(x.t())
""")
    for size in range(20, 40):
        draw = np.random.default_rng(size)
        parts = [draw.standard_normal((size, 6)), draw.standard_normal((size, 6))]
        x = draw.standard_normal((2 * size, 6)).T
        np.testing.assert_allclose(unit.joined(parts, x), np.concatenate(parts) * 2.0 + np.sin(x.T), rtol=1e-12)
    assert len(planned) <= 4


SPREAD = """
def spread(x, dim: List[int], keepdim: bool):
    return torch.var(torch.sin(x), dim, keepdim=keepdim)

def spread_in_all(parts: List[Tensor], dim: Optional[List[int]]):
    total = torch.zeros([])
    for part in parts:
        total = total + torch.sin(part).sum(dim).exp().sum()
    return total
"""


@needs_compiler
def test_so_many_dimensions_as_there_are_stand_in_kernels(planned: list[object]) -> None:
    """A list of dimensions has its length, in whatever lengths others came before: no kernel reduces an open number."""
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    unit = gs.CompilationUnit(SPREAD)
    for dim in ([1], [0, -1], [0, 1, 2], [-2]):
        before = len(planned)
        np.testing.assert_allclose(unit.spread(x, dim, True), np.sin(x).var(tuple(dim), ddof=1, keepdims=True))
        assert len(planned) > before, dim
        for count in (1, 2, 4, 5):
            before, parts = len(planned), [x + i for i in range(count)]
            expected = sum(np.exp(np.sin(part).sum(tuple(dim))).sum() for part in parts)
            np.testing.assert_allclose(unit.spread_in_all(parts, dim), expected)
            assert count == 5 or len(planned) > before, (dim, count)


LOOPED = """
def recurrent(xs, w):
    h = xs[0] * 0.0
    total = torch.zeros([])
    for t in range(xs.size(0)):
        h = torch.tanh(xs[t] + h @ w)
        total = total + h.mean()
    return total, h

def branched(xs, w):
    x = xs[0]
    y = torch.softmax(x * 2.0, -1) @ w if float(x.sum()) > 0.0 else torch.exp(x) @ w
    return y.view(x.size(0), 2, -1).transpose(0, 1).reshape(x.size(0), -1) * 2.0
"""


def looped(f: Any, size: int) -> list[np.ndarray]:
    draw = np.random.default_rng(size)
    given = [draw.standard_normal((5, size, 8)) * 0.3, draw.standard_normal((8, 8)) * 0.3]
    y, pull_back = gs.vjp(f, *given)
    outputs = y if isinstance(y, tuple) else (y,)
    return [*outputs, *pull_back(*[np.full_like(output, 0.25) for output in outputs])]


@needs_compiler
@pytest.mark.parametrize("name", ["recurrent", "branched"])
def test_groups_between_loops_and_branches_have_classes_too(name: str, planned: list[object]) -> None:
    f, counts = gs.CompilationUnit(LOOPED)[name], []
    for size in (16, 20, 24, 33, 40, 41):
        have = looped(f, size)
        counts.append(len(planned))
        with gs.settings.backend("numpy"):
            for a, b in zip(have, looped(f, size), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert len(set(counts[-3:])) == 1, counts


@needs_compiler
def test_integers_that_decide_on_sizes_are_open_as_sizes_are(planned: list[object]) -> None:
    unit = gs.CompilationUnit("""
def columns(x, k: int):
    return x[:, :k] * 2.0 + x[:, k : 2 * k].exp() + torch.full([1, k], 0.5)
""")
    x, counts = np.random.default_rng(0).standard_normal((6, 80)), []
    for k in (20, 24, 30, 17, 39, 1, 0):
        wanted = x[:, :k] * 2.0 + np.exp(x[:, k : 2 * k]) + 0.5
        np.testing.assert_allclose(unit.columns(x, k), wanted, rtol=1e-12)
        counts.append(len(planned))
    assert len(set(counts[1:5])) == 1, counts


class PlanOfOne:
    """A plan that is one number, and asks nothing."""

    def closed(self, atoms: Any) -> int:
        return 1


def test_families_are_bounded_and_known_floats_drive_out_no_others() -> None:
    classes: SizeClasses[PlanOfOne] = SizeClasses(seen_array)
    made: list[object] = []

    def plan(given: Any, symbols: Any) -> PlanOfOne:
        made.append(given)
        return PlanOfOne()

    for size in (8, 10):
        classes.plan([np.ones(size), 0.5], False, plan)
    for number in range(10 * MAX_FAMILIES):
        # What is beyond float32 an op may refuse, so that it is never open.
        classes.plan([np.ones(8), 1e300 + 1e290 * number], True, plan)
    assert len(made) == 1 and classes.find([np.ones(12), 0.25], False) is not None
    for rank in range(1, 4):
        for number in range(MAX_FAMILIES):
            classes.plan([np.ones([8] * rank), "x" * number], False, plan)
    assert sum(map(len, classes._families.values())) == 2 * MAX_FAMILIES


def test_known_floats_are_of_one_family_and_open_once_two_differ() -> None:
    classes: SizeClasses[PlanOfOne] = SizeClasses(seen_array)
    made: list[object] = []

    def plan(given: Any, symbols: Any) -> PlanOfOne:
        made.append(given[1] >= 0.0)
        return PlanOfOne()

    for number in (1.0, 2.0, 3.0, -1.0, 4.0, -0.5, 0.0):
        values = [np.ones(8), number]
        assert classes.find(values, True) or classes.plan(values, True, plan) or number == 1.0
    assert made == [True, False]
    assert classes.find([np.ones(8), float("nan")], True) is None


def test_a_mistake_of_ours_is_no_refusal() -> None:
    classes: SizeClasses[PlanOfOne] = SizeClasses(seen_array)

    def plan(given: Any, symbols: Any) -> PlanOfOne:
        raise KeyError("what is not there")

    assert classes.plan([np.ones(8)], False, plan) is None
    with pytest.raises(KeyError):
        classes.plan([np.ones(10)], False, plan)


def test_what_is_refused_the_plan_for_the_very_sizes_tells() -> None:
    classes: SizeClasses[PlanOfOne] = SizeClasses(seen_array)

    def plan(given: Any, symbols: Any) -> PlanOfOne:
        raise Unfusable("not these")

    for size in (8, 10, 12):
        assert classes.plan([np.ones(size)], False, plan) is None

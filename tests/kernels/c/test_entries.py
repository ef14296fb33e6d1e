"""Calls that go straight to kernels in C: the same results as the calls before them, and nobody else's."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gradscript as gs
import ml_dtypes
import numpy as np
import pytest
from amounts import some_of
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.c import library
from gradscript.runtime.kernels.c.launched import LaunchedKernels

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
TEXT = """
def scaled(x, y, factor: float = 2.0):
    return torch.tanh(x * y) * factor + y

def both(x, y):
    s = torch.sigmoid(x)
    def backward(grad_a, grad_b):
        return grad_a * y * s * (1 - s) + grad_b, grad_a * s
    return (s * y, x + 1), backward

def loss(x, y):
    return ((x - y) * torch.sigmoid(x)).sum()

def rows(w, i, scale: int = 1):
    return F.embedding(i, w) * scale

def noisy(x):
    return x + torch.rand_like(x)

def both_the_same(x, y):
    return x + y

def itself(x, y):
    return x, x * y
"""
NAMES = ("scaled", "both", "loss", "both_the_same")
RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((2, 3, 5)).astype(np.float32)


@pytest.fixture(autouse=True)
def in_c(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.getbasetemp() / "entries"))
    with gs.settings.backend("c"):
        yield


@pytest.fixture
def unit() -> gs.CompilationUnit:
    return gs.CompilationUnit(TEXT)


needs_types = pytest.mark.skipif(
    compilers.compiler() is None or bool(library.missing_headers()), reason="there is no compiler, or no Python.h"
)


def arrays(value: Any) -> list[Any]:
    """The arrays of a result, tuples taken apart."""
    return [a for item in value for a in arrays(item)] if isinstance(value, tuple) else [value]


def assert_same(found: Any, wanted: Any) -> None:
    for have, want in zip(arrays(found), arrays(wanted), strict=True):
        assert (have is None) == (want is None)
        if want is not None:
            assert have.dtype == want.dtype
            np.testing.assert_array_equal(have, want)


def seeds_of(results: Any) -> tuple[Any, ...]:
    return tuple(np.full(r.shape, 0.5, r.dtype) for r in arrays(results))


class _LongWay(Exception):
    pass


@pytest.fixture
def only_entries(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Called, it has every run of kernels from Python fail."""

    def forbid(*arguments: object) -> None:
        raise _LongWay

    return lambda: monkeypatch.setattr(LaunchedKernels, "run", forbid)


@needs_types
@pytest.mark.parametrize("name", NAMES)
def test_the_third_call_needs_no_python(name: str, unit: gs.CompilationUnit, only_entries: Callable[[], None]) -> None:
    function = unit[name]
    first = function(X, Y)
    function(X, Y)
    only_entries()
    assert_same(function(X, Y), first)
    with pytest.raises(_LongWay):
        function(X[:2], Y[:2])


@needs_types
@pytest.mark.parametrize("name", NAMES[:3])
def test_so_do_both_passes(name: str, unit: gs.CompilationUnit, only_entries: Callable[[], None]) -> None:
    function = unit[name]
    arguments = (X, Y, 2.0) if name == "scaled" else (X, Y)
    runs = [gs.vjp(function, *arguments) for _ in range(2)]
    value, pull_back = runs[0]
    gradients = pull_back(*seeds_of(value))
    only_entries()
    again, by_entry = gs.vjp(function, *arguments)
    assert_same(again, value)
    for _ in range(2):
        assert_same(by_entry(*seeds_of(value)), gradients)
    if len(seeds_of(value)) > 1:
        assert_same(by_entry(seeds_of(value)), gradients)


@needs_types
def test_so_do_a_value_and_its_gradient(unit: gs.CompilationUnit, only_entries: Callable[[], None]) -> None:
    function = gs.value_and_grad(unit.loss, (0, 1))
    first = function(X, Y)
    function(X, Y)
    only_entries()
    found = function(X, Y)
    assert isinstance(found, tuple) and isinstance(found[1], tuple)
    assert_same(found, first)


OTHERS: dict[str, Callable[[Any], Any]] = {
    "other sizes": lambda x: np.tile(x, (2, 1)),
    "fewer dimensions": lambda x: x[0],
    "float64": lambda x: x.astype(np.float64),
    "float16": lambda x: x.astype(np.float16),
    "bfloat16": lambda x: x.astype(ml_dtypes.bfloat16),
    "int32 of the same width": lambda x: (8 * x).astype(np.int32),
    "foreign byte order": lambda x: x.astype(">f4"),
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "reversed": lambda x: x[::-1, ::-1],
    "expanded": lambda x: np.broadcast_to(x[:1], x.shape),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, x.size, 1).reshape(x.shape),
    "a subclass": lambda x: x.view(type("Own", (np.ndarray,), {})),
    "empty": lambda x: x[:0],
    "one element": lambda x: x[:1, :1],
    "a number": lambda x: 0.25,
    "a NumPy number": lambda x: np.float32(0.25),
}


@pytest.mark.parametrize("other", some_of(OTHERS))
@pytest.mark.parametrize("name", NAMES)
def test_arguments_of_another_kind_go_their_own_way(name: str, other: str, unit: gs.CompilationUnit) -> None:
    function = unit[name]
    for _ in range(3):
        function(X, Y)
        gs.vjp(function, X, Y)
    x, y = OTHERS[other](X), OTHERS[other](Y)
    fresh = gs.CompilationUnit(TEXT)[name]
    assert_same(function(x, y), fresh(x, y))
    assert_same(function(X, Y), fresh(X, Y))
    value, pull_back = gs.vjp(function, x, y)
    wanted, fresh_pull_back = gs.vjp(fresh, x, y)
    assert_same(value, wanted)
    assert_same(pull_back(*seeds_of(wanted)), fresh_pull_back(*seeds_of(wanted)))


SEEDS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda g: np.ascontiguousarray(g.T).T,
    "expanded": lambda g: np.broadcast_to(g[:1], g.shape),
    "float64": lambda g: g.astype(np.float64),
    "None": lambda g: None,
    "a list": lambda g: g.tolist(),
}


@pytest.mark.parametrize("kind", SEEDS)
def test_gradients_of_another_kind_are_taken_as_before(kind: str, unit: gs.CompilationUnit) -> None:
    wanted = None
    for _ in range(4):
        value, pull_back = gs.vjp(unit.both, X, Y)
        first, second = seeds_of(value)
        try:
            found = pull_back(SEEDS[kind](first), second)
        except gs.RuntimeFailure as failure:
            found = (np.array(str(failure)),)
        wanted = found if wanted is None else wanted
        assert_same(found, wanted)


@pytest.mark.parametrize("given", [(), (1.0, 2.0), (np.ones((2, 2), np.float32),), ("one",)])
def test_what_is_no_gradient_is_told_as_before(given: tuple[Any, ...], unit: gs.CompilationUnit) -> None:
    messages = set()
    for _ in range(4):
        _, pull_back = gs.vjp(unit.loss, X, Y)
        with pytest.raises(gs.RuntimeFailure) as caught:
            pull_back(*given)
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_one_number_as_the_gradient_of_a_number(unit: gs.CompilationUnit) -> None:
    found = [gs.vjp(unit.loss, X, Y)[1](1.0) for _ in range(4)]
    for gradients in found[1:]:
        assert_same(gradients, found[0])


def test_numbers_are_those_of_the_call(unit: gs.CompilationUnit) -> None:
    for factor in (2.0, 2.0, 2.0, -0.5, float("nan"), 0.0, -0.0, 3):
        wanted = np.tanh(X * Y) * np.float32(factor) + Y
        np.testing.assert_allclose(unit.scaled(X, Y, factor), wanted, rtol=1e-6)
    for scale in (1, 1, 1, 7, 10**6):
        index = np.array([2, 0])
        np.testing.assert_array_equal(unit.rows(X, index, scale), X[index] * np.float32(scale))


def test_every_call_draws_its_own(unit: gs.CompilationUnit) -> None:
    drawn = [unit.noisy(X) for _ in range(4)] + [gs.vjp(unit.noisy, X)[0] for _ in range(4)]
    assert len({array.tobytes() for array in drawn}) == len(drawn)


def test_results_that_are_arguments(unit: gs.CompilationUnit) -> None:
    for _ in range(4):
        same, product = unit.itself(X, Y)
        assert same is X
        np.testing.assert_array_equal(product, X * Y)
        _, pull_back = gs.vjp(unit.itself, X, Y)
        np.testing.assert_array_equal(pull_back(X, Y)[1], X * Y)


def test_gradients_that_are_equal_are_two_arrays(unit: gs.CompilationUnit) -> None:
    for _ in range(4):
        seed = np.ones_like(X)
        first, second = gs.vjp(unit.both_the_same, X, Y)[1](seed)
        assert not np.may_share_memory(first, second)


def test_an_index_out_of_range_is_told_as_before(unit: gs.CompilationUnit) -> None:
    for _ in range(3):
        unit.rows(X, np.array([2, 0]))
    with pytest.raises(gs.RuntimeFailure, match="3"):
        unit.rows(X, np.array([3, 0]))


def test_settings_hold(unit: gs.CompilationUnit) -> None:
    for _ in range(3):
        unit.loss(X, Y)
    seen: list[str] = []
    remove = gs.compiler_debug.register_pass("required", lambda graph: seen.append(graph.name) is not None)
    try:
        unit.loss(X, Y)
    finally:
        remove()
    assert "loss" in seen
    with gs.settings.backend("numpy"):
        unit.loss(X, Y)
        assert gs.compiler_debug.last_executed_graph() is not None


def test_large_results_come_from_the_arena(unit: gs.CompilationUnit) -> None:
    x = np.linspace(-3, 3, 1 << 18, dtype=np.float32).reshape(512, 512)
    first = unit.both_the_same(x, x)
    for _ in range(4):
        found = None
        before = gs.memory.stats()
        found = unit.both_the_same(x, x)
        assert gs.memory.stats().in_use > before.in_use or compilers.compiler() is None
        np.testing.assert_array_equal(found, first)


def test_nothing_leaks(unit: gs.CompilationUnit) -> None:
    function, seed = unit.loss, np.float32(1).reshape(())
    for _ in range(5):
        # All that is called below, for a first call imports and plans what stays.
        pull_back = gs.vjp(function, X, Y)[1]
        pull_back(seed)
        pull_back(None)
        function(X, Y)
    del pull_back
    # What earlier tests have left would go meanwhile.
    gc.collect()
    counts = [sys.getrefcount(value) for value in (X, Y, seed, X.dtype)]
    blocks = sys.getallocatedblocks()
    for _ in range(2000):
        value, pull_back = gs.vjp(function, X, Y)
        pull_back(seed)
        pull_back(None)
        function(X, Y)
        del value, pull_back
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 500
    for before, after in zip(counts, (sys.getrefcount(v) for v in (X, Y, seed, X.dtype)), strict=True):
        # One a call would be 2000; what else the process drops or keeps meanwhile is less.
        assert abs(after - before) < 1000


def test_functions_are_collected() -> None:
    unit = gs.CompilationUnit(TEXT)
    function = unit.loss
    for _ in range(4):
        _, pull_back = gs.vjp(function, X, Y)
        function(X, Y)
    gone = weakref.ref(function)
    assert pull_back(1.0)[0] is not None
    del unit, function, pull_back
    gc.collect()
    assert gone() is None


def test_a_pullback_outlives_what_it_was_made_of(unit: gs.CompilationUnit) -> None:
    for _ in range(4):
        value, pull_back = gs.vjp(unit.both, X, Y)
    wanted = pull_back(*seeds_of(value))
    remove = gs.compiler_debug.register_pass("required", lambda graph: False)
    remove()
    del unit
    gc.collect()
    assert_same(pull_back(*seeds_of(value)), wanted)


def test_threads_each_have_their_own_results(unit: gs.CompilationUnit) -> None:
    given = [(X * k, Y + k) for k in range(1, 9)]
    for x, y in given[:3]:
        gs.vjp(unit.scaled, x, y)
    wanted = [unit.scaled(x, y) for x, y in given]

    def work(number: int) -> None:
        x, y = given[number % 8]
        with gs.settings.backend("c"):
            for _ in range(200):
                value, pull_back = gs.vjp(unit.scaled, x, y)
                np.testing.assert_array_equal(value, wanted[number % 8])
                pull_back(x)
                if number == 0:
                    unit.scaled.calls = None

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))

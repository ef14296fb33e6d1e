"""Calls of programs in which ops of the library stand between kernels: they are told apart in C, and run in Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.runtime.face import transforms
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.c import entry, library

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.skipif(
        compilers.compiler() is None or bool(library.missing_headers()), reason="there is no compiler, or no Python.h"
    ),
]
TEXT = """
def layer(x, w, factor: float = 2.0):
    return torch.relu(x @ w + 0.5) * factor

def two(x, w):
    h = torch.tanh(x @ w)
    return h @ w, (h * x).sum()

def product(x, w):
    return x @ w

def turned(x, w):
    return (x @ w).t()

def scanned(x, w):
    return torch.cumsum(x * 2, 0), torch.sort(x * w, 1)[0]

def whole(x, w):
    return x, x @ w

def own(x, w):
    s = torch.sigmoid(x)
    def backward(grad):
        return (grad @ w.t()) * s, x.t() @ grad
    return (x * s) @ w, backward

def solved(x, w):
    return torch.linalg.cholesky(x @ x.t() + w.sum()) * 2
"""
NAMES = ("layer", "two", "product", "turned", "scanned", "whole", "own")
RNG = np.random.default_rng(7)
X, W = RNG.standard_normal((2, 4, 4))


@pytest.fixture(autouse=True)
def in_c(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.getbasetemp() / "entries_of_steps"))
    with gs.settings.backend("c"):
        yield


@pytest.fixture
def unit() -> gs.CompilationUnit:
    return gs.CompilationUnit(TEXT)


def arrays(value: Any) -> list[Any]:
    return [*value] if isinstance(value, tuple) else [value]


def assert_same(found: Any, wanted: Any) -> None:
    for have, want in zip(arrays(found), arrays(wanted), strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_array_equal(have, want)


class _LongWay(Exception):
    pass


def _forbidden(*arguments: object) -> None:
    raise _LongWay


@pytest.mark.parametrize("name", NAMES)
def test_the_third_call_asks_nothing(name: str, unit: gs.CompilationUnit, monkeypatch: pytest.MonkeyPatch) -> None:
    function = unit[name]
    first = function(X, W)
    function(X, W)
    monkeypatch.setattr(function, "_run_bound", _forbidden)
    assert_same(function(X, W), first)
    other = function(2 * X, W)
    with gs.settings.backend("numpy"):
        for have, want in zip(arrays(other), arrays(gs.CompilationUnit(TEXT)[name](2 * X, W)), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)
    for given in ((X[:2], W), (X.T, W), (X.astype(np.float32), W), (X, W, 3.0)[: 3 if name == "layer" else 1]):
        with pytest.raises(_LongWay):
            function(*given)


@pytest.mark.parametrize("name", ["layer", "product", "own"])
def test_nor_do_both_passes(name: str, unit: gs.CompilationUnit, monkeypatch: pytest.MonkeyPatch) -> None:
    function = unit[name]
    seed = RNG.standard_normal((4, 4))
    first, pull_back = gs.vjp(function, X, W)
    gradients = pull_back(seed)
    gs.vjp(function, X, W)
    with monkeypatch.context() as patch:
        patch.setattr(transforms, "_differentiated", _forbidden)
        again, by_entry = gs.vjp(function, X, W)
        assert_same(again, first)
        for _ in range(2):
            assert_same(by_entry(seed), gradients)
    # Gradients of another layout or dtype are another matter.
    assert_same(by_entry(np.asfortranarray(seed)), pull_back(np.asfortranarray(seed)))
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)
    if name != "own":
        value = torch.relu(x @ w + 0.5) * 2.0 if name == "layer" else x @ w
        for have, want in zip(gradients, torch.autograd.grad(value, (x, w), torch.tensor(seed)), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)


def test_results_are_each_calls_own(unit: gs.CompilationUnit) -> None:
    for name in ("layer", "product", "own", "turned"):
        kept = [unit[name](X, W) for _ in range(5)]
        before = kept[0].copy()
        for i, one in enumerate(kept):
            assert not any(np.may_share_memory(one, other) for other in (*kept[:i], X, W))
        kept[-1].fill(7.0)
        assert_same(unit[name](X, W), before)


def test_what_is_an_argument_stays_it(unit: gs.CompilationUnit) -> None:
    for _ in range(4):
        assert unit.whole(X, W)[0] is X


def test_what_data_have_wrong_is_told_as_before(unit: gs.CompilationUnit) -> None:
    fine = np.zeros((4, 4))
    fine[0, 0] = 4.0
    said = []
    for _ in range(4):
        unit.solved(X, fine)
        with pytest.raises(gs.RuntimeFailure) as caught:
            unit.solved(X, -1e6 * fine)
        said.append(re.sub(r"-?\d\.\d+", "", str(caught.value)))
    assert len(set(said)) == 1 and "cholesky" in said[0]


def test_tensors_go_the_same_way(unit: gs.CompilationUnit) -> None:
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)
    for _ in range(5):
        value = unit.layer(x, w)
        wanted = torch.relu(x @ w + 0.5) * 2.0
        torch.testing.assert_close(value, wanted, rtol=1e-12, atol=1e-12)
        seed = torch.rand_like(value)
        for have, want in zip(
            torch.autograd.grad(value, (x, w), seed), torch.autograd.grad(wanted, (x, w), seed), strict=True
        ):
            torch.testing.assert_close(have, want, rtol=1e-12, atol=1e-12)
        with torch.no_grad():
            assert torch.equal(unit.turned(x, w), unit.product(x, w).t())


def test_what_has_no_kernels_or_control_flow_between_them_is_found_as_quickly() -> None:
    unit = gs.CompilationUnit("""
def places(x):
    return torch.nonzero(x)

def until(x, n: int):
    y = x
    while bool(y.sum() < 10.0) and n > 0:
        y = y * 2 + 1
        n = n - 1
    return y

def seeded(x, seed: int):
    return x * 2 + seed

def told(x):
    print("once")
    return torch.nonzero(x)
""")
    draw = np.random.default_rng(0)
    xs = [draw.standard_normal(5) * (draw.random(5) < 0.5) for _ in range(8)]
    for x in xs:
        with gs.settings.backend("c"):
            found = [unit.places(x), unit.until(x, 3), *(unit.seeded(x, n) for n in (-4, len(xs), 1 << 62))]
        with gs.settings.backend("numpy"):
            wanted = [unit.places(x), unit.until(x, 3), *(unit.seeded(x, n) for n in (-4, len(xs), 1 << 62))]
        for have, want in zip(found, wanted, strict=True):
            assert have.dtype == want.dtype
            np.testing.assert_allclose(have, want, 1e-12)
    if entry.types() is not None:
        assert all(unit_function.calls for unit_function in (unit.places, unit.until, unit.seeded))
        assert not unit.told.calls


def test_numbers_of_more_than_64_bits_do_what_they_do_op_by_op() -> None:
    unit = gs.CompilationUnit("def seeded(x, seed: int):\n    return x * 2 + seed\n")
    x = np.arange(3.0)
    for number in (1, 2, 3, True, 1 << 70, -(1 << 70), 4):
        outcomes = []
        for backend in ("c", "numpy"):
            with gs.settings.backend(backend):
                try:
                    outcomes.append(unit.seeded(x, number).tolist())
                except gs.RuntimeFailure as failure:
                    outcomes.append(failure.code)
        assert outcomes[0] == outcomes[1], number


def test_what_prints_prints_once_a_call(capfd: pytest.CaptureFixture[str]) -> None:
    told = gs.CompilationUnit("def told(x):\n    print('once')\n    return torch.nonzero(x)\n").told
    with gs.settings.backend("c"):
        for _ in range(6):
            told(np.arange(3.0))
    assert capfd.readouterr().out.count("once") == 6

"""Calls that find their plans by what earlier ones have shown: however arguments are given, the same results."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.runtime.settings.modes import TOUCHED

SOURCE = """\
def f(x, w, eps: float = 0.5, b: Optional[Tensor] = None, n: int = 2, how: str = "sum", flip: bool = False):
    y = x * w + eps
    if b is not None:
        y = y + b
    for i in range(n):
        y = torch.tanh(y) * w
    if flip:
        y = -y
    if how == "sum":
        return y.sum()
    return y.mean()


def sizes(x, dims: List[int] = [0], *, keep: bool = False):
    return x.sum(dims, keep)


def scaled(x, by: number = 1):
    return x * by
"""
X, W = np.array([[1.0, -2.0, 0.5]] * 2), np.array([0.5, 2.0, 1.5])
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((X, W), {}),
    ((X,), {"w": W}),
    ((), {"w": W, "x": X}),
    ((X, W, 0.25), {}),
    ((X, W), {"eps": 0.25}),
    ((X, W), {"eps": 1}),
    ((X, W, 1), {}),
    ((X, W), {"b": X}),
    ((X, W, 0.5, None), {}),
    ((X, W), {"n": 3, "b": W}),
    ((X, W), {"n": 0}),
    ((X, W, 0.5, None, 1, "mean", True), {}),
    ((X, W), {"how": "mean"}),
    ((X, W), {"flip": True}),
    ((X.astype(np.float32), W.astype(np.float32)), {"eps": 0.25}),
    ((X[0], W), {}),
    ((X[:, ::-1], W), {"n": 1}),
    ((X, 2.0), {}),
    ((X, W), {"n": np.int64(1), "eps": np.float32(0.5)}),
]


def expected(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a function that has seen no other call."""
    return gs.CompilationUnit(SOURCE).f(*args, **kwargs)


@pytest.mark.parametrize("derived", [False, True])
def test_calls_in_any_order_give_what_the_first_gives(derived: bool) -> None:
    unit = gs.CompilationUnit(SOURCE)
    f = gs.grad(unit.f, (0, 1)) if derived else unit.f
    first: list[Any] = []
    for args, kwargs in CALLS:
        alone = gs.CompilationUnit(SOURCE).f
        first.append((gs.grad(alone, (0, 1)) if derived else alone)(*args, **kwargs))
    for _ in range(3):
        for (args, kwargs), wanted in zip(CALLS, first, strict=True):
            for mine, theirs in zip(*(v if derived else (v,) for v in (f(*args, **kwargs), wanted)), strict=True):
                np.testing.assert_array_equal(mine, theirs)
                assert mine.dtype == theirs.dtype


def test_tensors_and_variables_are_called_by_name_too() -> None:
    f = gs.CompilationUnit(SOURCE).f
    for _ in range(3):
        for args, kwargs in CALLS[:4] + CALLS[7:10]:
            wanted = expected(args, kwargs)
            row = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
            named = {k: torch.from_numpy(a) if isinstance(a, np.ndarray) else a for k, a in kwargs.items()}
            np.testing.assert_allclose(f(*row, **named).numpy(), wanted, rtol=1e-12)
            w = gs.tape.Variable(W)
            out = f(X, w=w, **{k: v for k, v in kwargs.items() if k not in ("x", "w")})
            out.backward()
            assert w.grad is not None
            np.testing.assert_array_equal(f(*args, **kwargs), wanted)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X,), {}, "argument 'w' missing"),
        ((X,), {"b": X}, "argument 'w' missing"),
        ((X, W), {"x": X}, "argument 'x' is given twice"),
        ((X, W), {"epsilon": 1.0}, "there is no argument 'epsilon'"),
        ((X, W, 0.5, None, 2, "sum", False, 1), {}, "8 positional arguments, and at most 7"),
        ((X, W), {"n": 1.5}, "argument 'n'"),
        ((X, W), {"eps": None}, "argument 'eps'"),
        ((X, W), {"how": 3}, "argument 'how'"),
        ((X, np.ones(4)), {"n": 1}, "mul"),
        ((X, W[:2]), {}, "mul"),
    ],
)
def test_failures_stay_what_they_are(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    f = gs.CompilationUnit(SOURCE).f
    for warm in range(4):
        with pytest.raises(gs.RuntimeFailure, match=message):
            f(*args, **kwargs)
        f(X, W)
        f(X, W, n=1 + warm)


def test_lists_and_keyword_only_arguments() -> None:
    unit = gs.CompilationUnit(SOURCE)
    for _ in range(3):
        np.testing.assert_array_equal(unit.sizes(X), X.sum(0))
        np.testing.assert_array_equal(unit.sizes(X, [1]), X.sum(1))
        np.testing.assert_array_equal(unit.sizes(X, keep=True), X.sum(0, keepdims=True))
        np.testing.assert_array_equal(unit.sizes(dims=[0, 1], x=X), X.sum())
        np.testing.assert_array_equal(unit.scaled(X), X)
        np.testing.assert_array_equal(unit.scaled(X, 2), X * 2)
        np.testing.assert_array_equal(unit.scaled(np.array([1, 2]), 2), [2, 4])
        np.testing.assert_array_equal(unit.scaled(np.array([1, 2]), 0.5), np.array([0.5, 1], np.float32))


@pytest.mark.usefixtures("op_by_op")  # the interpreter's short way is what is held
def test_a_known_call_with_numbers_binds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    f = gs.CompilationUnit(SOURCE).f
    calls = [((X, W), {}), ((X, W, 0.25), {}), ((X, W), {"n": 3}), ((X,), {"w": W, "flip": True})]
    for args, kwargs in calls:
        f(*args, **kwargs)
    monkeypatch.setattr(f, "_run_bound", None)
    # A test before may have left a setting in force, as one without a `with` does.
    monkeypatch.setattr(TOUCHED, "any", False)
    for args, kwargs in calls:
        np.testing.assert_array_equal(f(*args, **kwargs), expected(args, kwargs))

"""What NumPy does about float errors while plans run, and that it is as before afterwards."""

from __future__ import annotations

import threading
import warnings

import gradscript as gs
import numpy as np
import pytest

UNIT = gs.CompilationUnit(
    "def div(x, y):\n    return x / y\n\n\ndef roots(x, y):\n    return torch.sqrt(x / y) + torch.log(y)\n"
)
X, ZERO = np.array([-1.0, 0.0, 1.0]), np.zeros(3)


@pytest.mark.parametrize("name", ["div", "roots"])
@pytest.mark.parametrize("ways", ["warn", "raise"])
def test_infinities_and_nan_are_results(name: str, ways: str) -> None:
    with np.errstate(all=ways), warnings.catch_warnings():  # type: ignore[call-overload]
        warnings.simplefilter("error")
        for _ in range(3):
            assert not np.isfinite(UNIT[name](X, ZERO)).any()
        value, (grad,) = gs.value_and_grad(gs.CompilationUnit("def f(x):\n    return (x / 0).sum()\n").f, (0,))(X)
        assert not np.isfinite(value) and not np.isfinite(grad).any()
        assert np.geterr()["divide"] == ways


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x.float() * 0 + torch.full([1], 7e4, dtype=torch.float16)", np.inf),
        ("x.float() * 0 + torch.full([3], 1e-60)", 0.0),
        ("torch.xlogy(x, 1e-60)", -np.inf),
        ("torch.xlogy(x, 1e60)", np.inf),
    ],
)
def test_numbers_out_of_range_are_rounded(text: str, value: float, backend: str) -> None:
    unit = gs.CompilationUnit(f"def f(x):\n    return {text}\n")
    with gs.settings.backend(backend), np.errstate(all="raise"):
        assert (unit.f(np.ones(3, np.float16)) == value).all()


def test_errors_leave_the_handling_as_it_was() -> None:
    with np.errstate(all="raise"):
        with pytest.raises(gs.RuntimeFailure):
            UNIT.div(X, np.zeros(4))
        assert set(np.geterr().values()) == {"raise"}
        with pytest.raises(FloatingPointError):
            X / ZERO


def test_threads_have_their_own() -> None:
    seen = []

    def run() -> None:
        with np.errstate(all="raise"):
            seen.append((np.isfinite(UNIT.div(X, ZERO)).any(), np.geterr()["divide"]))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(np.False_, "raise")] * 8
    assert np.geterr()["divide"] == "warn"

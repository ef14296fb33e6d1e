"""Slopes: how exact they are for smooth functions, and that kinks and jumps are noticed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gradscript.authoring.trials.finite_differences import MOST_NUMBERS, slopes

Real = Callable[[float], float]


def at(function: Real, point: float) -> tuple[float, float]:
    (found,) = slopes([lambda t: np.array([function(point + t)])], np.array([function(point)]))
    return float(found.value[0]), float(found.error[0])


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (np.sin, np.cos),
        (np.exp, np.exp),
        (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
        (lambda x: x**5, lambda x: 5 * x**4),
    ],
)
@pytest.mark.parametrize("point", [-1.3, 0.4, 2.0])
def test_smooth_functions(function: Real, derivative: Real, point: float) -> None:
    value, error = at(function, point)
    assert abs(value - derivative(point)) < 1e-9 * max(1.0, abs(value))
    assert error < 1e-6


@pytest.mark.parametrize("offset", [0.0, 1e-9, 1e-7])
def test_a_kink_at_or_near_the_point_is_noticed(offset: float) -> None:
    _, error = at(abs, offset)
    assert error > 1e-2


@pytest.mark.parametrize("offset", [1e-4, 1e-3, 0.03])
def test_a_kink_some_way_off_does_no_harm(offset: float) -> None:
    value, error = at(abs, offset)
    assert value == pytest.approx(1.0, abs=1e-8)
    assert error < 1e-8


def test_fine_stairs_have_slope_zero() -> None:
    value, _ = at(lambda x: round(100 * x) / 100, 0.4237)
    assert value == 0.0


def test_a_jump_is_noticed() -> None:
    _, error = at(lambda x: float(np.floor(x)), 1.0)
    assert error > 1e-2


def test_nan_is_infinitely_wrong() -> None:
    _, error = at(lambda x: float("nan"), 1.0)
    assert error == np.inf


def test_functions_together_have_the_slopes_that_each_has_alone() -> None:
    functions = [
        lambda t: np.array([np.sin(t), np.abs(t)]),
        lambda t: np.array([np.exp(t) - 1, t if t < 0.03 else 0.03]),
        lambda t: np.array([0.0, np.nan if t > 0.05 else t]),
    ]
    at_zero = np.zeros(2)
    together = slopes(functions, at_zero)
    for function, found in zip(functions, together, strict=True):
        (alone,) = slopes([function], at_zero)
        assert np.array_equal(found.value, alone.value)
        assert np.array_equal(found.error, alone.error)


def test_many_outputs_are_gone_through_a_few_functions_at_a_time() -> None:
    count = MOST_NUMBERS // 2 + 1
    factors = [1.0, 2.0, 3.0]
    found = slopes([lambda t, k=k: np.full(count, k * t) for k in factors], np.zeros(count))
    assert [one.value[-1] for one in found] == pytest.approx(factors)

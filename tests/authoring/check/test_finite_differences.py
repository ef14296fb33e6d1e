"""Slopes: how exact they are for smooth functions, and that kinks and jumps are noticed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gradscript.authoring.trials.finite_differences import slope

Real = Callable[[float], float]


def at(function: Real, point: float) -> tuple[float, float]:
    found = slope(lambda t: np.array([function(point + t)]), np.array([function(point)]))
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

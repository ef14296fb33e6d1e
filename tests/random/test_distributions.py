"""Numbers with a mean and a deviation, and places drawn by weights: how often each comes, and their gradients."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch

UNIT = gs.CompilationUnit("""
def places(weights, n: int, replacement: bool):
    return torch.multinomial(weights, n, replacement)

def around(mean, deviation):
    return torch.normal(mean, deviation), torch.normal(mean, 0.5), torch.normal(2.0, deviation)

def numbers(n: int):
    return torch.normal(-1.0, 3.0, [n], dtype=torch.float64)

def lengths(x):
    return torch.normal(x, 0.1).sum()
""")
WEIGHTS = np.array([[1.0, 2.0, 3.0, 0.0], [4.0, 0.0, 4.0, 2.0]])
COUNT = 40_000


def shares(drawn: np.ndarray) -> np.ndarray:
    return np.stack([np.bincount(row, minlength=4) for row in drawn]) / drawn.shape[1]


def test_places_come_as_often_as_they_weigh() -> None:
    gs.random.manual_seed(5)
    drawn = UNIT.places(WEIGHTS, COUNT, True)
    assert drawn.shape == (2, COUNT)
    assert drawn.dtype == np.int64
    # Four deviations of a share of one half.
    np.testing.assert_allclose(shares(drawn), WEIGHTS / WEIGHTS.sum(1, keepdims=True), atol=2 / COUNT**0.5)


def test_without_replacement_what_is_left_is_drawn_by_its_weights() -> None:
    """Of the pairs in their order each has the probability p[i] p[j] / (1 - p[i])."""
    gs.random.manual_seed(6)
    p = np.array([0.5, 0.3, 0.2])
    drawn = UNIT.places(np.tile(p, (COUNT, 1)), 2, False)
    assert (drawn[:, 0] != drawn[:, 1]).all()
    for i in range(3):
        for j in {0, 1, 2} - {i}:
            share = ((drawn[:, 0] == i) & (drawn[:, 1] == j)).mean()
            assert share == pytest.approx(p[i] * p[j] / (1 - p[i]), abs=2 / COUNT**0.5)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_weighs_nothing_is_never_drawn(n: int) -> None:
    drawn = UNIT.places(np.tile(WEIGHTS, (200, 1)), n, False)
    assert all(WEIGHTS[i % 2, place] > 0 for i, row in enumerate(drawn) for place in row)
    assert all(len(set(row)) == n for row in drawn.tolist())


@pytest.mark.parametrize("weights", [[0.0, 0.0], [-1.0, 1.0], [np.inf, 1.0], [np.nan, 1.0], [1.0, 0.0]])
def test_weights_of_which_nothing_can_be_drawn_are_told(weights: list[float]) -> None:
    with pytest.raises(gs.RuntimeFailure, match="multinomial"):
        UNIT.places(np.array(weights), 2, False)


def test_means_and_deviations() -> None:
    gs.random.manual_seed(7)
    deviations = np.full((COUNT, 2), [1.5, 0.1])
    both, fixed, centred = UNIT.around(np.full((COUNT, 1), 4.0), deviations)
    for values, mean, deviation in ((both, 4, [1.5, 0.1]), (fixed, 4, [0.5]), (centred, 2, [1.5, 0.1])):
        np.testing.assert_allclose(values.mean(0), mean, atol=4 * max(deviation) / COUNT**0.5)
        np.testing.assert_allclose(values.std(0), deviation, rtol=4 / (2 * COUNT) ** 0.5)
    values = UNIT.numbers(COUNT)
    assert values.dtype == np.float64
    assert values.mean() == pytest.approx(-1, abs=12 / COUNT**0.5)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_their_gradients_are_zeros_as_in_torch(backend: str) -> None:
    with gs.settings.backend(backend):
        x = torch.randn(3, 4, requires_grad=True)
        results = UNIT.around(x, torch.rand(4))[:2]
        assert all(result.requires_grad for result in results)
        (gradient,) = torch.autograd.grad(sum(result.sum() for result in results), x)
        assert not gradient.any()
        assert not gs.grad(UNIT.lengths)(np.ones(3)).any()

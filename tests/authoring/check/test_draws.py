"""The numbers that a check draws: the same each time, and distributed as they say."""

from __future__ import annotations

import numpy as np
from gradscript.authoring.trials.arguments.draws import Rng


def test_a_seed_gives_the_same_numbers_however_many_are_drawn_at_a_time() -> None:
    whole = Rng(3).uniform(shape=(9000,))
    parts = Rng(3)
    found = np.concatenate([parts.uniform(shape=(size,)) for size in (1, 7, 4000, 80, 8)])
    assert np.array_equal(found, whole[: found.size])
    assert not np.array_equal(Rng(4).uniform(shape=(10,)), whole[:10])


def test_uniform_numbers_fill_their_range() -> None:
    found = Rng(0).uniform(-1.0, 3.0, (100, 400))
    assert found.shape == (100, 400)
    counts, _ = np.histogram(found, bins=8, range=(-1.0, 3.0))
    assert counts.sum() == found.size
    assert np.abs(counts - found.size / 8).max() < 5 * np.sqrt(found.size / 8)
    assert abs(np.corrcoef(found.ravel()[:-1], found.ravel()[1:])[0, 1]) < 0.02


def test_normal_numbers_have_their_moments() -> None:
    found = Rng(1).normal((200, 200))
    assert np.isfinite(found).all()
    assert abs(found.mean()) < 0.02
    assert abs(found.std() - 1) < 0.02
    assert abs((found**4).mean() - 3) < 0.15


def test_signs_choices_and_orders() -> None:
    rng = Rng(2)
    assert abs(rng.signs((10000,)).mean()) < 0.05
    assert set(rng.choice(np.array([2.0, 5.0, 7.0]), (300,))) == {2.0, 5.0, 7.0}
    assert {rng.below(4) for _ in range(200)} == {0, 1, 2, 3}
    order = rng.shuffled(np.arange(50))
    assert sorted(order) == list(range(50))
    assert list(order) != list(range(50))
    assert rng.uniform().shape == ()
    assert rng.uniform(shape=(0, 3)).shape == (0, 3)


def test_arrays_that_were_drawn_may_be_written_to() -> None:
    rng = Rng(5)
    first = rng.uniform(shape=(4,))
    kept = first.copy()
    rng.uniform(shape=(4,))[:] = 0
    assert np.array_equal(first, kept)

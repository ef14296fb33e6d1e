"""Indices of several kinds side by side: `python tests/ops/index_calls.py` compares all of them."""

from __future__ import annotations

from random import Random

import pytest
from index_calls import difference, difference_in_store, indices

REFUSED = "w[..., ...]"
"""Torch takes two ellipses, and reads the second as `:`."""
APART = ("w[one, 1:, list]", "w[list, :, one]", "w[one, :, one]", "w[..., one, list]", "w[one, mask, list]")


@pytest.mark.parametrize("text", [*Random(5).sample(indices(60), 60), *APART])
def test_values_gradients_and_stores(text: str) -> None:
    if REFUSED not in text:
        assert difference(text) is None
        assert difference_in_store(text) is None

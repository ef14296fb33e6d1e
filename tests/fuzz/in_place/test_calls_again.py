"""Random programs called again in other ways on torch tensors: `calls_again.py` runs more of them, for longer."""

from __future__ import annotations

import pytest
from calls_again import outcome_of_calls


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 10, 18, 26])
def test_each_call_gives_what_torch_gives_whatever_came_before(seed: int) -> None:
    assert outcome_of_calls(seed, calls=3) == "equal"

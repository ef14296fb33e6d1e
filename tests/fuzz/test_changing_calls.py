"""Random functions called many times with others: `changing_calls.py` runs more of them, for longer."""

from __future__ import annotations

import pytest
from amounts import some
from changing_calls import outcome_of_function


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("seed", range(some(24)))
def test_each_call_gives_what_torch_gives_for_its_own_numbers(seed: int, backend: str) -> None:
    assert outcome_of_function(seed, backend) in ("equal", "torch refuses it")

"""Policies have no say in the bits: a few of the programs that `python tests/recompute/policy_bits.py` runs."""

from __future__ import annotations

import numpy as np
import pytest
from policy_bits import BACKENDS, POLICIES, differing, on_arrays, programs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", BACKENDS)
def test_bits_are_the_same_under_every_policy(backend: str) -> None:
    with np.errstate(all="ignore"):
        found = [differing(source, values, backend) for seed in range(3) for source, values in programs(seed)]
    assert any(policies is not None for policies in found)
    assert not any(found)


def test_other_bits_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    source, values = programs(0)[1]

    def off_by_a_bit(function: object, values: object, spec: str) -> list[object]:
        found = on_arrays(function, values, spec)  # type: ignore[arg-type]
        return found if spec != POLICIES[-1] else [np.nextafter(found[0], np.inf), *found[1:]]

    monkeypatch.setitem(BACKENDS, "arrays", off_by_a_bit)
    assert differing(source, values, "arrays") == [POLICIES[-1]]

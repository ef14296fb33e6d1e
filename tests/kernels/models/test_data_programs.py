"""Programs that go by their data, to second order, beside torch in float64: in C, and by the kernels' reference."""

from __future__ import annotations

import gradscript as gs
import pytest
from amounts import some_of
from data_programs import PROGRAMS, UNIT, arguments, compare, eager, to_second_order
from kernel_device import kernel_device

SEEDS = (0, 1, 2)


@pytest.mark.parametrize("name", some_of(PROGRAMS))
def test_in_c(name: str) -> None:
    for seed in SEEDS:
        wanted = to_second_order(eager(name), arguments(name, seed))
        with gs.settings.backend("c"):
            compare(to_second_order(UNIT[name], arguments(name, seed)), wanted)


@pytest.mark.parametrize("name", some_of(PROGRAMS))
def test_by_the_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = 0
    for seed in SEEDS:
        wanted = to_second_order(eager(name), arguments(name, seed))
        with kernel_device(monkeypatch) as runs:
            compare(to_second_order(UNIT[name], arguments(name, seed)), wanted)
            ran += len(runs.kernels)
    assert ran

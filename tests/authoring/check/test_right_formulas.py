"""The check finds right what is right: a few of the formulas that `right_formulas.py` goes through whole."""

from __future__ import annotations

import pytest
from right_formulas import alarm, by_hand, derived, forwards, framed

EACH = 17
DERIVED = dict([*forwards()][:: EACH // 2])
WRITTEN = dict([*framed()][::EACH]) | dict([*by_hand()][:: EACH // 2])


@pytest.mark.parametrize("name", WRITTEN)
def test_no_alarm(name: str) -> None:
    assert alarm(WRITTEN[name]) == ""


@pytest.mark.parametrize("name", DERIVED)
def test_no_alarm_at_what_is_derived(name: str) -> None:
    assert alarm(derived(name, DERIVED[name])) == ""


def test_names_are_told_apart() -> None:
    names = [name for name, _ in (*framed(), *by_hand())]
    assert len(set(names)) == len(names) > 400


def test_a_wrong_slope_alarms() -> None:
    source = dict(framed())["each_sin"].replace("torch.cos(x)", "torch.cos(1.01 * x)")
    assert "value x" in alarm(source)

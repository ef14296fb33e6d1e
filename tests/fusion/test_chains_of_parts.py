"""Long chains of shifts, pads and sums are planned in time in proportion to their length, and none is without kernels
for that places and guards have become long."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
from array_programs import check_fused
from gradscript.compiler.fusion.planning.group import Group

STEPS = {
    # What is put together of parts has one more of them with each step, not twice as many.
    "turned": ("x = torch.cat([x[1:], x[:1]]) + w", 300),
    # Each sum is of what the ones before it are taken from.
    "sums in a row": ("x = 0.5 * x / (x.abs().amax(0, keepdim=True) + 1) + w", 900),
    # What no kernel has before the library is through is sought in none of those before.
    "read by index": ("x = x.index_select(1, torch.arange(7, -1, -1)) * x + w", 400),
    "by the library": ("x = torch.cumsum(x, 0) * w", 40),
    # Nor in kernels before the sums that it follows from.
    "repeated": ("x = x.repeat(2, 1)[:8] * w", 60),
}
"""With how many elements of each step are looked at at most, those of trials that fail too; there were four times as
many in 40 steps, and with the steps they grew."""
BOUNDED = {
    # What a guard says of a remainder is known of it further on.
    "rolled and padded": (
        2,
        "x = x + 0.1 * torch.roll(x, 1)",
        "y = x",
        "x = F.pad(x, [1, 1, 1, 1])[1:9, 2:] * w + y",
        "y = x",
    ),
    # What no guard tells any more is read from memory on the way.
    "turned and reshaped": (
        5,
        "x = y + torch.cat([x[:4].flip([1]), x[4:]])",
        "x = torch.sin(x.reshape(2, -1).t().reshape(8, 8)) + w",
    ),
    "halves and rows": (
        5,
        "x = torch.sin(torch.cat([x[:, 1::2], x[:, ::2]], 1))",
        "x = x + 0.1 * x[torch.arange(8) // 2]",
    ),
}


def _function(rounds: int, *steps: str) -> Any:
    lines = "".join(f"    {step}\n" for _ in range(rounds) for step in steps)
    return gs.CompilationUnit(f"def f(x, w):\n    y = x\n{lines}    return x\n").f


def _arguments() -> list[Any]:
    return [np.random.default_rng(5).normal(size=(8, 8)), np.random.default_rng(6).normal(size=8)]


@pytest.mark.parametrize("name", STEPS)
def test_elements_grow_with_the_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    element = Group.element

    def counted(self: Group, *given: Any) -> Any:
        nonlocal asked
        asked += 1
        return element(self, *given)

    monkeypatch.setattr(Group, "element", counted)
    step, most = STEPS[name]
    _function(40, step).kernels(*_arguments())
    assert asked < 40 * most


@pytest.mark.parametrize("name", STEPS)
def test_chains_give_what_ops_give(name: str) -> None:
    check_fused(_function(6, STEPS[name][0]), _arguments())


@pytest.mark.parametrize("name", BOUNDED)
def test_no_place_is_too_long(name: str) -> None:
    check_fused(_function(*BOUNDED[name]), _arguments())


def test_parts_that_no_element_can_be_of_are_not_read() -> None:
    (kernel,) = _function(6, STEPS["turned"][0]).kernels(*_arguments()).forward
    assert kernel.ir.count("load %x") == 7

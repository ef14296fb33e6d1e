"""Random chains of ops that move elements about, fused: every index of every kernel is proved to be in bounds."""

from __future__ import annotations

from random import Random

import gradscript as gs
import numpy as np
import pytest
from amounts import some
from array_programs import check_fused

PROGRAMS = some(40)
MOVES = (
    "torch.flip(x, [{}])",
    "x.repeat({} + 1, {} + 1)",
    "x[{}:]",
    "x[:, {}:]",
    "x[:-1]",
    "x[:, :-1]",
    "x[::2]",
    "x[:, ::2]",
    "x.t()",
    "x.t().reshape(x.shape)",
    "torch.cat([x, y], {})",
    "torch.cat([x, x], {})",
    "torch.roll(x, 1, {})",
    "x.reshape(-1, x.shape[0])",
    "F.pad(x, ({}, {}))",
    "x.narrow(0, {}, x.shape[0] - 1)",
    "torch.stack([x, x], {}).flatten(0, 1)",
    "x.unsqueeze(0).expand(2, -1, -1).reshape(-1, x.shape[1])",
    "torch.sin(x) * x",
    "x.repeat(2, 1)[{}:].flip([0])",
)


def random_source(seed: int) -> str:
    """Each `{}` is 0 or 1."""
    random = Random(seed)
    lines = []
    for _ in range(random.randint(1, 4)):
        move = random.choice(MOVES)
        lines.append("    x = " + move.format(*(random.randint(0, 1) for _ in range(move.count("{}")))))
    return "\n".join(["def f(x):", "    y = x", *lines, "    return x", ""])


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_moves(seed: int) -> None:
    check(random_source(seed), seed)


def check(source: str, seed: int) -> None:
    unit = gs.CompilationUnit(source)
    x = np.random.default_rng(seed).normal(size=(3, 4) if seed % 2 else (4, 3))
    try:
        unit.f(x)
    except gs.RuntimeFailure:
        return
    check_fused(unit.f, [x])


def test_a_flip_of_a_part_of_what_is_repeated() -> None:
    check("def f(x):\n    return torch.flip(x.repeat(2, 1)[1:], [0])\n", 0)

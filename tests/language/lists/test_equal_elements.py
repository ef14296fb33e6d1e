"""Which tensors of a list are equal, or less than others, is decided by what is in them each time."""

from __future__ import annotations

import random
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some

USES = {
    "x == y": "bool",
    "x != y": "bool",
    "x + y == y + x": "bool",
    "[x, y] == [y, x]": "bool",
    "[(t, 1)] == [(y[0], 1)]": "bool",
    "t in x": "bool",
    "t not in [y[0], x[0]]": "bool",
    "[x].count(y)": "int",
    "x.count(t)": "int",
    "x.index(t)": "int",
    "x[0] * (2 if x == y else 3)": "Tensor",
    "x[x.index(t)] * 2": "Tensor",
    "(sorted(x + y)[0] - t) * 2": "Tensor",
    "sorted(x, reverse=True)[0] * t": "Tensor",
    "len([v for v in x if v == t])": "int",
    "torch.stack(without(x, t) + y).sum() * x[0]": "Tensor",
    "len(without(x, t))": "int",
}
HELPER = "def without(x: List[Tensor], t: Tensor):\n    l = x.copy()\n    l.remove(t)\n    return l\n\n\n"
PYTHON = "def without(x, t):\n    l = x.copy()\n    l.remove(t)\n    return l\n"


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("use", USES)
def test_it_is_what_python_says(use: str, backend: str) -> None:
    """Calls alike in all but elements follow each other, on arrays, on tensors, and differentiated."""
    unit = gs.CompilationUnit(f"{HELPER}def f(x: List[Tensor], y: List[Tensor], t: Tensor):\n    return {use}\n")
    scope: dict[str, Any] = {"torch": torch}
    exec(f"{PYTHON}def f(x, y, t):\n    return {use}\n", scope)
    draw = random.Random(use)
    for _ in range(some(24)):
        x, y = ([float(draw.randrange(3)) for _ in range(draw.choice((1, 1, 2, 3)))] for _ in range(2))
        t = float(draw.randrange(3))
        given = [[torch.tensor(v) for v in x], [torch.tensor(v) for v in y], torch.tensor(t)]
        arrays = [[np.array(v) for v in x], [np.array(v) for v in y], np.array(t)]
        recorded = [[v.clone().requires_grad_() for v in given[0]], *given[1:]]
        try:
            wanted = scope["f"](*given)
        except ValueError:
            for values in (given, arrays, recorded):
                with gs.settings.backend(backend), pytest.raises(gs.RuntimeFailure):
                    unit.f(*values)
            continue
        with gs.settings.backend(backend):
            for values in (given, arrays, recorded):
                found = unit.f(*values)
                assert float(torch.as_tensor(found).detach()) == float(wanted), (use, x, y, t)
            if USES[use] == "Tensor":
                value, (of_x, of_t) = gs.value_and_grad(unit.f, argnums=(0, 2), allow_unused=True)(*arrays)
                assert float(value) == float(wanted)
                leaves = [[v.clone().requires_grad_() for v in given[0]], given[1], given[2].clone().requires_grad_()]
                asked = torch.autograd.grad(scope["f"](*leaves), [*leaves[0], leaves[2]], materialize_grads=True)
                np.testing.assert_array_equal([*map(float, of_x), float(of_t)], [*map(float, asked)])

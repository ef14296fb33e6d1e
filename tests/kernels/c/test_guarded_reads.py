"""What is read by conditions, in C: windows that reach beyond what was padded, and several elements of each point."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.kernels.c.compiler import has_compiler

PROGRAMS = {
    # Behind the end of a chunk there is nothing; behind that of what is padded there is what is added to it.
    "windows": "    x = F.pad(x[1:], [0, 0, 0, 1]) + w\n    return x.unfold(0, 2, 1).sum(-1)\n",
    # Rows of which a program computes all elements, read in other orders where rows are turned.
    "turned": """
    x = torch.cat([x[:, 5:], x[:, :5]], 1)
    x = x * torch.roll(x, [3, 1], [0, 1])
    x = torch.cat([x[:, 5:], x[:, :5]], 1)
    return x * torch.roll(x, [3, 1], [0, 1])
""",
}


@pytest.mark.skipif(not has_compiler(), reason="no compiler of C")
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_ops(name: str) -> None:
    source = f"def f(x, w):\n{PROGRAMS[name]}"
    generator = np.random.default_rng(4)
    values = generator.normal(size=(8, 8)), generator.normal(size=8)
    found: dict[str, list[Any]] = {}
    for backend in ("numpy", "c"):
        with gs.settings.backend(backend):
            result, pull_back = gs.vjp(gs.CompilationUnit(source).f, *values)
            cotangent = np.random.default_rng(7).normal(size=result.shape)
            found[backend] = [result, *pull_back(cotangent)]
    for have, want in zip(found["c"], found["numpy"], strict=True):
        if want is not None:
            np.testing.assert_allclose(have, want, rtol=1e-10)

"""Many tensors that are put together are so in memory: work and text grow with their number, not with its square."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
from array_programs import fused
from gradscript.compiler.fusion.elements.joins import MOST_JOINED

JOINED = {
    "given and stacked": "(torch.stack(xs, 1) ** 2).sum()",
    "given and put together": "(torch.cat(xs) ** 3).sum()",
    "computed and put together": "(torch.cat([x.tanh() for x in xs]) ** 2).sum()",
    "computed and stacked": "(torch.stack([x.exp() for x in xs]) ** 2).sum()",
}


def _function(text: str) -> Any:
    return gs.CompilationUnit(f"def f(xs: List[Tensor]):\n    return {text}\n").f


def _tensors(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(count).normal(size=(count, 5)))


@pytest.mark.parametrize("text", JOINED.values(), ids=JOINED)
def test_kernels_grow_with_their_number(text: str) -> None:
    def amounts(count: int) -> tuple[int, int]:
        """Statements, and the choices between parts among them."""
        pair = fused(_function(text), [_tensors(count)], [True])
        bodies = [k.body for k in (*pair.forward.kernels, *pair.backward(pair.usual_seeds()).kernels)]
        choices = sum(getattr(statement, "primitive", "") == "where" for body in bodies for statement in body)
        return sum(map(len, bodies)), choices

    (some, _), (twice, choices) = amounts(4 * MOST_JOINED), amounts(8 * MOST_JOINED)
    assert twice < 2.2 * some + 20
    assert not choices


@pytest.mark.parametrize("text", JOINED.values(), ids=JOINED)
@pytest.mark.parametrize("count", [MOST_JOINED, MOST_JOINED + 1])
def test_they_give_what_ops_give(text: str, count: int) -> None:
    results = []
    for backend in ("numpy", "c"):
        with gs.settings.backend(backend):
            value, (gradients,) = gs.value_and_grad(_function(text), argnums=(0,))(_tensors(count))
            results.append((value, *gradients))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)

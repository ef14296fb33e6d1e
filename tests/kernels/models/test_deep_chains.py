"""Layers with residuals, written out: each moves as many bytes as the one before, however many there are."""

from __future__ import annotations

from itertools import pairwise

import gradscript as gs
import numpy as np
import pytest

LAYERS = {
    "normed": "x = x + torch.tanh(F.layer_norm(x, [x.size(-1)]) @ w{0})",
    "plain": "x = x + torch.tanh(x @ w{0})",
    "linear": "x = x + x @ w{0}",
    "of two": "x = x + torch.tanh(x @ w{0}) * torch.sigmoid(x @ w{0}.t())",
}
COUNTS = (6, 10, 14)


def moved(line: str, layers: int) -> list[int]:
    names = ", ".join(f"w{i}" for i in range(layers))
    body = "\n".join(f"    {line.format(i)}" for i in range(layers))
    function = gs.CompilationUnit(f"def f(x, {names}):\n{body}\n    return x.sum()").f
    listing = function.kernels(np.zeros((512, 64), np.float32), *[np.zeros((64, 64), np.float32)] * layers)
    return [sum(k.bytes_read + k.bytes_written for k in half) for half in (listing.forward, listing.backward)]


@pytest.mark.parametrize("name", LAYERS)
def test_bytes_grow_with_the_depth(name: str) -> None:
    """Four more layers add what the four before them added, or a tenth more; half as much more if each read all."""
    found = [moved(LAYERS[name], count) for count in COUNTS]
    for half in (0, 1):
        more = [after[half] - before[half] for before, after in pairwise(found)]
        assert more[1] <= more[0] * 1.1, (half, found)

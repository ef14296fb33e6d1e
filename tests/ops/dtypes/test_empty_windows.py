"""Windows over tensors with a size of 0: which of them pooling takes is torch's to say."""

from __future__ import annotations

from itertools import product

import gradscript as gs
import numpy as np
import pytest
import torch
from torch.nn import functional

POOLS = [
    f"{name}{rank}d"
    for name in ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool")
    for rank in (1, 2, 3)
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", POOLS)
def test_no_size_but_that_of_the_batch_is_0(name: str, backend: str) -> None:
    rank = int(name[-2])
    f = gs.CompilationUnit(f"def f(x):\n    return F.{name}(x, 1)\n").f
    for shape in (shape for dims in (rank + 1, rank + 2) for shape in product((0, 3), repeat=dims)):
        try:
            expected = tuple(getattr(functional, name)(torch.zeros(shape), 1).shape)
        except RuntimeError:
            expected = None
        with gs.settings.backend(backend):
            if expected is None:
                with pytest.raises(gs.RuntimeFailure):
                    f(np.zeros(shape, np.float32))
            else:
                assert f(np.zeros(shape, np.float32)).shape == expected, shape


@pytest.mark.parametrize("start", [True, 1.0, [1]])
def test_narrow_starts_at_an_integer(start: object) -> None:
    f = gs.CompilationUnit("def f(x, start):\n    return torch.narrow(x, 0, start, 1)\n").f
    with pytest.raises(gs.RuntimeFailure, match="integer without dimensions"):
        f(np.ones(3), np.array(start))


def test_slopes_are_drawn_between_bounds_in_order() -> None:
    f = gs.CompilationUnit("def f(x, lower: float):\n    return F.rrelu(x, lower, 0.2)\n").f
    with pytest.raises(gs.RuntimeFailure, match="above the upper bound"):
        f(np.ones(3), 0.3)

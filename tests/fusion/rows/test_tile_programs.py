"""Random functions of small tiles, run by kernels in C beside torch in float64: axes reduced in any order.

python tests/fusion/rows/test_tile_programs.py 0 1000        goes on where the tests stop
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from random import Random
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.runtime.kernels import notices

STEPS = (
    "{v} / ({v}.abs().sum({dims}, keepdim=True) + 1)",
    "{v} - {v}.mean({dims}, keepdim=True)",
    "{v} - {v}.amax({dims}, keepdim=True)",
    "{v} * ({v}.square().mean({dims}, keepdim=True) + 0.1).rsqrt()",
    "torch.softmax({v}, {dim})",
    "torch.exp({v} * 0.3)",
    "torch.tanh({v}) + {v}",
    "{v} * w",
    "{v} * u[:, None]",
    "({v}.reshape([x.size(0), -1]) - {v}.reshape([x.size(0), -1]).mean(-1, keepdim=True)).reshape(x.size())",
    "torch.softmax(({v} * w).sum(-1, keepdim=True), 1) * {v}",
    "{v} * torch.softmax({v}.sum(-1), -1)[:, :, None]",
    "{v} - {v}.sum(-2)[:, None, :] * 0.1",
    "{v} + {v}.argmax({dim}, keepdim=True).to(x.dtype) * 0.1",
    "({v}.unsqueeze(2) * m[:, :, None]).sum(1)",
    "({v} > 0).any({dim}, keepdim=True).to(x.dtype) + {v}",
    "{v} + y.transpose(1, 2).reshape(x.size())",
    "(m + {v}.mean(-1, keepdim=True)) @ {v}",
)
PAIRS = (
    "{v} + torch.tanh({v}.unsqueeze(3) - {v}.unsqueeze(2)).abs().mean(3)",
    "{v} * torch.sigmoid({v}.unsqueeze(2) - {v}.unsqueeze(3)).sum(2)",
    "{v} - torch.sin({v}.unsqueeze(3) * {v}.unsqueeze(2)).sum([2, 3])[:, :, None] * {v}.mean(-1, keepdim=True)",
    "{v} + ({v}.unsqueeze(2) - {v}.unsqueeze(1)).relu().square().sum(1) * 0.1",
    "{v} - ({v}.unsqueeze(3) * {v}.unsqueeze(2) * w).amax(2) * 0.1",
)
"""Of a row's elements, or of rows: beside what is reduced over either of them, or over the row."""
RESULTS = ("", ", {v}.sum([0, 2])", ", {v}.sum(-1)", ", {v}.mean()", ", ({v} * x).sum([1, 2])")


def tile_program(seed: int, steps: Sequence[str] = STEPS) -> tuple[str, tuple[int, int, int]]:
    """The source of a function `f` of `x, y, w, u, m`, and the shape of `x`."""
    random = Random(seed)
    shape = random.choice((1, 2, 5, 33, 64)), random.choice((2, 3, 4, 5, 8)), random.choice((2, 3, 4, 6, 7, 16))
    lines, last = [], "x"
    for number in range(random.randint(2, 6)):
        dims, dim = random.choice(("[-1]", "[-2]", "[-1, -2]", "[0]")), random.choice(("-1", "-2", "1", "2"))
        lines.append(f"    v{number} = {random.choice(steps).format(v=last, dims=dims, dim=dim)}")
        last = f"v{number}"
    result = f"    return {last}{random.choice(RESULTS).format(v=last)}"
    return "\n".join(["def f(x, y, w, u, m):", *lines, result, ""]), shape


def difference(seed: int, steps: Sequence[str] = STEPS) -> str:
    """What kernels in C give otherwise than torch; nothing where they agree."""
    source, (batch, rows, columns) = tile_program(seed, steps)
    generator = np.random.default_rng(seed)
    shapes = ((batch, rows, columns), (batch, columns, rows), (columns,), (rows,), (rows, rows))
    given = [np.asarray(generator.normal(size=shape)) for shape in shapes]
    names: dict[str, Any] = {"torch": torch}
    exec(source, names)
    tensors = [torch.tensor(array, requires_grad=True) for array in given]
    results = names["f"](*tensors)
    results = list(results) if isinstance(results, tuple) else [results]
    seeds = [np.asarray(generator.normal(size=tuple(result.shape))) for result in results]
    torch.autograd.backward(results, [torch.tensor(s) for s in seeds])
    wanted = [*(r.detach().numpy() for r in results)]
    wanted += [np.zeros(t.shape) if t.grad is None else t.grad.numpy() for t in tensors]
    if any(not np.isfinite(array).all() or np.abs(array).max(initial=0.0) > 1e8 for array in wanted):
        return ""
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found, pull_back = gs.vjp(gs.CompilationUnit(source).f, *given)
        gradients = pull_back(tuple(seeds) if len(seeds) > 1 else seeds[0])
    have = [*(found if isinstance(found, tuple) else [found])]
    have += [np.zeros(a.shape) if g is None else g for a, g in zip(given, gradients, strict=True)]
    for number, (mine, want) in enumerate(zip(have, wanted, strict=True)):
        scale = max(float(np.abs(want).max(initial=0.0)), 1.0)
        if not np.allclose(mine, want, rtol=1e-7, atol=1e-9 * scale):
            return f"number {number} of values and gradients, for {shapes[0]}:\n{source}"
    return ""


@pytest.mark.parametrize("seed", [6, 24, 47, 61, 88, 104])
def test_random_functions_of_tiles_give_what_torch_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "TOLD", set())
    assert difference(seed) == ""


@pytest.mark.parametrize("seed", [1000, 1021, 1022, 1026])
def test_random_functions_of_pairs_give_what_torch_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "TOLD", set())
    assert difference(seed, (*STEPS, *PAIRS, *PAIRS)) == ""


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    seeds = [(seed, steps) for seed in range(first, last) for steps in (STEPS, (*STEPS, *PAIRS, *PAIRS))]
    faults = [f"=== seed {seed}: {found}" for seed, steps in seeds if (found := difference(seed, steps))]
    print("\n".join([*faults, f"{len(seeds)} programs, {len(faults)} otherwise"]))
    sys.exit(bool(faults))

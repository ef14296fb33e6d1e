"""Lists of tensors of several sizes, of one length after the other: values, gradients and second ones as op by op."""

from __future__ import annotations

from itertools import cycle, pairwise, product
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from amounts import WHOLE
from gradscript.runtime.kernels.c.compiler import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no compiler of C")
BODIES = {
    "multi_dot": "return (torch.linalg.multi_dot(ts) * w).sum()",
    "products": "y = ts[0]\n    for t in ts[1:]:\n        y = torch.matmul(y, t)\n    return (y * w).sum()",
    "by place": "y = ts[0]\n    for i in range(1, len(ts)):\n        y = y @ ts[i]\n    return (y * w).sum()",
    "sums": "y = w\n    for t in ts:\n        y = y * (t * t).sum().tanh()\n    return y.sum()",
    "comprehension": "return torch.stack([(t * t * w.sum()).sum() for t in ts]).sum()",
    "joined": "return (torch.cat([t.flatten().sin() for t in ts]).sum() * w).sum()",
}
LENGTHS = ((3, 2, 4), (2, 4, 2), (4, 3, 2))
"""Three calls in turn: the first is planned for its own length, those behind it for any."""
CASES = [*product(BODIES, LENGTHS)] if WHOLE else [*zip(BODIES, cycle(LENGTHS), strict=False)]


def _lists(lengths: tuple[int, ...]) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(0)
    sizes = (2, 3, 4, 2, 3)
    return [[rng.normal(size=pair) for pair in pairwise(sizes[: n + 1])] for n in lengths]


def _all_orders(source: str, lists: list[list[np.ndarray]]) -> list[Any]:
    function = gs.CompilationUnit(source).f
    gradient = gs.grad(function, 0)
    found: list[Any] = []
    for tensors in lists:
        w = np.linspace(1, 2, tensors[0].shape[0] * tensors[-1].shape[1]).reshape(tensors[0].shape[0], -1)
        value, pullback = gs.vjp(function, tensors, w)
        first, pull_again = gs.vjp(gradient, tensors, w)
        found += [function(tensors, w), value, pullback(value), first, pull_again([np.ones_like(t) for t in tensors])]
    return found


def _flat(found: Any) -> list[Any]:
    if isinstance(found, list | tuple):
        return [leaf for item in found for leaf in _flat(item)]
    return [found]


@pytest.mark.parametrize(("name", "lengths"), CASES)
def test_no_gradient_is_lost_where_a_list_has_another_length(name: str, lengths: tuple[int, ...]) -> None:
    source = f"def f(ts: List[Tensor], w):\n    {BODIES[name]}\n"
    runs = []
    for backend in ("numpy", "c"):
        with gs.settings.backend(backend):
            runs.append(_flat(_all_orders(source, _lists(lengths))))
    assert [leaf is None for leaf in runs[0]] == [leaf is None for leaf in runs[1]]
    for wanted, found in zip(*runs, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)

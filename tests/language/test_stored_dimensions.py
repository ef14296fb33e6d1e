"""A value with more dimensions than the place that it is written to: leading ones of one are dropped, as in torch."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch
from eager_programs import check

X = np.linspace(-1.0, 1.5, 12).reshape(3, 4)

PROGRAMS = {
    "rounds": "y = torch.zeros(3, 4, dtype=x.dtype)\n    for i in range(3):\n        y[i] = (x[i : i + 1] * 2).tanh()",
    "column": "y = x.clone()\n    y[:, 0] = x[:, 1][None] ** 2",
    "element": "y = x.clone()\n    y[0, 0] = x[0:1, 1:2] ** 2",
    "whole": "y = x * 1\n    y[...] = (x[None] ** 2)[None]\n    y = y * x",
    "spread": "y = x.clone()\n    y[1:] = x[None, None, 0] ** 2",
    "dtype": "y = torch.zeros(3, 4)\n    y[0] = x[0:1] ** 2",
    "indices": "y = x.clone()\n    y[torch.tensor([0, 2])] = (x[:2] ** 2)[None, None]",
    "indices, spread": "y = x.clone()\n    y[[0, 2]] = (x[:1] ** 2)[None]",
    "mask": "y = x.clone()\n    y[x[:, 0] > -0.5] = (x[1:] ** 2)[None]",
    "mask of all": "y = x.clone()\n    y[x > 0] = x[:1, :1] ** 2",
    "view": "y = x.clone()\n    z = y[:2]\n    z[1] = x[1:2].exp()\n    y = y.tanh()",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_leading_ones_are_dropped(name: str) -> None:
    check(f"def f(x):\n    {PROGRAMS[name]}\n    return y\n", "f", X)


@pytest.mark.parametrize("name", ("rounds", "column", "indices", "view"))
def test_in_kernels(name: str) -> None:
    f = gs.CompilationUnit(f"def f(x):\n    {PROGRAMS[name]}\n    return y\n").f
    told = torch.tensor(X, requires_grad=True)
    with gs.settings.backend("numpy"):
        wanted = torch.autograd.grad(f(told).square().sum(), told)
    with gs.settings.backend("c"):
        found = torch.autograd.grad(f(told).square().sum(), told)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("value", ("x[:2]", "x[:0]", "x[None, :2]", "x[:1, :2]"))
def test_others_are_told(value: str) -> None:
    f = gs.CompilationUnit(f"def f(x):\n    y = x.clone()\n    y[0] = {value}\n    return y\n").f
    with pytest.raises(gs.RuntimeFailure) as failed:
        f(X)
    assert failed.value.code == "R101" and "y[0]" in str(failed.value)

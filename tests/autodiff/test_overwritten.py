"""What is written over has a gradient of zeros, which an infinite derivative makes NaN, as in torch."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

X, W = np.array([1.0, 2.0, 3.0]), np.array([0.5, -2.0, 1.5])
WRITES = {
    "slice": "v[:] = w * 2",
    "ellipsis": "v[...] = 3.0",
    "copy": "v.copy_(w)",
    "fill": "v.fill_(3.0)",
    "zero": "v.zero_()",
    "view": "v[1:].zero_()",
    "elements": "v[torch.tensor([0, 1, 2])] = w",
    "loop": "for i in range(2):\n        v.copy_(w * i)",
    "branch": "if bool(w.sum() < 100):\n        v.copy_(w)",
    "list": "l = [v, w]\n    l[0].copy_(w)",
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_of_an_infinite_derivative(write: str) -> None:
    text = f"def f(x, w):\n    v = torch.log(x * 0.0)\n    {write}\n    return (v[:1] * x).sum() + w.sum()\n"
    unit = gs.CompilationUnit(text)
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(text, "<program>", "exec"), scope)
    expected = _on_tensors(scope["f"])
    assert np.isnan(expected[0]).any()
    for found in (_on_tensors(unit.f), gs.vjp(unit.f, X, W)[1](1.0), gs.grad(unit.f, (0, 1))(X, W), _on_tape(unit.f)):
        np.testing.assert_allclose(found, expected)
    traced = gs.trace(lambda x, w: unit.f(x, w), X, W)
    np.testing.assert_allclose(gs.vjp(traced, X, W)[1](1.0), expected)
    np.testing.assert_allclose(gs.vjp(unit.f, X, W, policy="min_cut")[1](1.0), expected)


def _on_tensors(function: Any) -> list[Any]:
    tensors = [torch.tensor(a, requires_grad=True) for a in (X, W)]
    return [g.numpy() for g in torch.autograd.grad(function(*tensors), tensors)]


def _on_tape(function: Any) -> list[Any]:
    variables = [gs.tape.Variable(a) for a in (X, W)]
    function(*variables).backward()
    return [v.grad.data for v in variables]


def test_what_had_no_gradient_stays_out_of_the_graph() -> None:
    unit = gs.CompilationUnit("def f(x):\n    v = torch.zeros_like(x)\n    v[:] = x * 2\n    return v\n")
    assert "_overwritten" not in str(unit.f.graph)

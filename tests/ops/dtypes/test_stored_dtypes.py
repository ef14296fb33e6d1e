"""Writes of tensors into those of another dtype: torch's result or, where torch does not round on the way, an error."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

WRITES = (
    "x[i] = v",
    "x[m] = v",
    "x[0] = v",
    "x[:1] = v",
    "x[i] += v",
    "x[m, 0] = v",
    "x[i] = 1.5",
    "x[m] = x[m] * v",
    "x[i] = x[i] * 1.5",
    "x[m, m] = v",
    "x[[0, 2]] = v",
    "x[..., i] = v",
    "x[m, 1:] = v",
    "x[1] = r[0]",
    "x.copy_(r)",
    "x.fill_(v)",
    "x.masked_fill_(m, v)",
    "x.masked_scatter_(m.unsqueeze(1).expand(3, 3), r)",
    "x.index_put_((i,), v)",
    "x.index_copy_(0, i, r)",
    "x.index_add_(0, i, r)",
    "x.scatter_(0, j, r)",
    "x.put_(i, v.reshape(1))",
)
DTYPES = ("int64", "float64", "float32", "bool", "uint8", "float16")


def _arguments(dtype: str, other: str, shape: tuple[int, ...]) -> dict[str, torch.Tensor]:
    into, stored = getattr(torch, dtype), getattr(torch, other)
    return {
        "x": torch.ones(3, 3).to(into),
        "v": torch.full(shape, 1.5).to(stored),
        "r": torch.full((1, 3), 1.5).to(stored),
        "i": torch.tensor([0]),
        "j": torch.zeros(1, 3, dtype=torch.int64),
        "m": torch.tensor([True, False, False]),
    }


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("write", WRITES)
def test_what_torch_makes_of_another_dtype(write: str, shape: tuple[int, ...]) -> None:
    text = f"def f(x, v, r, i, j, m):\n    x = x.clone()\n    {write}\n    return x\n"
    scope: dict[str, Any] = {"torch": torch}
    exec(text, scope)
    function = gs.CompilationUnit(text).f
    for dtype in DTYPES:
        for other in DTYPES[:4]:
            given = _arguments(dtype, other, shape)
            arrays = [value.numpy().copy() for value in given.values()]
            try:
                wanted = scope["f"](**given).numpy()
            except (RuntimeError, IndexError):
                with pytest.raises(gs.RuntimeFailure):
                    function(*arrays)
                continue
            found = function(*arrays)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


FILLED = """
def whole(x, v):
    y = x * 1
    y.fill_(v)
    return (y * x).sum()

def masked(x, v):
    y = x * 1
    y[x > 0] = v
    return (y * x).sum()
"""


@pytest.mark.parametrize("name", ["whole", "masked"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_fills_has_its_gradient(name: str, dtype: str) -> None:
    scope: dict[str, Any] = {"torch": torch}
    exec(FILLED, scope)
    x, v = torch.tensor([[0.5, -1.0], [2.0, 3.0]], dtype=torch.float64), torch.tensor(2.0).to(getattr(torch, dtype))
    leaves = [x.requires_grad_(), v.requires_grad_()]
    wanted = torch.autograd.grad(scope[name](*leaves), leaves)
    found = gs.grad(getattr(gs.CompilationUnit(FILLED), name), argnums=(0, 1))(x.detach().numpy(), v.detach().numpy())
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype == theirs.numpy().dtype
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-12)


def test_a_number_of_a_tensor_whose_gradient_is_asked_for_is_refused_also_where_nothing_comes_of_it() -> None:
    unit = gs.CompilationUnit("def f(x, v):\n    return torch.full_like(x, v).sum()\n")
    with pytest.raises(gs.RuntimeFailure, match="a number is wanted, and a tensor that requires a gradient"):
        gs.grad(unit.f, argnums=(0, 1))(np.ones(3), np.array(2.0))


BEYOND = [1e30, -1e30, float("nan"), float("inf"), -float("inf"), 3e9, -3e9, 4e9, 70000.0, 300.5, -1.5, 1e19, -70000.7]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("to", ["int64", "int32", "int16", "int8", "uint8", "bool"])
def test_floats_that_fit_no_int_become_what_torch_makes_of_them(to: str, backend: str) -> None:
    function = gs.CompilationUnit(f"def f(x):\n    return x.to(torch.{to}), (x * 1).to(torch.{to})\n").f
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        x = torch.tensor(BEYOND, dtype=torch.float64).to(getattr(torch, dtype))
        for given in (x, x[5:6].clone(), x[:8].clone()):
            wanted = given.to(getattr(torch, to)).numpy()
            with gs.settings.backend(backend):
                for found in function(given):
                    np.testing.assert_array_equal(found.numpy(), wanted)

"""Writes through what einsum gives, which is a view where it sums over nothing, and else a tensor of its own."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch

BODIES = (
    "z = torch.einsum('ij,jk->ik', y, y); z += 1; return y + z",
    "z = torch.einsum('ij->i', y); z += 1; return y[0] + z",
    "z = torch.einsum('ii', y); z += 7; return y * z",
    "torch.einsum('ii->i', y).mul_(2); return y",
    "z = torch.einsum('ij->ji', y); z += torch.arange(3); return y",
    "z = torch.einsum('ij->ij', y); z[0] = 5; return y * z",
    "z = torch.einsum('ji', y); z[0] = 7; return y",
    "z = torch.einsum('i...->...i', y); z[0] = 7; return y",
    "z = torch.einsum(' a b -> b a ', [y]); z[1] = x[0]; return y",
    "z = torch.einsum('ij->ji', y); y += 1; return z",
    "l = [y]; z = torch.einsum('ij->ji', l); y += 1; return z",
    "z = torch.einsum('ij->ji', y); v = torch.einsum('ii->i', z); v *= 3; return y + z",
    "z = torch.einsum('ij->ji', y[:, :2]); z *= 3; return y",
    "z = turned(y); z += 1; return y * z",
)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("body", BODIES)
def test_writes_are_those_of_torch(body: str, backend: str) -> None:
    lines = "\n    ".join(body.split("; "))
    source = (
        "def turned(x):\n    return torch.einsum('ii->i', x)\n\n\n"
        f"def f(x):\n    y = x * 1\n    {lines}\n\n\n"
        "def loss(x):\n    r = f(x)\n    return (r * torch.cos(r)).sum()\n"
    )
    names: dict[str, object] = {"torch": torch}
    exec(source, names)
    x = np.arange(9.0).reshape(3, 3) + 1
    leaf = torch.tensor(x, requires_grad=True)
    expected = names["f"](leaf)  # type: ignore[operator]
    names["loss"](leaf).backward()  # type: ignore[operator]
    with gs.settings.backend(backend):
        unit = gs.CompilationUnit(source)
        np.testing.assert_allclose(unit.f(x), expected.detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(gs.grad(unit.loss)(x), leaf.grad.numpy(), rtol=1e-9)  # type: ignore[union-attr]
        np.testing.assert_allclose(gs.vjp(unit.f, x)[0], expected.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("equation", ["ij->ji", "ij->ij", "ba", "ij"])
def test_an_order_of_labels_is_a_view(equation: str, backend: str) -> None:
    f = gs.CompilationUnit(f"def f(x):\n    return torch.einsum('{equation}', x)\n").f
    x = torch.arange(6.0).reshape(2, 3)
    with gs.settings.backend(backend):
        assert f(x).data_ptr() == x.data_ptr()
        assert torch.equal(f(x), torch.einsum(equation, x))

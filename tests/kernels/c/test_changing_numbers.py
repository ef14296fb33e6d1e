"""Numbers that change from call to call, on tensors that require a gradient: what was prepared takes others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import pytest
import torch
from amounts import some_of
from torch.nn import functional as F  # noqa: N812 - its usual name

EXPRESSIONS = [
    "F.celu(x, p)",
    "F.elu(x, p)",
    "F.leaky_relu(x, p)",
    "F.hardtanh(x, -p - 1, p)",
    "F.softshrink(x, p)",
    "F.softplus(x, p)",
    "F.threshold(x, p, p * 2)",
    "F.huber_loss(x, x * x, delta=p)",
    "F.smooth_l1_loss(x, x * x, beta=p)",
    "F.cross_entropy(x.unsqueeze(0), (x[:1] * 0).long(), label_smoothing=min(p, 1.0))",
    "F.layer_norm(x, [6], eps=p)",
    "F.normalize(x, dim=0, eps=p)",
    "F.pad(x, [1, 1], value=p).exp()",
    "F.dropout(x, 0.0) * p",
    "torch.quantile(x, min(p, 1.0))",
    "torch.renorm(x.unsqueeze(0), 2, 0, p)",
    "torch.logit(x.sigmoid(), p * 0.01)",
    "torch.addcmul(x, x, x, value=p)",
    "torch.where(x > p, x * x, p * x)",
    "torch.linspace(0, p, 6, dtype=x.dtype) * x",
    "x.norm(p) + x.clamp(max=p).sum()",
    "x * int(p * 4) + x * round(p)",
    "x * (p if p > 0.4 else 2.0)",
    "x * float(str(p)[:3])",
]


@pytest.mark.parametrize("expression", some_of(EXPRESSIONS))
def test_floats_of_later_calls_count(expression: str) -> None:
    """Some programs are made for the very floats, as where an op refuses some."""
    ours = gs.CompilationUnit(f"def f(x, p: float):\n    return {expression}\n").f
    eager = eval(f"lambda x, p: {expression}", {"torch": torch, "F": F})
    with gs.settings.backend("c"):
        for p in (0.5, 0.5, 0.25, 1.5, 0.75, 0.5, 0.125):
            found, wanted = _with_gradient(ours, p), _with_gradient(eager, p)
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_a_float_beyond_single_precision_is_not_kept_for_others() -> None:
    unit = gs.CompilationUnit("def f(x, p: float):\n    return x * p + x.sin()\n")
    with gs.settings.backend("c"):
        for p in (1e39, 1e39, 0.5, 1e39, 2.0):
            found, wanted = _with_gradient(unit.f, p), _with_gradient(lambda x, p: x * p + x.sin(), p)
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("type", ["List[int]", "List[float]"])
def test_numbers_in_lists_of_later_calls_count(type: str) -> None:
    """Once a list of launches is there, too, which the third like call in a row has."""
    unit = gs.CompilationUnit(f"def f(x, p: {type}):\n    return x * p[0] + x.sin()\n")
    some, others = ([2, 3], [3, 2]) if type == "List[int]" else ([0.5, 1.0], [0.25, 2.0])
    with gs.settings.backend("c"):
        for p in (some, some, others, some, some, some, others, others):
            found, wanted = _with_gradient(unit.f, p), _with_gradient(lambda x, p: x * p[0] + x.sin(), p)
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def _with_gradient(function: Callable[..., torch.Tensor], p: Any) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor([0.3, -1.2, 2.0, 0.7, -0.4, 1.6], dtype=torch.float64, requires_grad=True)
    result = function(x, p)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    return result.detach(), gradient


# What is planned for a class of sizes is there from the third size on.
@pytest.mark.parametrize(
    "body",
    [
        "y = x\n    if bool(x.sum() > 0):\n        y = x * x.size(0)",
        "l = [x.size(0), 2]\n    y = x\n    if bool(x.sum() > 0):\n        y = x / l[0] + l[1]",
        "y = x\n    while bool(y.sum() < 100):\n        y = y * 1.5 + x.numel()",
        "y = x.unsqueeze(1).repeat(1, 2).flip((x.size(0) // 2) % 2) / 4.0",
    ],
)
@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_sizes_of_later_calls_count(body: str, backend: str) -> None:
    text = f"def f(x):\n    {body}\n    return y\n"
    ours = gs.CompilationUnit(text).f
    scope: dict[str, Any] = {}
    exec(text, scope)
    with gs.settings.backend(backend):
        for size in (3, 4, 5, 6, 7, 3, 8):
            x = torch.arange(1.0, size + 1, dtype=torch.float64)
            wanted = scope["f"](x)
            torch.testing.assert_close(torch.as_tensor(ours(x.numpy())), wanted)
            torch.testing.assert_close(ours(x.clone().requires_grad_()).detach(), wanted)

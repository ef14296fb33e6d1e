"""Arguments of torch.nn.functional by place: in place, deprecated ones of losses, `_stacklevel`."""

from __future__ import annotations

import inspect
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from eager_programs import eager
from gradscript.compiler.ops import OPS
from gradscript.compiler.spelling.functional import LEFT_OUT, PARAMETERS
from gradscript.compiler.spelling.names import op_name

X, W = np.array([[1.0, -2.0, 0.3], [0.5, 0.7, -0.1]]), np.array([[0.2, 0.3, 0.9], [0.6, 0.1, 0.5]])


def _positional(name: str) -> tuple[str, ...]:
    parameters = inspect.signature(getattr(F, name)).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


def test_the_table_is_torchs() -> None:
    def is_listed(name: str) -> bool:
        value = getattr(F, name)
        if name.startswith("_") or not inspect.isfunction(value) or op_name("F", name) is None:
            return False
        return not OPS.overloads(f"{name}_with_indices") and bool(LEFT_OUT & set(_positional(name)))

    assert {name: _positional(name) for name in dir(F) if is_listed(name)} == PARAMETERS


WRITES = (
    "F.relu(y, True)",
    "F.relu(y[0], inplace=True)",
    "F.relu(input=y, inplace=True)",
    "F.relu_(y)",
    "torch.relu_(y)",
    "torch.sigmoid_(y[1])",
    "torch.clamp_(y, 0.0, 1.0)",
    "F.elu(y, 1.0, True)",
    "F.elu_(y, 0.5)",
    "F.hardtanh(y, -1.0, 0.5, True)",
    "F.threshold(y, 0.1, 20.0, True)",
    "F.leaky_relu(y, 0.1, inplace=True)",
    "F.dropout(y, 0.5, False, True)",
    "F.rrelu(y, 0.1, 0.1, False, True)",
    "F.celu(y, 1.0, False)",
    "F.softmax(y, 1, 3)",
    "F.softmax(y, 1, 5, torch.float64)",
    "F.log_softmax(y, 1, _stacklevel=7)",
    "F.softmin(y, 1, 3)",
    "F.mse_loss(y, w, False)",
    "F.mse_loss(y, w, None, False)",
    "F.mse_loss(y, w, 2)",
    "F.mse_loss(y, w, reduce=False, reduction='sum')",
    "F.l1_loss(y, w, None, None, 'sum')",
    "F.binary_cross_entropy(w, y.detach().sigmoid(), None, True, True, 'none')",
    "F.binary_cross_entropy_with_logits(y, y.detach().sigmoid(), None, None, None, 'sum', torch.ones(3))",
    "F.smooth_l1_loss(y, w, None, None, 'sum', 0.5)",
    "F.kl_div(y, w, None, None, 'sum', False)",
    "F.cross_entropy(y, torch.tensor([0, 2]), None, None, -100, None, 'sum', 0.1)",
    "F.nll_loss(y, torch.tensor([0, 2]), None, False, 2)",
    "F.poisson_nll_loss(y, w, True, False, None, 1e-8, None, 'sum')",
    "F.multi_margin_loss(y, torch.tensor([0, 2]), 1, 1.0, None, False)",
    "F.triplet_margin_loss(y, w, w * 2, 1.0, 2.0, 1e-6, False, None, None, 'sum')",
    "F.margin_ranking_loss(y, w, torch.ones_like(y), 0.5, None, False)",
    "F.cosine_embedding_loss(y, w, torch.tensor([1, -1]), 0.0, False)",
)


@pytest.mark.parametrize("call", WRITES)
def test_what_torch_gives_and_writes(call: str) -> None:
    text = f"def f(x, w):\n    y = x * 1.5\n    z = y\n    r = {call}\n    return r.sum() + (z * z).sum(), r, z\n"
    expected, found = (_outcome(function) for function in (eager(text)["f"], gs.CompilationUnit(text).f))
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine.detach(), theirs.detach(), rtol=1e-9, atol=1e-9)


def _outcome(function: Any) -> list[Any]:
    tensors = [torch.tensor(a, requires_grad=True) for a in (X, W)]
    results = function(*tensors)
    gradients = torch.autograd.grad(results[0], tensors, allow_unused=True)
    return [*results, *(torch.zeros(1) if g is None else g for g in gradients)]


@pytest.mark.parametrize("call", ("x", "x[0, 0]", "x, dtype=torch.float32"))
def test_a_tensor_of_a_tensor_is_a_copy_without_gradient(call: str) -> None:
    text = f"def f(x, w):\n    return x * w * torch.tensor({call})\n"
    tensors = [torch.tensor(a, requires_grad=True) for a in (X, W)]
    expected, found = (function(*tensors) for function in (eager(text)["f"], gs.CompilationUnit(text).f))
    assert found.dtype == expected.dtype
    for mine, theirs in zip(*(torch.autograd.grad(v.sum(), tensors) for v in (found, expected)), strict=True):
        np.testing.assert_allclose(mine, theirs)


@pytest.mark.parametrize(
    ("call", "code", "says"),
    [
        ("x.uniform(0, 1)", "E202", "no method 'uniform'"),
        ("gs.autograd_zero() + x", "E301", "is no operand"),
        ("F.relu(x, True)", "E305", "argument 'x'"),
        ("F.relu(x * 1, flag)", "E204", "'inplace' has to be True or False"),
        ("F.mse_loss(x, x, flag)", "E204", "'size_average' has to be True or False"),
        ("F.smooth_l1_loss(x, x, 'none', 2.0)", "E204", "by its name, `reduction='none'`"),
        ("F.kl_div(x, x, 'sum')", "E204", "by its name, `reduction='sum'`"),
        ("torch.relu_(2.0)", "E203", "writes into a tensor"),
    ],
)
def test_what_is_refused(call: str, code: str, says: str) -> None:
    with pytest.raises(gs.CompileError, match=says) as caught:
        gs.CompilationUnit(f"def f(x, flag: bool):\n    return {call}\n")
    assert caught.value.code == code

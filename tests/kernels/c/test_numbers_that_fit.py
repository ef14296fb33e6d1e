"""Numbers that change from call to call, of which some fit and some do not: torch's result, or a message, each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradscript as gs
import pytest
import torch
from amounts import some_of

CALLS = """
x.select(0, n) | x.narrow(0, n, 2) | x[n] | x.sum(n) | x.view(n, -1) | x.reshape(n, 3) | x.expand(n, -1, -1)
x.split(n)[0] | x.chunk(n)[0] | x.unsqueeze(n) | F.dropout(x, n * 0.5 - 0.5 if n < 0 else 0.0)
torch.zeros([n, 3], dtype=x.dtype) + 1.0 + x.sum() | torch.arange(n, dtype=x.dtype) * x.sum() | F.pad(x, [n, 0])
F.pad(x, [0, n]) | torch.roll(x, n, 0) | x.diagonal(n) | torch.tril(x, n) | torch.topk(x, n)[0] | x.repeat(n, 1)
x.unfold(0, n, 1) | x.index_select(0, torch.tensor([n])) | F.one_hot(torch.tensor([1, 2]), n) * x.sum()
x * (10 // n) | x * (10 % n) | torch.linspace(0, 1, n, dtype=x.dtype) * x.sum() | x.clamp(n, 3)
torch.logit(x.sigmoid(), n * 0.1) | x.movedim(0, n) | x.tile(n) | x[:, n:] | x[::n] | x.unflatten(0, [n, -1])
F.avg_pool1d(x, n) | F.layer_norm(x, [n]) | F.cross_entropy(x, torch.full([x.size(0)], n))
x.gather(0, torch.full([1, 3], n)) | torch.quantile(x, n * 0.25) | x.norm(n) | (x * x).pow(n)
torch.full([2], n) ** n | torch.full([2], 2) ** n + x.sum() | torch.eye(n, dtype=x.dtype) * x.sum()
torch.eye(2, n, dtype=x.dtype) * x.sum() | torch.full([n], 1.0, dtype=x.dtype) * x.sum()
torch.full([2, n], 1.0, dtype=x.dtype) * x.sum() | torch.zeros(n, 2, dtype=x.dtype) + x.sum()
torch.ones(n, dtype=x.dtype) + x.sum() | torch.zeros_like(x[n:]) + x.sum()
torch.logspace(0, 1, n, dtype=x.dtype) * x.sum() | torch.arange(n, 5, dtype=x.dtype) * x.sum()
torch.arange(0, 5, n, dtype=x.dtype) * x.sum() | torch.arange(5, 0, n, dtype=x.dtype) * x.sum()
torch.arange(n * 0.5, 3.0, 0.5, dtype=x.dtype) * x.sum() | torch.tril_indices(n, 3) * 1.5
torch.triu_indices(3, n) * 1.5 | x.new_zeros([n, 2]) + x.sum() | x.new_ones([n]) + x.sum()
x.new_full([n, 1], 2.0) + x.sum() | x.repeat_interleave(n, 0) | x.repeat_interleave(n)
torch.repeat_interleave(x, torch.tensor([1, 2, 0, 1, n, 1]), 0) | x.expand(n, 6, 3) | x[:, :1].expand(6, n)
x.new_zeros([3]).expand(n, 3) + x.sum() | torch.diag_embed(x, n) | torch.diag(x[0], n) | torch.diag(x, n)
x.tensor_split(n)[0] | x.chunk(n, 1)[0] | x.split([n, 6 - n])[0] | x.unfold(0, 2, n) | x.unfold(n, 2, 1)
x.flatten(n) | x.flatten(0, n) | x.squeeze(n) | x.transpose(0, n) | x.permute(n, 0) | x.cumsum(n) | x.softmax(n)
x.amax(n) | x.var(0, correction=n) | x.std(1, correction=n) | x.argmax(n) | x.sort(n)[0] | x.kthvalue(n, 0)[0]
x.index_add(0, torch.tensor([n]), x[:1]) | x.index_fill(0, torch.tensor([n]), 1.0)
x.scatter(0, torch.tensor([[n, 0, 0]]), 1.0) | x.take(torch.tensor([n]))
F.pad(x.unsqueeze(0), [n, n], mode="reflect") | F.pad(x.unsqueeze(0), [n, n], mode="replicate")
F.pad(x.unsqueeze(0), [n, n], mode="circular") | F.max_pool1d(x.unsqueeze(0), n) | F.max_pool1d(x.unsqueeze(0), 2, n)
F.max_pool1d(x.unsqueeze(0), 2, 1, n) | F.avg_pool1d(x.unsqueeze(0), 2, 1, n)
F.adaptive_avg_pool1d(x.unsqueeze(0), n) | F.interpolate(x.unsqueeze(0), n)
F.conv1d(x.unsqueeze(0), x[:, :1].unsqueeze(0), padding=n) | F.conv1d(x.unsqueeze(0), x[:, :1].unsqueeze(0), stride=n)
F.conv1d(x.unsqueeze(0), x[:, :2].unsqueeze(0), dilation=n) | F.glu(x, n) | F.embedding(torch.tensor([n]), x)
F.group_norm(x.unsqueeze(0), n) | F.pixel_shuffle(x.reshape(1, 1, 6, 3).repeat(1, 4, 1, 1), n)
F.unfold(x.reshape(1, 1, 6, 3), n) | F.nll_loss(x.log_softmax(1), torch.tensor([0, 1, 2, 0, 1, 2]), ignore_index=n)
F.softplus(x, n) | F.celu(x, n) | F.threshold(x, n, 2.0) | F.hardtanh(x, -1.0, n)
F.local_response_norm(x.unsqueeze(0), n) | F.normalize(x, n) | torch.linalg.vector_norm(x, n)
torch.linalg.matrix_power(x[:3], n) | torch.renorm(x, 2, 0, n) | torch.cdist(x, x + 1, n) | torch.pdist(x) * n
torch.vander(x[0], n) | torch.rot90(x, n) | torch.block_diag(x, x * n) | torch.tensordot(x, x.t(), n)
torch.polygamma(n, x.abs() + 1) | torch.mvlgamma(x.abs() + 5, n) | torch.diff(x, n) | torch.trapezoid(x, dx=n)
torch.bitwise_left_shift(torch.tensor([1, 2]), n) * 2.5 | torch.unbind(x, n)[0] | torch.stack([x, x], n)
torch.cat([x, x], n) | torch.isclose(x, x + 1, n) | torch.nan_to_num(x, n) | torch.split(x, n, 1)[0] | x.view(3, n)
x.reshape([n, n]) | x.movedim([0, 1], [n, 0]) | x[n, 1] | x[-n:] | x[n:n + 2] | x[:, n] | x[..., None, n] | x[[n, 0]]
x.round(decimals=n) | x.logcumsumexp(n) | x.cummax(n)[0] | x.median(n)[0] | x.mode(n)[0] | x.count_nonzero(n)
x.addmm(x[:, :1], x[:1], alpha=n) | x.sum([0, n]) | x.mean([n]) | x.prod(n) | x.logsumexp([n]) | x.all(n)
x.swapaxes(0, n)
"""
NUMBERS = (1, 2, 3, 1, 2, 0, -1, 4, 3, 5, 100, -3, 2)
FLOAT_CALLS = """
x * p | x + p | p - x | x / p | p / x | x ** p | p ** x | x % p | torch.remainder(x, p) | torch.fmod(x, p)
x.clamp(p, 1.0) | x.clamp(max=p) | x.clamp(-1.0, p) | torch.where(x > p, x, p) | torch.where(x > 0, p, x)
(x > p).to(x.dtype) * x | (x == p).to(x.dtype) + x | (x != p).to(x.dtype) + x | x.masked_fill(x > 0, p)
torch.full_like(x, p) * x | torch.maximum(x, torch.full_like(x, p)) | torch.fmax(x, torch.full_like(x, p))
F.leaky_relu(x, p) | F.elu(x, p) | F.softplus(x, p) | F.softplus(x, 1.0, p) | F.threshold(x, p, p * 2)
F.hardtanh(x, -p - 1, p) | F.softshrink(x, p) | F.hardshrink(x, p) | F.huber_loss(x, x * x, delta=p)
F.smooth_l1_loss(x, x * x, beta=p) | F.normalize(x, p=p) | F.normalize(x, eps=p) | x.norm(p)
torch.linalg.vector_norm(x, p, [0]) | torch.cdist(x, x + 1, p) | F.layer_norm(x, [3], eps=p)
F.rms_norm(x, [3], eps=p) | F.dropout(x, p * 0.0) | torch.lerp(x, x * x, p) | torch.addcmul(x, x, x, value=p)
torch.addcdiv(x, x, x + 3, value=p) | torch.add(x, x, alpha=p) | torch.logit(x.sigmoid(), p) | torch.quantile(x, p)
torch.nan_to_num(x / 0, p, p, p) | torch.copysign(x, torch.full_like(x, p)) | torch.copysign(x, p)
torch.atan2(x, torch.full_like(x, p)) | torch.nextafter(x, torch.full_like(x, p))
torch.hypot(x, torch.full_like(x, p)) | torch.xlogy(x, p) | torch.xlogy(p, x) | x * abs(p) | x * (p if p > 0 else -p)
x * min(p, 0.5) | x * max(p, 0.5) | x * bool(p) | x * (p == 1.0) | F.pad(x, [1, 0], value=p) | F.gelu(x) * p
torch.linspace(0, p, 3, dtype=x.dtype) * x | torch.arange(0, 3, dtype=x.dtype) * p * x
F.margin_ranking_loss(x, x * x, x.sign(), margin=p) | F.hinge_embedding_loss(x, x.sign(), margin=p)
F.triplet_margin_loss(x, x * x, x.sin(), margin=p, p=2.0) | F.cosine_similarity(x, x * x + 1, eps=p)
F.kl_div(x, x.softmax(1)) * p | F.poisson_nll_loss(x, x.abs(), log_input=False, eps=p)
F.gaussian_nll_loss(x, x * x, x.abs() + 0.1, eps=p) | torch.special.zeta(x.abs() + 1.5, p)
torch.renorm(x, 2.0, 0, p) | torch.renorm(x, p, 0, 1.0) | x.var(0, correction=p) | torch.isclose(x, x * p).to(x.dtype)
torch.isclose(x, x + 0.1, p).to(x.dtype) | torch.allclose(x, x, p) * x | F.logsigmoid(x * p)
F.batch_norm(x, None, None, training=True, eps=p) | F.group_norm(x, 1, eps=p) | torch.pow(torch.full_like(x, p), x)
torch.float_power(x, p) | torch.ldexp(x, torch.full_like(x, p)) | torch.sub(x, x * x, alpha=p) | torch.rsub(x, p)
torch.addmm(x @ x.t(), x, x.t(), beta=p, alpha=p) | torch.baddbmm((x @ x.t())[None], x[None], x.t()[None], beta=p)
torch.trapezoid(x, dx=p) | torch.cumulative_trapezoid(x, dx=p)
"""
FLOATS = (
    0.5,
    0.5,
    1.5,
    2.0,
    0.0,
    -0.0,
    -1.0,
    -0.5,
    0.25,
    float("inf"),
    float("-inf"),
    3.0,
    1e-300,
    1.0,
    0.5,
    -2.0,
    0.1,
)


def _expressions(text: str) -> list[str]:
    return [call for line in text.strip().splitlines() for call in line.split(" | ")]


def _outcome(function: Any, x: Any, n: float) -> Any:
    try:
        return torch.as_tensor(function(x, n)).detach()
    except (gs.RuntimeFailure, gs.CompileError) as error:
        return error


def _expected(function: Any, x: torch.Tensor, n: float) -> Any:
    try:
        return function(x, n)
    except (RuntimeError, IndexError, ValueError, TypeError, ArithmeticError) as error:
        return error


@pytest.mark.filterwarnings("ignore:f runs op by op", "ignore:.*degrees of freedom", "ignore:The given NumPy array")
@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("expression", some_of(_expressions(CALLS)))
def test_ints_give_what_torch_gives_or_a_message(expression: str, backend: str) -> None:
    _compare(f"def f(x, n: int):\n    return {expression}\n", backend, NUMBERS)


@pytest.mark.filterwarnings("ignore:f runs op by op")
@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("expression", some_of(_expressions(FLOAT_CALLS)))
def test_floats_give_what_torch_gives_or_a_message(expression: str, backend: str) -> None:
    _compare(f"def f(x, p: float):\n    return {expression}\n", backend, FLOATS)


def _compare(text: str, backend: str, numbers: Sequence[float]) -> None:
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(text, scope)
    function = gs.CompilationUnit(text).f
    with gs.settings.backend(backend):
        for count, n in enumerate(numbers):
            x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(count))
            wanted = _expected(scope["f"], x, n)
            for given in (x.numpy(), x.clone().requires_grad_())[count % 2 :]:
                found = _outcome(function, given, n)
                told = f"{n}: {found}, torch: {wanted}"
                if isinstance(wanted, Exception) or isinstance(found, Exception):
                    assert isinstance(wanted, Exception) and isinstance(found, Exception), told
                else:
                    wanted = torch.as_tensor(wanted)
                    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), told
                    assert torch.allclose(found, wanted, rtol=1e-9, atol=1e-12, equal_nan=True), told

"""What was stacked is reduced part by part, in the kernel that has the parts. Many tensors that are put together are
so in memory: work and text grow with their number, not with its square."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest
from array_programs import check_fused, fused
from gradscript.compiler.fusion.elements.joins import MOST_JOINED
from gradscript.compiler.kernel_ir.kernel import Reduce

REDUCED = (
    "torch.stack([x, y], 0).sum(0)",
    "torch.stack([x * 2, y, x], 1).mean(1) * x",
    "torch.logsumexp(torch.stack([x, y], 0), 0)",
    "torch.stack([x, y], 0).tanh().amax(0) - torch.stack([y, x], 2).amin(2, keepdim=True)[..., 0]",
    "(torch.stack([x, y], 0) * torch.stack([y, x], 0)).var(0)",
    "torch.stack([x > 0, y > 0], 0).any(0) * x + torch.stack([x > 0, y > 0]).all(0) * y",
    "torch.softmax(torch.stack([x, y, x * y], -1), -1).prod(-1)",
    "torch.stack([x, y], 0).argmax(0) * x",
    "torch.stack([x, y], 0).sum([0, 1])",
    "(torch.stack([x, y], 0) * x[:2, None, :]).sum(0)",
)
JOINED = {
    "given and stacked": "(torch.stack(xs, 1) ** 2).sum()",
    "given and put together": "(torch.cat(xs) ** 3).sum()",
    "computed and put together": "(torch.cat([x.tanh() for x in xs]) ** 2).sum()",
    "computed and stacked": "(torch.stack([x.exp() for x in xs]) ** 2).sum()",
}
DIVERGENCE = gs.CompilationUnit("""
def divergence(student, teacher, share: float = 0.3):
    log_p, log_q = torch.log_softmax(student, -1), torch.log_softmax(gs.constant(teacher), -1)
    parts = torch.stack([log_p + math.log(1 - share), log_q + math.log(share)])
    log_m = torch.logsumexp(parts, dim=0)
    return (share * log_q.exp() * (log_q - log_m) + (1 - share) * log_p.exp() * (log_p - log_m)).sum(-1).mean()
""").divergence


@pytest.mark.parametrize("text", REDUCED)
def test_stacked_parts_give_what_ops_give(text: str) -> None:
    function = gs.CompilationUnit(f"def f(x, y):\n    return {text}\n").f
    generator = np.random.default_rng(3)
    check_fused(function, [generator.normal(size=(5, 7)), generator.normal(size=(5, 7))])


@pytest.mark.parametrize("text", REDUCED[:6])
def test_they_are_no_reductions_of_a_program(text: str) -> None:
    function = gs.CompilationUnit(f"def f(x, y):\n    return {text}\n").f
    pair = fused(function, [np.ones((5, 7)), np.ones((5, 7))])
    kernels = [*pair.forward.kernels, *pair.backward(pair.usual_seeds()).kernels]
    assert not any(isinstance(statement, Reduce) for kernel in kernels for statement in kernel.body)


def test_a_divergence_from_a_mixture_moves_the_least() -> None:
    listing = DIVERGENCE.kernels(*[np.zeros((4096, 1024), np.float32)] * 2)
    for kernels, least in zip((listing.forward, listing.backward), listing.least_bytes, strict=True):
        assert sum(info.bytes_read + info.bytes_written for info in kernels) < 1.01 * least


def _function(text: str) -> Any:
    return gs.CompilationUnit(f"def f(xs: List[Tensor]):\n    return {text}\n").f


def _tensors(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(count).normal(size=(count, 5)))


@pytest.mark.parametrize("text", JOINED.values(), ids=JOINED)
def test_kernels_grow_with_their_number(text: str) -> None:
    def amounts(count: int) -> tuple[int, int]:
        """Statements, and the choices between parts among them."""
        pair = fused(_function(text), [_tensors(count)], [True])
        bodies = [k.body for k in (*pair.forward.kernels, *pair.backward(pair.usual_seeds()).kernels)]
        choices = sum(getattr(statement, "primitive", "") == "where" for body in bodies for statement in body)
        return sum(map(len, bodies)), choices

    (some, _), (twice, choices) = amounts(4 * MOST_JOINED), amounts(8 * MOST_JOINED)
    assert twice < 2.2 * some + 20
    assert not choices


@pytest.mark.parametrize("text", JOINED.values(), ids=JOINED)
@pytest.mark.parametrize("count", [MOST_JOINED, MOST_JOINED + 1])
def test_they_give_what_ops_give(text: str, count: int) -> None:
    results = []
    for backend in ("numpy", "c"):
        with gs.settings.backend(backend):
            value, (gradients,) = gs.value_and_grad(_function(text), argnums=(0,))(_tensors(count))
            results.append((value, *gradients))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)

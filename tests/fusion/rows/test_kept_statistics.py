"""What forwards of halves keep of rows is in float32, however it is written: gradients are off by one rounding.

Held to float64 by the kernels' meaning, cut for GPUs and for processors, on both sides of the planner's thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.autodiff.gradient import residuals_of
from gradscript.compiler.fusion.fuse import FusedPair, pair_gradient, planned_pair
from gradscript.compiler.fusion.program import names_in
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16, DType
from kernel_reference import run_program
from row_program_running import SPLITS, Split, few_elements

SOURCE = """
def logsumexp(x):
    return torch.logsumexp(x, -1)

def by_hand(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)

def log_softmax_by_hand(x):
    highest = x.amax(-1, keepdim=True)
    return x - highest - torch.log(torch.exp(x - highest).sum(-1, keepdim=True))

def returned_as_well(x):
    total = torch.logsumexp(x, -1, keepdim=True)
    return x - total, total

def own_backward(x):
    total = torch.logsumexp(x, -1, keepdim=True)
    def backward(grad):
        return grad * torch.exp(x - total)
    return total, backward

def columns(x):
    return torch.logsumexp(x, 0)

def rms(x):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)

def layer_norm(x):
    return F.layer_norm(x, [x.size(-1)])

def deviation(x):
    return (x - x.mean(-1, keepdim=True)).square().mean(-1).sqrt()

def all_of_it(x):
    return torch.exp(x - torch.logsumexp(torch.logsumexp(x, -1), 0))
"""
SHAPES = ((2, 9), (3, 700), (40, 9))
ROUNDINGS = 2.0
"""Of a result, by the largest: its own is half a unit in the last place, and what is computed in float32 is next to
nothing beside it."""


def planned(name: str, shape: tuple[int, ...], dtype: DType, split: Split) -> FusedPair:
    given = [Layout.contiguous(Meta(shape, dtype))]
    gradient = pair_gradient(differentiable_graph(gs.CompilationUnit(SOURCE)[name].callee), given, [True])
    return planned_pair(gradient, given, lambda primitive, found: True, split)


def splits() -> Iterator[Split]:
    yield from SPLITS.values()
    with few_elements() as split:
        yield split


def eager(name: str, x: Any) -> list[Any]:
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(SOURCE.replace("return total, backward", "return total"), names)
    found = names[name](x)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
@pytest.mark.parametrize("name", gs.CompilationUnit(SOURCE).functions)
def test_gradients_are_off_by_one_rounding(name: str, dtype: DType) -> None:
    unit = 2.0**-11 if dtype == FLOAT16 else 2.0**-8
    for shape in SHAPES:
        generator = np.random.default_rng(shape[1])
        x = (generator.normal(size=shape) * 3 + 20).astype(numpy_dtype(dtype))
        exact = torch.tensor(x.astype(np.float64), requires_grad=True)
        results = eager(name, exact)
        seeds = [generator.normal(size=tuple(r.shape)).astype(numpy_dtype(dtype)) for r in results]
        wanted = torch.autograd.grad(results, exact, [torch.tensor(s.astype(np.float64)) for s in seeds])[0].numpy()
        for split in splits():
            pair = planned(name, shape, dtype, split)
            gradient, outputs = pair.gradient, run_program(pair.forward, [x])
            for have, want in zip(outputs, results, strict=False):
                assert have.dtype == x.dtype
                limit = ROUNDINGS * unit * want.abs().max().item()
                np.testing.assert_allclose(have.astype(np.float64), want.detach().numpy(), rtol=0, atol=limit)
            backward = pair.backward([Layout.contiguous(Meta.of(seed)) for seed in seeds])
            given = [seeds[i] for i in gradient.input_vjps] + residuals_of(gradient, [x], outputs)
            (found,) = run_program(backward, given)
            assert found.dtype == x.dtype
            limit = ROUNDINGS * unit * np.abs(wanted).max()
            np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0, atol=limit)


@pytest.mark.parametrize("name", gs.CompilationUnit(SOURCE).functions)
def test_statistics_are_kept_in_float32(name: str) -> None:
    pair = planned(name, (40, 700), BFLOAT16, SPLITS["for GPUs"])
    outputs = pair.forward.outputs[pair.gradient.num_real_outputs :]
    layouts = [pair.forward.layouts[part] for output in outputs for part in names_in(output)]
    small = [str(layout.dtype) for layout in layouts if layout.meta.nbytes < 40 * 700]
    assert small and set(small) == {"float32"}


ROUNDS = """
def chunks(x, w, count: int):
    total = torch.zeros([], dtype=x.dtype)
    rows = x.size(0) // count
    for i in range(count):
        scores = gs.recompute(x[i * rows : (i + 1) * rows] * w)
        total = total + (scores.logsumexp(-1) - scores[:, 0]).sum()
    return total
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_statistics_of_rounds(backend: str, dtype: str) -> None:
    """Of what rounds put into lists, too; op by op each op rounds, as in torch."""
    generator = torch.Generator().manual_seed(0)
    half = getattr(torch, dtype)
    x = (torch.randn((6, 500), generator=generator) * 3 + 20).to(half)
    w = torch.ones(500, dtype=half)
    names: dict[str, Any] = {"torch": torch, "gs": gs}
    exec(ROUNDS.replace("gs.recompute", ""), names)
    exact = [x.double().requires_grad_(), w.double().requires_grad_()]
    wanted = torch.autograd.grad(names["chunks"](*exact, 3), exact)
    given = [x.clone().requires_grad_(), w.clone().requires_grad_()]
    with gs.settings.backend(backend):
        found = torch.autograd.grad(gs.CompilationUnit(ROUNDS).chunks(*given, 3), given)
    roundings = 3 if backend == "c" else 60
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == half
        limit = roundings * torch.finfo(half).eps / 2 * theirs.abs().max().item()
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=limit)

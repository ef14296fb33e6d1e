"""Random functions of two tensors, without branches, and their kernels beside the interpreter."""

from __future__ import annotations

from random import Random
from typing import Any

import gradscript as gs
import numpy as np
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.autodiff.gradient import residuals_of
from gradscript.compiler.fusion.fuse import KERNEL_POLICY, FusedPair, fuse_pair
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.kernel_ir.verifier import verify_kernel
from gradscript.runtime.kernels.listing import known_layout
from kernel_reference import run_program

UNARY = (
    "torch.exp({})",
    "torch.sigmoid({})",
    "torch.tanh({})",
    "torch.relu({})",
    "{}.neg()",
    "torch.sin({})",
    "F.gelu({})",
    "torch.abs({})",
    "torch.sqrt({}.abs() + 1)",
    "torch.clamp({}, -1, 1)",
    "F.silu({})",
)
BINARY = (
    "{} + {}",
    "{} * {}",
    "{} - {}",
    "torch.maximum({}, {})",
    "{} / ({}.abs() + 1)",
    "torch.where({} > 0, {}, 0.5)",
)
REDUCING = (
    "{}.sum({dims}, True)",
    "{}.mean({dims}, True)",
    "torch.amax({}, {dims}, True)",
    "torch.logsumexp({}, {dims}, True)",
    "{}.var({dims}, keepdim=True)",
    "F.softmax({}, {dim})",
    "F.log_softmax({}, {dim})",
    "{}.sum()",
    "{}.mean()",
    "torch.cumsum({}, {dim})",
)
ARRANGING = (
    "{}.transpose({a}, {b})",
    "{}.flip([{a}])",
    "torch.cat([{}, {}], {a})",
    "{}.unsqueeze({a}).squeeze({a})",
    "{}[..., 1:]",
    "{}.roll(1, {a})",
    "F.pad({}, [1, 2])",
    "{}.chunk(2, {a})[0]",
    "torch.stack([{}, {}], 0).sum(0)",
    "{}.expand_as({})",
    "{}.tril()",
    "{}.select({a}, 0)",
    "{} @ {}.transpose(-1, -2)",
)


def random_source(seed: int) -> str:
    """A function `f(x, y)`; not each fits tensors of the shapes that are tried."""
    random = Random(seed)
    rank = random.choice([2, 2, 3])
    names, lines = ["x", "y"], []
    for i in range(random.randint(2, 9)):
        kinds = random.choices([UNARY, BINARY, REDUCING, ARRANGING], [3, 3, 2, 2])[0]
        template = random.choice(kinds)
        a, b = random.sample(range(rank), 2)
        dims = random.choice([[-1], [0], list(range(rank)), [a]])
        recent = names[-3:] if random.random() < 0.7 else names
        operands = [random.choice(recent) for _ in range(template.count("{}"))]
        lines.append(f"    v{i} = {template.format(*operands, dims=dims, dim=dims[0], a=a, b=b)}")
        names.append(f"v{i}")
    return f"def f(x, y):\n{chr(10).join(lines)}\n    return {', '.join(names[-random.randint(1, 2) :])}\n"


def fused(function: gs.Function, values: list[Any], requires_grad: list[bool] | None = None) -> FusedPair:
    """The kernels of both passes for arguments such as these, whatever primitives a target has."""
    given = [known_layout(value, settled=False) for value in values]
    wanted = [isinstance(v, np.ndarray) and v.dtype.kind in "fV" for v in values]
    graph = differentiable_graph(function.callee)
    return fuse_pair(graph, given, requires_grad or wanted, KERNEL_POLICY, lambda primitive, dtype: True)


def run_fused(pair: FusedPair, values: list[Any], seeds: list[Any]) -> tuple[list[Any], dict[int, Any], list[Kernel]]:
    """Results, gradients by argument, and the kernels, each of which was verified."""
    gradient = pair.gradient
    outputs = run_program(pair.forward, values)
    backward = pair.backward([None if seed is None else known_layout(seed, settled=False) for seed in seeds])
    given = [seeds[i] for i in gradient.input_vjps] + residuals_of(gradient, values, outputs)
    gradients = run_program(backward, given)
    kernels = [*pair.forward.kernels, *backward.kernels]
    for kernel in kernels:
        verify_kernel(kernel)
    return outputs[: gradient.num_real_outputs], dict(zip(gradient.output_vjps, gradients, strict=True)), kernels


def check_fused(function: gs.Function, values: list[Any], tolerance: float = 1e-9) -> list[Kernel]:
    """Hold kernels against the interpreter: results, dtypes and gradients. Returns the kernels."""
    wanted, pull_back = gs.vjp(function, *values)
    results = list(wanted) if isinstance(wanted, tuple) else [wanted]
    generator = np.random.default_rng(1)
    seeds = [np.asarray(generator.normal(size=r.shape)).astype(r.dtype) for r in results]
    found, gradients, kernels = run_fused(fused(function, values), values, seeds)
    for have, want in zip(found, results, strict=True):
        assert have.dtype == want.dtype and have.shape == want.shape
        assert_close(have, want, tolerance)
    for i, want in enumerate(pull_back(tuple(seeds) if len(seeds) > 1 else seeds[0])):
        have = gradients.get(i)
        if have is None:
            assert want is None or not np.any(want)
        else:
            assert have.shape == want.shape
            assert_close(have, want, 10 * tolerance)
    return kernels


def assert_close(have: Any, want: Any, tolerance: float) -> None:
    """Relative to the largest element: sums in another order err by that."""
    have, want = np.asarray(have, np.float64), np.asarray(want, np.float64)
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 1.0
    np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance * max(scale, 1e-6))

"""Runs whole programs of kernels on torch tensors, by Triton's interpreter, beside functions in float64.

A script for a process of its own, for Triton decides when it is imported whether it interprets:

    TRITON_INTERPRET=1 python program_running.py DTYPE [PART …]

prints one line per case whose name has one of the parts in it, and the traceback of each that fails.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import torch
from gradscript.compiler.autodiff.gradient import residuals_of

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
TOLERANCES = {"float32": 3e-5, "float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-11}


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape)), dtype=torch.float64)


def rows(n: int, d: int) -> dict[str, Callable[[], list[Any]]]:
    return {
        "bias_gelu": lambda: [draw(n, d), draw(d)],
        "bias_gelu_tanh": lambda: [draw(n, d), draw(d)],
        "swiglu": lambda: [draw(n, d), draw(n, d)],
        "geglu": lambda: [draw(n, d), draw(n, d)],
        "rms_norm": lambda: [draw(n, d), draw(d)],
        "layer_norm": lambda: [draw(n, d), draw(d), draw(d)],
        "add_rms_norm": lambda: [draw(n, d), draw(n, d), draw(d)],
        "softmax": lambda: [draw(n, d)],
        "cross_entropy": lambda: [draw(n, d), torch.arange(n) % max(d, 1)],
        "dropout_add_layer_norm": lambda: [draw(n, d), draw(n, d), draw(d), draw(d)],
        "rope": lambda: [draw(2, 2, n, 2 * d), draw(n, 2 * d), draw(n, 2 * d)],
        "lstm_cell": lambda: [draw(n, 4 * d), draw(n, d)],
        "chain": lambda: [draw(n, d), draw(n, d)],
        "focal_loss": lambda: [draw(n, d), draw(n, d).sigmoid()],
        "adamw": lambda: [draw(n, d), draw(n, d), draw(n, d), draw(n, d) ** 2, 1e-3, 0.9, 0.99, 1e-8, 0.1, 3.0],
    }


CASES = {f"{name} {n}×{d}": (name, make) for n, d in ((1, 1), (7, 13), (70, 24)) for name, make in rows(n, d).items()}
CASES |= {
    "softmax of long rows": ("softmax", lambda: [draw(2, 40_000)]),
    "cross entropy of a large vocabulary": (
        "cross_entropy",
        lambda: [draw(3, 33_000), torch.tensor([5, 32_999, -100])],
    ),
    "layer norm of many rows": ("layer_norm", lambda: [draw(1500, 8), draw(8), draw(8)]),
    "bias_gelu transposed": ("bias_gelu", lambda: [draw(13, 9).t(), draw(13)]),
    "swiglu expanded": ("swiglu", lambda: [draw(1, 13).expand(9, 13), draw(9, 13)]),
    "layer_norm of every second row": ("layer_norm", lambda: [draw(18, 13)[::2], draw(13), draw(13)]),
    "swiglu without elements": ("swiglu", lambda: [draw(0, 13), draw(0, 13)]),
    "swiglu of one number": ("swiglu", lambda: [torch.tensor(0.5), torch.tensor(-0.25)]),
}


def check(unit: gs.CompilationUnit, name: str, values: list[Any], dtype: torch.dtype, tolerance: float) -> None:
    from gradscript.compiler.autodiff.differentiable import differentiable_graph
    from gradscript.compiler.codegen.triton.module import supports
    from gradscript.compiler.fusion.fuse import KERNEL_POLICY, fuse_pair
    from gradscript.runtime.kernels.program import DeviceProgram
    from gradscript.runtime.kernels.runner import KernelGraph, given

    narrow = [_as(value, dtype) for value in values]
    wide = [_as(value, torch.float64) for value in narrow]
    function, graph = unit[name], differentiable_graph(unit[name].callee)
    gs.random.manual_seed(7)
    found = KernelGraph(graph)(narrow)
    gs.random.manual_seed(7)
    wanted, pull_back = gs.vjp(function, *wide)
    results = list(wanted) if isinstance(wanted, tuple) else [wanted]
    for have, want in zip(found, results, strict=True):
        assert have.dtype == dtype and have.shape == want.shape
        _close(have, want, tolerance)
    if name == "adamw":
        return
    requires_grad = [isinstance(value, torch.Tensor) and value.is_floating_point() for value in narrow]
    pair = fuse_pair(graph, [given(value, False) for value in narrow], requires_grad, KERNEL_POLICY, supports)
    gs.random.manual_seed(7)
    outputs = DeviceProgram(pair.forward, narrow, torch.device("cpu")).run(narrow)
    seeds = [torch.randn(r.shape, dtype=torch.float64).to(dtype) for r in results]
    gradient = pair.gradient
    taken = [seeds[i] for i in gradient.input_vjps] + residuals_of(gradient, narrow, outputs)
    backward = DeviceProgram(pair.backward([given(seed, False) for seed in seeds]), taken, torch.device("cpu"))
    gradients = backward.run(taken)
    wide_seeds = tuple(seed.double() for seed in seeds)
    expected = pull_back(wide_seeds if len(seeds) > 1 else wide_seeds[0])
    for i, have in zip(gradient.output_vjps, gradients, strict=True):
        if have is not None:
            assert have.shape == narrow[i].shape and have.dtype == narrow[i].dtype
            _close(have, expected[i], 4 * tolerance)


def _as(value: Any, dtype: torch.dtype) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    if not is_float:
        return value
    strided = torch.empty_strided(value.shape, value.stride(), dtype=dtype) if value.numel() else value.to(dtype)
    if 0 in value.stride():
        return value.to(dtype)[:1].expand(value.shape)
    return strided.copy_(value) if value.numel() else strided


def _close(have: torch.Tensor, want: torch.Tensor, tolerance: float) -> None:
    # What cancels, such as the gradient of a row of one element, is as exact as what it is the difference of.
    scale = max(float(want.abs().max()) if want.numel() else 1.0, 1e-3)
    np.testing.assert_allclose(have.double().numpy(), want.double().numpy(), rtol=tolerance, atol=tolerance * scale)


def cases_with(parts: Sequence[str]) -> dict[str, tuple[str, Callable[[], list[Any]]]]:
    """The cases with one of the parts in their names; all of them where no part is given."""
    return {case: made for case, made in CASES.items() if not parts or any(part in case for part in parts)}


def main(dtype: str, parts: Sequence[str]) -> int:
    import kernel_running

    kernel_running._give_libdevice_to_the_interpreter()
    unit = gs.CompilationUnit((ROOT / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad")
    failed = 0
    for case, (name, make) in cases_with(parts).items():
        try:
            check(unit, name, make(), getattr(torch, dtype), TOLERANCES[dtype])
            print(f"ok      {case}", flush=True)
        except Exception:
            failed += 1
            print(f"failed  {case}\n{traceback.format_exc()}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

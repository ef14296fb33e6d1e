"""`make bench-cpu`: forward and all gradients by kernels in C, beside eager torch, torch.jit.script and torch.compile.

Contenders take turns on the same data, all with `--threads` threads; a time is the median of its turns. With `--small`
the rows are a hundredth of their size, to see that everything runs; `--compile` has torch.compile take part, which
needs seconds for each row.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROWS: dict[str, tuple[str, tuple[tuple[int, ...], ...]]] = {
    "bias+GELU [1024, 4096]": ("bias_gelu", ((1024, 4096), (4096,))),
    "SwiGLU [1024, 4096]": ("swiglu", ((1024, 4096), (1024, 4096))),
    "RMSNorm [2048, 1024]": ("rms_norm", ((2048, 1024), (1024,))),
    "LayerNorm [2048, 1024]": ("layer_norm", ((2048, 1024), (1024,), (1024,))),
    "LayerNorm, rows of 61": ("layer_norm", ((32_768, 61), (61,), (61,))),
    "LayerNorm, rows of 100,000": ("layer_norm", ((20, 100_000), (100_000,), (100_000,))),
    "cross-entropy [2048, 8192]": ("cross_entropy", ((2048, 8192),)),
    "LSTM cell [512, 1024]": ("lstm_cell", ((512, 4096), (512, 1024))),
    "chain of 12, 4M": ("chain", ((1 << 22,), (1 << 22,))),
    "softmax [16, 512, 512]": ("softmax", ((16 * 512, 512),)),
    "dropout+residual+LayerNorm [2048, 1024]": (
        "dropout_add_layer_norm",
        ((2048, 1024), (2048, 1024), (1024,), (1024,)),
    ),
    "focal loss 4M": ("focal_loss", ((1 << 22,), (1 << 22,))),
    "16 elements": ("chain", ((16,), (16,))),
}
"""What is shown → the function of suite.grad, and the shapes of its floating arguments."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args(arguments)
    # Kernels ask for it once, when the first of them runs.
    os.environ["OMP_NUM_THREADS"] = str(given.threads)
    print("\n".join(measured(given.threads, given.turns, given.small, given.compile)))


def measured(threads: int, turns: int, small: bool, compiles: bool) -> list[str]:
    """The lines of a Markdown table."""
    import gradscript as gs
    import torch
    from harness import medians
    from kernel_peers import TORCH

    torch.set_num_threads(threads)
    unit = gs.CompilationUnit((ROOT / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad")
    names = ["gradscript", "torch eager", "torch.jit.script", *(["torch.compile"] if compiles else [])]
    lines = [f"| ms, {threads} threads | {' | '.join(names)} | × best peer |", "|---" * (len(names) + 2) + "|"]
    factors = []
    for shown, (name, shapes) in ROWS.items():
        tensors = _tensors(name, [_smaller(shape) if small else shape for shape in shapes])
        contenders = {"gradscript": _ours(gs, unit[name], tensors), "torch eager": _torch(TORCH[name], tensors)}
        for peer, make in _made(torch, compiles).items():
            compiled = _attempt(make, TORCH[name], tensors)
            if compiled is not None:
                contenders[peer] = compiled
        found = medians(contenders, turns)
        factors.append(min(time for peer, time in found.items() if peer != "gradscript") / found["gradscript"])
        cells = [f"{1e3 * found[peer]:.3f}" if peer in found else "" for peer in names]
        lines.append(f"| {shown} | {' | '.join(cells)} | {factors[-1]:.2f} |")
    mean = exp(sum(map(log, factors)) / len(factors))
    return [*lines, f"| geometric mean | {' | '.join('' for _ in names)} | {mean:.2f} |"]


def _smaller(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (max(shape[0] // 100, 16), *shape[1:]) if len(shape) > 1 else shape


def _tensors(name: str, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    import torch

    generator = torch.Generator().manual_seed(1)
    found = [torch.randn(*shape, generator=generator) for shape in shapes]
    if name == "focal_loss":
        found[1] = found[1].sigmoid()
    if name == "cross_entropy":
        rows, classes = shapes[0]
        found.append(torch.randint(0, classes, (rows,), generator=generator))
    return found


def _ours(gs: Any, function: Any, tensors: Sequence[Any]) -> Callable[[], object]:
    arrays = [tensor.numpy() for tensor in tensors]
    with gs.settings.backend("c"):
        results = function(*arrays)
    seeds = tuple(result * 0 + 1 for result in results) if isinstance(results, tuple) else results * 0 + 1

    def run() -> object:
        with gs.settings.backend("c"):
            _, pull_back = gs.vjp(function, *arrays)
            return pull_back(seeds)

    return run


def _torch(function: Callable[..., Any], tensors: Sequence[Any]) -> Callable[[], object]:
    import torch

    leaves = [t.clone().requires_grad_(t.is_floating_point()) for t in tensors]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]

    def run() -> object:
        results = function(*leaves)
        results = results if isinstance(results, tuple) else (results,)
        return torch.autograd.grad(results, wanted, [torch.ones_like(r) for r in results])

    return run


def _made(torch: Any, compiles: bool) -> Mapping[str, Callable[[Any], Any]]:
    found: dict[str, Callable[[Any], Any]] = {"torch.jit.script": torch.jit.script}
    return {**found, "torch.compile": torch.compile} if compiles else found


def _attempt(make: Callable[[Any], Any], function: Any, tensors: Sequence[Any]) -> Callable[[], object] | None:
    """A peer's function; None where the peer cannot compile it."""
    try:
        work = _torch(make(function), tensors)
        work()
    except Exception as error:
        print(f"{getattr(make, '__name__', make)}: {str(error).splitlines()[0]}", file=sys.stderr)
        return None
    return work


if __name__ == "__main__":
    main(sys.argv[1:])

"""`make bench-cpu`: forward and all gradients by kernels in C, beside what else there is for a CPU.

Contenders take turns on the same data, all with `--threads` threads; a time is the median of its turns. JAX and HIPS
autograd take part where they are installed, torch.compile with `--compile`, which needs seconds for each row.
`--resident` has the system's allocator keep memory, as our kernels do. With `--small` the rows are a hundredth of
their size, to see that everything runs. `--keep` writes docs/benchmarks.md, with what `cpu_growth.py` measures.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 40)}
"""What has glibc keep what is freed."""
PEERS = ("torch eager", "torch.jit.script", "torch.compile", "jax.jit", "autograd", "NumPy by hand")
FEW, MANY = 10_000, 200
"""Elements up to which a turn is many calls, and how many."""
ADAMW = (1e-3, 0.9, 0.999, 1e-8, 0.01, 10.0)


@dataclass(frozen=True)
class Timed:
    """A row: a function, the shapes of its floating arguments, and of those that have no gradient the places."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    constant: tuple[int, ...] = ()


_4M = (1 << 22,)
ROWS: dict[str, Timed] = {
    "bias+GELU [1024, 4096]": Timed("bias_gelu", ((1024, 4096), (4096,))),
    "SwiGLU [1024, 4096]": Timed("swiglu", ((1024, 4096), (1024, 4096))),
    "RMSNorm [2048, 1024]": Timed("rms_norm", ((2048, 1024), (1024,))),
    "LayerNorm [2048, 1024]": Timed("layer_norm", ((2048, 1024), (1024,), (1024,))),
    "LayerNorm, rows of 61": Timed("layer_norm", ((32_768, 61), (61,), (61,))),
    "LayerNorm, rows of 100,000": Timed("layer_norm", ((20, 100_000), (100_000,), (100_000,))),
    "cross-entropy [2048, 8192]": Timed("cross_entropy", ((2048, 8192),)),
    "LSTM cell [512, 1024]": Timed("lstm_cell", ((512, 4096), (512, 1024))),
    "chain of 12, 4M": Timed("chain", (_4M, _4M)),
    "softmax [16, 512, 512]": Timed("softmax", ((16 * 512, 512),)),
    "masked softmax [16, 512, 512]": Timed("masked_softmax", ((16, 512, 512),)),
    "dropout+residual+LayerNorm [2048, 1024]": Timed(
        "dropout_add_layer_norm", ((2048, 1024), (2048, 1024), (1024,), (1024,))
    ),
    "RoPE [8, 16, 512, 64]": Timed("rope", ((8, 16, 512, 64), (512, 64), (512, 64)), (1, 2)),
    "focal loss 4M": Timed("focal_loss", (_4M, _4M)),
    "AdamW 4M, no gradient": Timed("adamw", (_4M, _4M, _4M, _4M), (0, 1, 2, 3)),
    "16 elements": Timed("chain", ((16,), (16,))),
}
"""What is shown → what is timed."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--rows", default="", help="those whose names begin so")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--resident", action="store_true")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args(arguments)
    if given.resident and "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        os.execve(sys.executable, [sys.executable, __file__, *arguments], {**os.environ, **KEEPING})
    # Kernels ask for threads once, when the first of them runs; the backend is asked for when gradscript is imported.
    os.environ |= {"OMP_NUM_THREADS": str(given.threads), "GRADSCRIPT_BACKEND": "c"}
    with TemporaryDirectory() as cache:
        # What other runs have kept says which sizes vary.
        os.environ["GRADSCRIPT_CACHE"] = cache
        _run(given)


def _run(given: argparse.Namespace) -> None:
    if given.keep:
        from results.cpu_page import keep

        keep(given.turns, given.compile)
        return
    print("\n".join(measured(given.threads, given.turns, given.small, given.compile, given.rows)))


def measured(threads: int, turns: int, small: bool, compiles: bool, rows: str = "") -> list[str]:
    """The lines of a Markdown table."""
    import torch
    from harness import medians

    torch.set_num_threads(threads)
    seconds_of_byte = _copy_time()
    lines = [
        f"| ms, {threads} threads | gradscript | {' | '.join(PEERS)} | × best peer | of copy bandwidth |",
        "|---" * (len(PEERS) + 4) + "|",
    ]
    factors = []
    for shown, row in ROWS.items():
        if not shown.startswith(rows):
            continue
        arguments = arguments_of(row, small)
        # Of a unit of its own, which has met no other lengths, as peers compile anew for each row.
        function = our_functions()[row.name]
        contenders = _contenders(function, row, arguments, compiles)
        calls = 1 if prod(row.shapes[0]) > FEW else MANY
        found = {who: time / calls for who, time in medians(_repeated(contenders, calls), turns).items()}
        best = min(time for peer, time in found.items() if peer != "gradscript")
        factors.append(best / found["gradscript"])
        cells = [f"{1e3 * found[peer]:.3g}" if peer in found else "" for peer in ("gradscript", *PEERS)]
        moved = _least_bytes(function, row, arguments) if calls == 1 else 0
        share = f"{moved * seconds_of_byte / found['gradscript']:.0%}" if moved else ""
        lines.append(f"| {shown} | {' | '.join(cells)} | {factors[-1]:.2f} | {share} |")
    mean = exp(sum(map(log, factors)) / max(len(factors), 1))
    return [*lines, f"| geometric mean {'| ' * (len(PEERS) + 1)}| {mean:.2f} | |"]


def _repeated(contenders: Mapping[str, Callable[[], object]], calls: int) -> dict[str, Callable[[], object]]:
    """The works, each so many times in a turn."""

    def often(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(calls):
                work()

        return run

    return {name: often(work) for name, work in contenders.items()}


def our_functions() -> dict[str, Any]:
    """The functions of both files by name."""
    import gradscript as gs

    found: dict[str, Any] = {}
    for file in ("suite.grad", "inputs/cpu.grad"):
        unit = gs.CompilationUnit((ROOT / "benchmarks" / file).read_text(encoding="utf-8"), file)
        found |= {name: unit[name] for name in unit.functions}
    return found


def _copy_time() -> float:
    """Seconds of a byte that torch copies, read or written, by all threads, to memory that is there."""
    import torch
    from harness import medians

    source = torch.ones(1 << 24)
    target = torch.ones(1 << 24)
    return medians({"copy": lambda: target.copy_(source)}, 15)["copy"] / (2 * source.nbytes)


def _least_bytes(function: Any, row: Timed, arguments: Sequence[Any]) -> int:
    """What both passes must read of their arguments and write of their results."""
    least = function.kernels(*arguments).least_bytes
    return int(least[0] if len(row.constant) == len(row.shapes) else sum(least))


def arguments_of(row: Timed, small: bool = False) -> list[Any]:
    """Arrays, and what numbers come behind them."""
    import numpy as np

    rng = np.random.default_rng(1)
    shapes = [_smaller(s) if small and i not in row.constant else s for i, s in enumerate(row.shapes)]
    found: list[Any] = [rng.standard_normal(shape, np.float32) for shape in shapes]
    if row.name == "focal_loss":
        found[1] = 1 / (1 + np.exp(-found[1]))
    if row.name == "cross_entropy":
        found.append(rng.integers(0, shapes[0][1], shapes[0][0]))
    if row.name == "masked_softmax":
        found.append(np.tri(*shapes[0][-2:], dtype=bool))
    if row.name == "adamw":
        found[3] = np.abs(found[3])
        found += ADAMW
    return found


def _smaller(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (max(shape[0] // 100, 16), *shape[1:]) if len(shape) > 1 else shape


# --- contenders ---


def _contenders(
    function: Any, row: Timed, arguments: Sequence[Any], compiles: bool
) -> Mapping[str, Callable[[], object]]:
    import torch
    from peers.array_peers import by_autograd, by_hand, by_jax
    from peers.kernel_peers import TORCH

    wanted = [i for i in range(len(row.shapes)) if i not in row.constant]
    theirs = TORCH[row.name]
    makers: dict[str, Callable[[], Callable[[], object] | None]] = {
        "torch eager": lambda: by_torch(theirs, arguments, wanted),
        "torch.jit.script": lambda: by_torch(torch.jit.script(theirs), arguments, wanted),
        "jax.jit": lambda: by_jax(row.name, arguments, wanted, _ones),
        "autograd": lambda: by_autograd(row.name, arguments, wanted, _ones),
        "NumPy by hand": lambda: by_hand(row.name, arguments),
    }
    if compiles:
        # Else it compiles for sizes that vary, once another row had others.
        torch.compiler.reset()
        makers["torch.compile"] = lambda: by_torch(torch.compile(theirs), arguments, wanted)
    found = {"gradscript": by_us(function, arguments, wanted)}
    for peer, make in makers.items():
        work = _attempt(peer, make)
        if work is not None:
            found[peer] = work
    return found


def _attempt(peer: str, make: Callable[[], Callable[[], object] | None]) -> Callable[[], object] | None:
    """A peer's work; None where the peer is not here, or cannot do it."""
    try:
        work = make()
        if work is not None:
            work()
    except Exception as error:
        print(f"{peer}: {str(error).splitlines()[0]}", file=sys.stderr)
        return None
    return work


def _ones(results: Any) -> Any:
    return tuple(result * 0 + 1 for result in results) if isinstance(results, tuple) else results * 0 + 1


def by_us(function: Any, arguments: Sequence[Any], wanted: Sequence[int]) -> Callable[[], object]:
    """Forward and gradients on arrays."""
    import gradscript as gs

    if not wanted:
        return lambda: function(*arguments)
    seeds = _ones(function(*arguments))

    def run() -> object:
        _, pull_back = gs.vjp(function, *arguments)
        return pull_back(seeds)

    return run


def by_torch(function: Callable[..., Any], arguments: Sequence[Any], wanted: Sequence[int]) -> Callable[[], object]:
    """The same on tensors."""
    import numpy as np
    import torch

    given = [torch.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in arguments]
    leaves = [given[i].requires_grad_() for i in wanted]
    if not wanted:
        return lambda: function(*given)
    seeds: list[Any] = []

    def run() -> object:
        results = function(*given)
        results = results if isinstance(results, tuple) else (results,)
        seeds[:] = seeds or [torch.ones_like(result) for result in results]
        return torch.autograd.grad(results, leaves, seeds)

    return run


if __name__ == "__main__":
    main(sys.argv[1:])

"""Measure, and print one table. `--keep` also writes it to benchmarks/results/, under today's date.

A number is kept against a limit or against a peer of the same run; none of them is a test. Calls run op by op: what
kernels in C take is measured by benchmarks/cpu.py.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import execution
import gradscript as gs
import numpy as np
import torch
from harness import Row, Work, medians, table
from inputs.sources import SWIGLU, SWIGLU_LOSS, SWIGLU_TORCHSCRIPT, long_function, many_functions

gs.settings.backend = "numpy"
RESULTS = Path(__file__).parent / "results"
STATEMENTS = (5_000, 10_000, 20_000)
SHAPE = (64, 64)


def importing() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        # Bytecode is kept, wherever the environment would have it, as it is for an installed package.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}

        def python(code: str) -> Work:
            return lambda: subprocess.run([sys.executable, "-c", code], check=True, env=environment)

        contenders = {
            "bare": python("pass"),
            "import": python("import gradscript"),
            "numpy": python("import numpy"),
            "first compile": python(f"import gradscript as gs; gs.CompilationUnit({SWIGLU!r})"),
        }
        taken = medians(contenders, turns=15, warm=1)
    over = {name: 1e3 * (seconds - taken["bare"]) for name, seconds in taken.items()}
    return [
        Row("import gradscript, over bare Python", over["import"], "ms", 150, "import numpy", over["numpy"]),
        Row("import and a first compile, over bare Python", over["first compile"], "ms"),
    ]


def compiling() -> list[Row]:
    lines = many_functions(500)
    taken = medians(
        {
            "swiglu": lambda: gs.CompilationUnit(SWIGLU),
            "swiglu, torch": lambda: torch.jit.CompilationUnit(SWIGLU_TORCHSCRIPT),
            "lines": lambda: gs.CompilationUnit(lines),
            "lines, torch": lambda: torch.jit.CompilationUnit(lines),
        },
        turns=25,
    )
    ms = {name: 1e3 * seconds for name, seconds in taken.items()}
    peer = "torch.jit.CompilationUnit"
    return [
        Row("compile swiglu, warm", ms["swiglu"], "ms", 3, peer, ms["swiglu, torch"]),
        Row("compile 500 lines", ms["lines"], "ms", 300, peer, ms["lines, torch"]),
    ]


def scaling() -> list[Row]:
    sources = {n: long_function(n) for n in STATEMENTS}
    works = {str(n): lambda text=text: gs.CompilationUnit(text) for n, text in sources.items()}
    taken = medians(works, turns=5, warm=1)
    rows = []
    for n, twice in itertools.pairwise(STATEMENTS):
        growth = taken[str(twice)] / taken[str(n)]
        rows.append(Row(f"compile {twice:,} statements, over {n:,}", growth, "×", 2.3))
    rows.append(Row(f"compile {STATEMENTS[-1]:,} statements", taken[str(STATEMENTS[-1])], "s"))
    return rows


def differentiating() -> list[Row]:
    rng = np.random.default_rng(0)
    gate, up = (rng.standard_normal(SHAPE, dtype=np.float32) for _ in range(2))
    torch_gate, torch_up = (torch.from_numpy(a).requires_grad_() for a in (gate, up))
    ours = gs.value_and_grad(gs.CompilationUnit(SWIGLU_LOSS).loss, argnums=(0, 1))

    def eager() -> Any:
        loss = (torch.nn.functional.silu(torch_gate) * torch_up).sum()
        return loss, torch.autograd.grad(loss, (torch_gate, torch_up))

    def by_hand() -> Any:
        sigmoid = 1 / (1 + np.exp(-gate))
        silu = gate * sigmoid
        return (silu * up).sum(), (up * (sigmoid + silu * (1 - sigmoid)), silu)

    _, expected = eager()
    for found in (ours(gate, up), by_hand()):
        for mine, theirs in zip(found[1], expected, strict=True):
            np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)
    taken = medians({"ours": lambda: ours(gate, up), "eager": eager, "by hand": by_hand}, turns=200, warm=20)
    us = {name: 1e6 * seconds for name, seconds in taken.items()}
    what = f"swiglu loss and gradients, {SHAPE[0]} × {SHAPE[1]}"
    return [
        Row(what, us["ours"], "µs", None, "torch eager", us["eager"]),
        Row(what, us["ours"], "µs", None, "NumPy by hand", us["by hand"]),
    ]


MEASURES = (importing, compiling, scaling, differentiating, *execution.MEASURES)


def circumstances() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("gradscript", "numpy", "lark", "torch"))
    return f"Python {platform.python_version()}, {packages}; {platform.machine()}, {os.cpu_count()} cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write the table to benchmarks/results/")
    keep: bool = parser.parse_args().keep
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    torch.set_num_threads(1)
    rows: list[Row] = []
    for measure in MEASURES:
        print(f"measuring: {measure.__name__} …", file=sys.stderr, flush=True)
        rows += measure()
    note = "Times are medians of interleaved turns; a ratio below 1 is faster than the peer."
    text = f"{circumstances()}\n\n{table(rows)}\n\n{note}\n"
    print(text)
    if keep:
        today = datetime.date.today().isoformat()
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{today}.md").write_text(f"# Benchmarks, {today}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What backwards keep of forwards, in bytes and time, by policy; beside torch's min-cut partitioner.

python benchmarks/memory.py            prints the tables
python benchmarks/memory.py --keep     also writes them into docs/memory.md, with the plots beside it

Bytes are counted in runs, by `gradscript.runtime.memory.measure`. Times are of one thread: the least of interleaved
turns, so that what else the machine does weighs little.
"""

from __future__ import annotations

import os

# One thread, said before NumPy is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What is counted is what plans of ops keep.
os.environ["GRADSCRIPT_BACKEND"] = "numpy"

import argparse
import gc
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gradscript.authoring.cli.timeline import svg
from gradscript.compiler.autodiff.flatten import leaves
from gradscript.compiler.recompute import Recomputed, policy
from gradscript.runtime.execution.derivatives import derivatives_of
from gradscript.runtime.execution.differentiated import Differentiated
from gradscript.runtime.memory.measure import Measurement, measure, report_of
from gradscript.runtime.values.text_tables import bytes_text
from harness import put_between
from inputs import model_arguments
from inputs.model_arguments import Model
from peers import torch_models

POLICIES = ("save_all", "mirror", "min_cut")
TURNS = 7
STEPS = 1000
DOCUMENT = Path(__file__).parents[1] / "docs" / "memory.md"
MARKS = ("<!-- measured by `make bench-memory ARGS=--keep` -->", "<!-- end of what was measured -->")
PLOTTED = "lstm_nmt"
MEAN, BEST, TIME = 1.9, 3.2, 1.05
"""The bars: mean and best factor by which min_cut keeps less than save_all, and the time beside it."""


@dataclass
class Run:
    """A model under a policy."""

    model: Model
    policy: str
    values: list[Any]
    differentiated: Differentiated
    recomputed: Recomputed
    measured: Measurement

    def once(self) -> None:
        """Forward and backward, as `gs.value_and_grad` runs them."""
        (output,), residuals = self.differentiated.run(self.values)
        self.differentiated.pull_back_once(self.values, [np.ones_like(output)], residuals)


def run_of(model: Model, name: str) -> Run:
    derivatives = derivatives_of(model.function)
    bound = model.function.bind(tuple(model.arguments), {})
    values = leaves(bound, derivatives.input_types)
    differentiated, recomputed = derivatives.rematerialize(bound, policy(name))
    return Run(model, name, values, differentiated, recomputed, measure(differentiated, values))


def arrays_of(values: Sequence[Any]) -> list[Any]:
    flat = (item for value in values for item in (value if isinstance(value, list) else [value]))
    return [item for item in flat if item is not None]


def require_same_bits(runs: Sequence[Run]) -> None:
    """Outputs and gradients of every policy are those of the first, to the bit."""
    first, *others = ([*run.measured.outputs, *arrays_of(run.measured.gradients)] for run in runs)
    for run, found in zip(runs[1:], others, strict=True):
        for expected, array in zip(first, found, strict=True):
            if expected.tobytes() != array.tobytes():
                raise SystemExit(f"{run.model.name} under {run.policy}: not the gradients of {runs[0].policy}")


def least_times(works: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Seconds of processor time of one call of each."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(TURNS + 1):
        for name, work in works.items():
            gc.collect()
            started = time.process_time()
            work()
            if turn:
                times[name].append(time.process_time() - started)
    return {name: min(taken) for name, taken in times.items()}


# --- tables ---


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in (headings, *rows)
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def models(plot: bool) -> str:
    rows, factors, slow = [], [], []
    for make in model_arguments.MODELS:
        model = make()
        log(model.title)
        runs = [run_of(model, name) for name in POLICIES]
        require_same_bits(runs)
        times = least_times({run.policy: run.once for run in runs if run.policy != "mirror"})
        saved = {run.policy: run.measured.saved_bytes for run in runs}
        factor, ratio = saved["save_all"] / saved["min_cut"], times["min_cut"] / times["save_all"]
        factors.append(factor)
        if model.by_matmul and ratio > TIME:
            slow.append(model.name)
        theirs = torch_models.min_cut_saved_bytes(torch_models.MODELS[model.name], to_torch(model.arguments))
        rows.append(
            [
                model.title,
                *(bytes_text(saved[name]) for name in POLICIES),
                f"{factor:.2f} ×",
                *(bytes_text(runs[i].measured.peak_bytes) for i in (0, 2)),
                f"{times['save_all']:.2f} s",
                f"{ratio:.3f}",
                bytes_text(theirs),
                verdict(saved["min_cut"] <= theirs),
            ]
        )
        log("  " + " | ".join(rows[-1]))
        if plot and model.name == PLOTTED:
            draw(runs)
    headings = ["model", *(f"saved, {name}" for name in POLICIES), "factor", "peak, save_all", "peak, min_cut"]
    headings += ["time, save_all", "time, min_cut ÷ save_all", "saved, torch min-cut", "no larger"]
    mean, best = statistics.mean(factors), max(factors)
    note = (
        f"Factor on average {mean:.2f} (bar {MEAN}: {verdict(mean >= MEAN)}), at best {best:.2f} (bar {BEST}: "
        f"{verdict(best >= BEST)}). Time on the two models that matrix products dominate, the first two, at most "
        f"{TIME} × : {verdict(not slow)}. Gradients are the same to the bit under every policy."
    )
    return f"{markdown(headings, rows)}\n\n{note}"


def functions() -> str:
    rows = []
    for model in model_arguments.functions():
        runs = [run_of(model, name) for name in POLICIES]
        require_same_bits(runs)
        theirs = torch_models.min_cut_saved_bytes(torch_models.FUNCTIONS[model.name], to_torch(model.arguments))
        saved = [run.measured.saved_bytes for run in runs]
        rows.append([f"`{model.name}`", *map(bytes_text, saved), bytes_text(theirs), verdict(saved[2] <= theirs)])
        log("  " + " | ".join(rows[-1]))
    return markdown(["function", *POLICIES, "torch min-cut", "no larger"], rows)


def checkpointing() -> str:
    """A loop of many steps whose body no policy but a budget shortens: a product and a tanh."""
    draw_of = model_arguments.Draw()
    function = model_arguments.load("functions").recurrence
    model = Model("recurrence", "", function, [draw_of.values(16, 128), draw_of.weight(128, 128), STEPS])
    state = model.arguments[0].nbytes
    specs = ("save_all", f"budget={2 * isqrt(STEPS) * state}")
    runs = []
    for spec in specs:
        log(f"{STEPS} steps, {spec}")
        runs.append(run_of(model, spec))
    require_same_bits(runs)
    times = least_times({run.policy: run.once for run in runs})
    rows = []
    for run in runs:
        own_peak = run.measured.peak_bytes - run.measured.input_bytes
        rows.append(
            [
                f"`{run.policy}`",
                f"{run.measured.saved_bytes / state:.0f} states",
                f"{own_peak / state:.0f} states",
                f"{times[run.policy] / times['save_all']:.2f}",
            ]
        )
    return markdown(["policy", "saved", "peak beyond the arguments", "time ÷ save_all"], rows)


def to_torch(arguments: Sequence[Any]) -> list[Any]:
    return [_to_torch(value) for value in arguments]


def _to_torch(value: Any) -> Any:
    if isinstance(value, list):
        return to_torch(value)
    if not isinstance(value, np.ndarray):
        return value
    tensor = torch.from_numpy(value.copy())
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def verdict(holds: bool) -> str:
    return "yes" if holds else "NO"


def draw(runs: Sequence[Run]) -> None:
    """Live memory under save_all and min_cut, on one scale."""
    top = max(run.measured.peak_bytes for run in runs)
    for run in runs:
        if run.policy != "mirror":
            report = report_of(run.model.name, policy(run.policy), run.differentiated, run.recomputed, run.measured, [])
            path = DOCUMENT.with_name(f"memory_{run.policy}.svg")
            path.write_text(svg(report, top), encoding="utf-8")


def circumstances() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "torch"))
    cpu = f"{os.cpu_count()}-core {platform.machine().replace('_', '-')} CPU"
    return f"Python {platform.python_version()}, {packages}; one thread of a {cpu}, float32."


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write the tables into docs/memory.md")
    keep: bool = parser.parse_args().keep
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    torch.set_num_threads(1)
    parts = [
        circumstances(),
        f"### Functions beside torch\n\n{functions()}",
        f"### A loop of {STEPS:,} steps under a budget\n\n{checkpointing()}",
        f"### Models\n\n{models(plot=keep)}",
    ]
    text = "\n\n".join(parts)
    print(text)
    if keep:
        DOCUMENT.write_text(put_between(DOCUMENT.read_text(encoding="utf-8"), MARKS, text), encoding="utf-8")


if __name__ == "__main__":
    main()

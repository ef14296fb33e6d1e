"""What the host pays beside kernels: a plan whose texts are in the cache, launches, and sizes that vary.

python benchmarks/host_bars.py                    all of it; `make bench-models` prints it too

All in processor time, that of a compiler's processes included, without Python's collector, and with a cache of its own:
what earlier processes kept is not measured here.
"""

from __future__ import annotations

import gc
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from batch_texts import MOST, unit
from harness import Row, table
from inputs.model_arguments import FOLDER, transformer
from inputs.suite_shapes import ARGUMENTS, NO_BACKWARD, Classes

RECORDING = Path(__file__).parents[1] / "tests" / "kernels" / "devices"
PLAN_LIMIT, LAUNCH_LIMIT, NEW_SIZE_LIMIT, MET_SIZE_LIMIT = 50.0, 5.0, 1.0, 30.0
"""Milliseconds, microseconds, milliseconds and microseconds."""
TURNS, LAUNCHES, CALLS = 5, 2000, 20
SIZES, SMALL, COLUMNS = 50, 64, 8
"""How many numbers of rows; how many rows at most and columns where a call is to be next to nothing but the host's."""
SHAPES = {**ARGUMENTS, "rope": lambda rows, columns: [(2, 2, rows, columns), (rows, columns), (rows, columns)]}
"""As the suite's, with rows that rotary embedding has too: its sequences."""


def host_rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADSCRIPT_CACHE", cache)
        return [_cached_plan(), *_launches(), *_sizes()]


def _spent() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _seconds(work: Callable[[], object], calls: int = 1) -> float:
    collects = gc.isenabled()
    gc.disable()
    try:
        began = _spent()
        for _ in range(calls):
            work()
        return (_spent() - began) / calls
    finally:
        if collects:
            gc.enable()


def _step(function: gs.Function, arguments: Sequence[Any]) -> Callable[[], object]:
    """A forward and all gradients; a forward alone of what has none."""

    def step() -> object:
        if function.name in NO_BACKWARD:
            return function(*arguments)
        value, pull_back = gs.vjp(function, *arguments)
        return pull_back(*map(np.ones_like, value if isinstance(value, tuple) else (value,)))

    return step


def _cached_plan() -> Row:
    """The first step of a new unit, less a second one: what is left is its plans, and finding what was built."""
    model, source, taken = transformer(0.25), (FOLDER / "transformer.grad").read_text(encoding="utf-8"), []
    with gs.settings.backend("c"):
        _step(model.function, model.arguments)()
        for _ in range(TURNS):
            step = _step(gs.CompilationUnit(source, "transformer.grad")["transformer"], model.arguments)
            taken.append(_seconds(step) - _seconds(step))
    return Row("transformer: plan, its texts in the cache", 1e3 * statistics.median(taken), "ms", PLAN_LIMIT)


def _launches() -> list[Row]:
    """In a process of its own, for the driver that records takes the place of Triton's."""
    done = subprocess.run([sys.executable, __file__, "--launches"], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"launches: none without Triton: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return []
    middle, worst = map(float, done.stdout.split())
    what = "the suite's kernels: host time of a launch"
    return [Row(f"{what}, median", middle, "µs", LAUNCH_LIMIT), Row(f"{what}, worst", worst, "µs", LAUNCH_LIMIT)]


def _print_launches() -> None:
    """The median over the suite's kernels, and the worst, in microseconds: each the median of some turns."""
    sys.path.insert(0, str(RECORDING))
    import launch_recording as recording
    import torch
    from gradscript.runtime.kernels.triton.kernel import TritonKernel
    from gradscript.runtime.values.torch_dtypes import torch_dtypes

    recording.driver.set_active(recording.Driver())
    suite, taken = unit(), []
    for name, shapes in SHAPES.items():
        listing = suite[name].kernels(*map(_array, shapes(64, 128)))
        for info in (*listing.forward, *listing.backward):
            kernel = TritonKernel(info.kernel, recording.OnDevice.device)
            dtypes = [torch_dtypes()[buffer.dtype] for buffer in info.kernel.buffers]
            tensors: list[Any] = [recording.OnDevice(torch.zeros(1, dtype=dtype)) for dtype in dtypes]
            taken.append(_launch_seconds(kernel, tensors, recording.launches))
    print(1e6 * statistics.median(taken), 1e6 * max(taken))


def _launch_seconds(kernel: Any, tensors: list[Any], launches: list[Any]) -> float:
    numbers = [0.5] * len(kernel.kernel.parameters)
    kernel.launch(tensors, numbers, 0)
    turns = []
    for _ in range(TURNS):
        launches.clear()
        turns.append(_seconds(lambda: kernel.launch(tensors, numbers, 0), LAUNCHES))
    return statistics.median(turns)


def _sizes() -> list[Row]:
    """Over numbers of rows of each of the suite's functions, in C; two calls before tell that rows vary.

    What a size costs that was not met is its first step, both passes, less a second one. A call of one that was is a
    forward whole, the kernels' own time included.
    """
    draw, suite = random.Random(1), unit()
    new: dict[str, float] = {}
    met: dict[str, float] = {}
    with gs.settings.backend("c"):
        for name, shapes in SHAPES.items():
            for turn, rows in enumerate(draw.sample(range(1, MOST + 1), SIZES + 2)):
                step = _step(suite[name], [_array(given) for given in shapes(rows, COLUMNS)])
                # A second call builds what runs calls without Python in between.
                first, again = _seconds(step), _seconds(step)
                if turn >= 2:
                    new[f"{name}, {rows} rows"] = first - again
            for rows in draw.sample(range(1, SMALL + 1), SIZES):
                arguments = [_array(given) for given in shapes(rows, COLUMNS)]
                suite[name](*arguments)
                met[f"{name}, {rows} rows"] = _seconds(partial(suite[name], *arguments), CALLS)
    return [
        *_middle_and_worst("a size not met before", new, "ms", 1e3, NEW_SIZE_LIMIT),
        *_middle_and_worst("a call of a size met before", met, "µs", 1e6, MET_SIZE_LIMIT),
    ]


def _middle_and_worst(what: str, seconds: Mapping[str, float], unit: str, scale: float, limit: float) -> list[Row]:
    worst = max(seconds, key=lambda name: seconds[name])
    over = sum(scale * taken > limit for taken in seconds.values())
    named = f"{what}: worst, {worst} ({over} of {len(seconds)} are over)"
    middle = statistics.median(seconds.values())
    return [
        Row(f"{what}: median", scale * middle, unit, limit),
        Row(named, scale * seconds[worst], unit, limit),
    ]


def _array(given: Any) -> Any:
    if isinstance(given, Classes):
        return np.zeros(given.rows, np.int64)
    return np.ones(given, np.float32) if isinstance(given, tuple) else given


if __name__ == "__main__":
    if sys.argv[1:] == ["--launches"]:
        _print_launches()
    else:
        print(table(host_rows()))

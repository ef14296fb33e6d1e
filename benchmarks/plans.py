"""Whole models: how long their kernels take to plan, how many there are beside torch.compile's, what a step takes.

python benchmarks/plans.py                    plans of all models, and of the transformer with 6, 24 and 96 layers
python benchmarks/plans.py --steps            the time of a training step in C too, beside torch eager
python benchmarks/plans.py --compile          torch.compile beside both: its kernels, and its step; minutes
python benchmarks/plans.py --scale=0.5        all sizes halved; --models=transformer,mlp some of them
python benchmarks/plans.py --keep             what is printed goes into benchmarks/results/models.md

A plan is what `f.kernels(…)` lists: both passes, nothing compiled. What the host pays where all is built, for plans,
launches and sizes that vary, is printed behind. Processors and GPUs are given the same kernels.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import torch
from gradscript.runtime.kernels.listing import KernelListing
from harness import Row, medians, table
from host_bars import host_rows
from inputs.model_arguments import FOLDER, MODELS, Draw, Model, ones, zeros
from peers import torch_models

RESULTS = Path(__file__).parent / "results" / "models.md"
PLAN_LIMITS = {"transformer": 1.5, "lstm_nmt": 2.0}
"""Seconds that planning both passes may take."""
DEPTHS = (6, 24, 96)
DEEPER = 1.2
"""So many times as long may the plan of the deepest take as that of the shallowest."""
TURNS = 5


def planned(source: str, name: str, arguments: Sequence[Any]) -> tuple[float, KernelListing]:
    """Seconds of processor time of the quickest of some plans of new units, and the listing."""
    best, listing = float("inf"), None
    for _ in range(TURNS):
        function = gs.CompilationUnit(source, f"{name}.grad")[name]
        began = time.process_time()
        listing = function.kernels(*arguments)
        best = min(best, time.process_time() - began)
    assert listing is not None
    return best, listing


def source_of(name: str) -> str:
    return (FOLDER / f"{name}.grad").read_text(encoding="utf-8")


def planning(models: Sequence[Model], compiled: dict[str, int]) -> list[Row]:
    rows = []
    for model in models:
        seconds, listing = planned(source_of(model.name), model.name, model.arguments)
        kernels = (*listing.forward, *listing.backward)
        texts = {info.text for info in kernels}
        moved = sum(info.bytes_read + info.bytes_written for info in kernels)
        peer = compiled.get(model.name)
        rows += [
            Row(f"{model.name}: plan of both passes", seconds, "s", PLAN_LIMITS.get(model.name)),
            Row(f"{model.name}: kernels", len(kernels), "", peer, "torch.compile's on a CPU" if peer else "", peer),
            Row(f"{model.name}: texts of them", len(texts), ""),
            Row(
                f"{model.name}: bytes that one round of each moves, over the least",
                moved / sum(listing.least_bytes),
                "×",
            ),
        ]
    return rows


def deepening() -> list[Row]:
    """The transformer by its number of layers, which are the length of its lists."""
    source = source_of("transformer").replace("range(6)", "range(len(norm1))")
    rows, first = [], 0.0
    for layers in DEPTHS:
        seconds, listing = planned(source, "transformer", _transformer(layers))
        first = first or seconds
        kernels = len({info.text for info in (*listing.forward, *listing.backward)})
        limit = DEEPER if layers == DEPTHS[-1] else None
        rows.append(Row(f"transformer of {layers} layers: plan, over that of {DEPTHS[0]}", seconds / first, "×", limit))
        rows.append(Row(f"transformer of {layers} layers: texts of its kernels", kernels, ""))
    return rows


def _transformer(layers: int, width: int = 64, words: int = 128, tokens: int = 16) -> list[Any]:
    draw, each = Draw(), range(layers)
    mask = np.triu(np.full((tokens, tokens), -1e9, np.float32), 1)
    lists = [
        *([ones(width) for _ in each], [zeros(width) for _ in each]),
        *([draw.weight(width, 3 * width) for _ in each], [draw.weight(width, width) for _ in each]),
        *([ones(width) for _ in each], [zeros(width) for _ in each]),
        *([draw.weight(width, 4 * width) for _ in each], [zeros(4 * width) for _ in each]),
        *([draw.weight(4 * width, width) for _ in each], [zeros(width) for _ in each]),
    ]
    texts = [draw.classes(words, 2, tokens) for _ in range(2)]
    tables = [draw.weight(words, width), draw.weight(tokens, width)]
    return [*texts, mask, 4, *tables, *lists, ones(width), zeros(width)]


# --- steps ---


def stepping(models: Sequence[Model], compiled: dict[str, Callable[[], object]]) -> list[Row]:
    """A forward and all gradients on a CPU."""
    rows = []
    for model in models:
        contenders = {"ours": _step(model, "c"), "eager": _by_torch(model, torch_models.MODELS[model.name])}
        if model.name in compiled:
            contenders["torch.compile"] = compiled[model.name]
        contenders["ours, op by op"] = _step(model, "numpy")
        taken = medians(contenders, TURNS, warm=1)
        rows += [
            Row(f"{model.name}: a step in C", 1e3 * taken["ours"], "ms", None, name, 1e3 * taken[name])
            for name in contenders
            if name != "ours"
        ]
    return rows


def _step(model: Model, backend: str) -> Callable[[], object]:
    def step() -> object:
        with gs.settings.backend(backend):
            value, pull_back = gs.vjp(model.function, *model.arguments)
            return pull_back(np.ones_like(value))

    return step


def _tensor(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensor(item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    return torch.from_numpy(value).requires_grad_(value.dtype == np.float32)


def _leaves(values: Sequence[Any]) -> list[Any]:
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return [item for item in flat if isinstance(item, torch.Tensor) and item.requires_grad]


def _by_torch(model: Model, function: Callable[..., Any]) -> Callable[[], object]:
    arguments = _tensor(model.arguments)
    leaves = _leaves(arguments)
    return lambda: torch.autograd.grad(function(*arguments), leaves, allow_unused=True)


def _compiled(models: Sequence[Model]) -> tuple[dict[str, int], dict[str, Callable[[], object]]]:
    """The kernels that torch.compile makes of both passes, by model, and the step."""
    from torch._inductor import metrics

    counts, steps = {}, {}
    for model in models:
        torch._dynamo.reset()
        metrics.reset()
        steps[model.name] = _by_torch(model, torch.compile(torch_models.MODELS[model.name]))
        steps[model.name]()
        counts[model.name] = metrics.generated_kernel_count
    return counts, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", action="store_true", help="time a training step too")
    parser.add_argument("--compile", action="store_true", help="compare with torch.compile")
    parser.add_argument("--scale", type=float, default=0.25, help="of all sizes; 1 is that of docs/memory.md")
    parser.add_argument("--models", default="", help="the names of some models")
    parser.add_argument("--keep", action="store_true", help="write what is printed to benchmarks/results/models.md")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    wanted = given.models.split(",") if given.models else []
    models = [make(given.scale) for make in MODELS if not wanted or make.__name__ in wanted]
    counts, steps = _compiled(models) if given.compile else ({}, {})
    rows = planning(models, counts) + deepening() + host_rows()
    if given.steps:
        rows += stepping(models, steps)
    text = table(rows)
    print(text)
    if given.keep:
        head = (
            f"# Whole models, {datetime.date.today()}\n\nSizes × {given.scale:g}; Python {platform.python_version()},"
        )
        RESULTS.write_text(f"{head} torch {torch.__version__}, one thread.\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

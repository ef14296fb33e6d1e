"""A training step of whole models: ours, on a GPU ours as one CUDA graph too, eager torch, torch.compile.

python benchmarks/model_steps.py               times of all models on a GPU; without one it says so
python benchmarks/model_steps.py --device=cpu  on the processor
python benchmarks/model_steps.py --compile     torch.compile beside them; minutes
python benchmarks/model_steps.py --scale=0.25  all sizes times that; --models=transformer,mlp some of them

A step is a forward and all gradients. The time is the host's and the device's together, from a call to the end of the
last kernel, for that is what a training loop pays. The first step, which plans and compiles, is timed by itself, with
whatever the caches on disk hold. Each line is printed when it is measured.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import gradscript as gs
import torch
from inputs.model_arguments import MODELS, Model
from kernel_timing import Timer
from peers import torch_models

TURNS, CALLS = 5, 5
LIMITS = {"cuda": 0.9, "cpu": 1.0}
"""So much of torch.compile's time may a step take."""


def measure(model: Model, timer: Timer, *, compiled: bool) -> None:
    """Print the milliseconds of each contender, the seconds of its first step, and whether gradients agree."""
    arguments = _tensor(model.arguments, timer.device)
    leaves = [tensor for tensor in _flat(arguments) if tensor.requires_grad]
    peer = torch_models.MODELS[model.name]

    def step(function: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(function(*arguments), leaves, allow_unused=True)

    works = {"ours": step(model.function), "eager": step(peer)}
    if timer.device == "cuda":
        try:
            captured = gs.graphed(_both(model.function, len(leaves)), *arguments)
            works["ours, one graph"] = lambda: captured(*arguments)
        except gs.RuntimeFailure as failure:
            print(f"{model.name}: no graph: {failure}", flush=True)
    if compiled:
        works["torch.compile"] = step(torch.compile(peer))
    gradients, first = {}, {}
    for name, work in works.items():
        started = time.perf_counter()
        gradients[name] = work()
        timer.wait()
        first[name] = time.perf_counter() - started
    agrees = _agree(gradients["ours"], gradients["eager"])
    del gradients
    taken = {name: 1e3 * seconds for name, seconds in timer.overheads(works, TURNS, CALLS).items()}
    line = ", ".join(
        f"{name} {milliseconds:.2f} ms (first {first[name]:.1f} s)" for name, milliseconds in taken.items()
    )
    print(f"{model.name}: {line}; gradients {'agree' if agrees else 'DIFFER'}", flush=True)
    if compiled:
        ratio = min(taken["ours"], taken.get("ours, one graph", taken["ours"])) / taken["torch.compile"]
        print(
            f"{model.name}: {ratio:.2f} × torch.compile, {'holds' if ratio <= LIMITS[timer.device] else 'FAILS'}",
            flush=True,
        )


def _both(function: Any, count: int) -> Callable[..., Any]:
    def step(*arguments: Any) -> Any:
        leaves = [tensor for tensor in _flat(list(arguments)) if tensor.requires_grad]
        assert len(leaves) == count
        return torch.autograd.grad(function(*arguments), leaves, allow_unused=True)

    return step


def _agree(found: Any, wanted: Any) -> bool:
    pairs = [(a, b) for a, b in zip(found, wanted, strict=True) if a is not None and b is not None]
    return all(float((a - b).norm()) <= 1e-3 * float(b.norm()) + 1e-6 for a, b in pairs)


def _tensor(value: Any, device: str) -> Any:
    if isinstance(value, list):
        return [_tensor(item, device) for item in value]
    if not hasattr(value, "dtype"):
        return value
    found = torch.from_numpy(value).to(device)
    return found.requires_grad_(found.is_floating_point())


def _flat(values: list[Any]) -> list[Any]:
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return [item for item in items if isinstance(item, torch.Tensor)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true", help="compare with torch.compile")
    parser.add_argument("--device", choices=sorted(LIMITS), default="cuda")
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes; 1 is that of docs/memory.md")
    parser.add_argument("--models", default="", help="the names of some models")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device: nothing is measured")
        return
    warnings.filterwarnings("ignore")
    wanted = given.models.split(",") if given.models else [make.__name__ for make in MODELS]
    device = torch.cuda.get_device_name() if given.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{device}, torch {torch.__version__}, {sys.version.split()[0]}", flush=True)
    for make in MODELS:
        if make.__name__ in wanted:
            measure(make(given.scale), Timer(given.device), compiled=given.compile)


if __name__ == "__main__":
    main()

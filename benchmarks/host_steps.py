"""What the host pays for a training step of whole models on a device, beside eager torch: no kernel runs.

python benchmarks/host_steps.py                          all models
python benchmarks/host_steps.py --models=transformer,mlp some of them
python benchmarks/host_steps.py --memory                 what their temporaries hold, beside one block planned for all

Tensors of a CPU stand for those of a device. Kernels are launched by all that launches them on one, up to Triton's
launcher, which here does nothing; ops of torch run, on so few elements that they take little but their dispatch.
Eager torch is given the same tensors. Each time is the least of many.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import Row, table
from inputs.model_arguments import MODELS, Model
from peers import torch_models

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from gradscript.runtime.kernels import program, runner
from gradscript.runtime.kernels.launches import launch_list
from gradscript.runtime.kernels.launches.row import LaunchRow
from gradscript.runtime.kernels.launches.steps import CalledOp, LaunchedKernel, slots_in
from gradscript.runtime.kernels.triton import kernel as triton_kernel
from kernel_device import kernel_device

SCALE, TURNS, WARM = 0.02, 200, 6
STREAM = 1
ROUNDED = 512
"""Bytes of which torch's allocator gives multiples."""


class NoLauncher:
    """What Triton makes of a kernel, without one. Counts launches."""

    function, packed_metadata = 0, ()
    count = 0

    @classmethod
    def run(cls, *arguments: Any) -> None:
        cls.count += 1


def _prepare(built: Any, arguments: Sequence[Any], programs: Any, kinds: Any = None) -> Callable[..., None]:
    return triton_kernel._direct(NoLauncher, programs, lambda *given, stream: None, tuple(built.constants.values()))


def _as_on_a_device(patch: pytest.MonkeyPatch) -> None:
    """Have kernels for tensors of the CPU be launched, and not interpreted."""
    make = triton_kernel.TritonKernel.__init__

    def made(kernel: Any, *given: Any, **named: Any) -> None:
        make(kernel, *given, **named)
        kernel.is_interpreted = False

    patch.setattr(triton_kernel.TritonKernel, "__init__", made)
    patch.setattr(triton_kernel.Built, "prepare", _prepare)
    for module in (program, runner):
        patch.setattr(module, "on_stream", lambda device, run: run(STREAM))


def measured(model: Model) -> list[Row]:
    """Microseconds of a step, ours and eager torch's, and how many kernels are launched in ours."""
    arguments = torch_models.as_leaves(model.arguments)
    leaves = [tensor for tensor in _flat(arguments) if tensor.requires_grad]
    peer = torch_models.MODELS[model.name]
    works = [
        lambda: torch.autograd.grad(model.function(*arguments), leaves, allow_unused=True),
        lambda: torch.autograd.grad(peer(*arguments), leaves, allow_unused=True),
    ]
    for _ in range(WARM):
        for work in works:
            work()
    NoLauncher.count = 0
    works[0]()
    launches, best = NoLauncher.count, [float("inf")] * 2
    for _ in range(TURNS):
        for i, work in enumerate(works):
            started = time.perf_counter()
            work()
            best[i] = min(best[i], 1e6 * (time.perf_counter() - started))
    return [
        Row(f"{model.name}: the host's step", best[0], "µs", best[1], "eager", best[1]),
        Row(f"{model.name}: kernels launched in it", launches, ""),
    ]


def held(model: Model) -> list[Row]:
    """KiB of each list of launches: kernels' temporaries that live at once, a block that they could share, and all."""
    lists: list[tuple[LaunchRow, set[int]]] = []
    make = launch_list.LaunchList.__init__

    def made(kept: Any, row: LaunchRow, outputs: Sequence[Any]) -> None:
        make(kept, row, outputs)
        lists.append((row, set(slots_in(outputs))))

    arguments = torch_models.as_leaves(model.arguments)
    leaves = [tensor for tensor in _flat(arguments) if tensor.requires_grad]
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr(launch_list.LaunchList, "__init__", made)
        for _ in range(WARM):
            torch.autograd.grad(model.function(*arguments), leaves, allow_unused=True)
    rows = []
    for half, (row, outputs) in zip(("forward", "backward"), lists, strict=False):
        lives = _lives(row.steps, outputs)
        at_once = max((sum(n for a, b, n in lives if a <= i <= b) for i in range(len(row.steps))), default=0)
        name = f"{model.name}, {half}: {len(row.steps)} steps, {len(lives)} temporaries"
        rows.append(Row(f"{name}, live at once", at_once / 1024, "KiB"))
        rows.append(Row(f"{name}, in one block", _block(lives) / 1024, "KiB"))
        rows.append(Row(f"{name}, together", sum(n for *_, n in lives) / 1024, "KiB"))
    return rows


def _lives(steps: Sequence[Any], outputs: set[int]) -> list[tuple[int, int, int]]:
    """First step, last step and bytes of what kernels are given to write to, but for what is returned."""
    born: dict[int, tuple[int, int]] = {}
    last: dict[int, int] = {}
    lies_in: dict[int, int] = {}

    def owner(slot: int) -> int:
        while slot in lies_in:
            slot = lies_in[slot]
        return slot

    for i, step in enumerate(steps):
        if isinstance(step, LaunchedKernel):
            for slot, shape, _, dtype in step.made:
                born[slot] = i, -(-prod(shape) * dtype.itemsize // ROUNDED) * ROUNDED
            lies_in.update((slot, source) for slot, source, _ in step.moved)
        elif isinstance(step, CalledOp) and step.is_view and step.read:
            lies_in.update((slot, step.read[0]) for slot in step.written)
        last.update((owner(slot), i) for slot in (*step.read, *step.written))
    returned = {owner(slot) for slot in outputs}
    return [(first, last[slot], size) for slot, (first, size) in born.items() if slot not in returned]


def _block(lives: Sequence[tuple[int, int, int]]) -> int:
    """Bytes of a block in which each has a place of its own while it lives: large ones first, where they fit best."""
    placed: list[tuple[int, int, int, int]] = []
    for first, last, size in sorted(lives, key=lambda life: -life[2]):
        beside = sorted((at, at + n) for a, b, n, at in placed if a <= last and first <= b)
        end, best = 0, None
        for start, stop in beside:
            if start - end >= size and (best is None or start - end < best[1]):
                best = end, start - end
            end = max(end, stop)
        placed.append((first, last, size, end if best is None else best[0]))
    return max((at + n for *_, n, at in placed), default=0)


def _flat(values: Sequence[Any]) -> list[Any]:
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return [item for item in items if isinstance(item, torch.Tensor)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", action="store_true", help="what temporaries hold, and no times")
    parser.add_argument("--models", default="", help="the names of some models")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    wanted = given.models.split(",") if given.models else [make.__name__ for make in MODELS]
    patch = pytest.MonkeyPatch()
    with kernel_device(patch, runner.KernelGraph), patch.context() as inside:
        _as_on_a_device(inside)
        found, scale = (held, 5 * SCALE) if given.memory else (measured, SCALE)
        rows = [row for make in MODELS if make.__name__ in wanted for row in found(make(scale))]
    print(table(rows))


if __name__ == "__main__":
    main()

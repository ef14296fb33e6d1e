"""What the host pays for a training step of whole models on a device, beside eager torch: no kernel runs.

python benchmarks/host_steps.py                          all models
python benchmarks/host_steps.py --models=transformer,mlp some of them

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
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import Row, table
from inputs.model_arguments import MODELS, Model
from peers import torch_models

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from gradscript.runtime.kernels import program, runner
from gradscript.runtime.kernels.triton import kernel as triton_kernel
from kernel_device import kernel_device

SCALE, TURNS, WARM = 0.02, 200, 6
STREAM = 1


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
    arguments = _tensor(model.arguments)
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


def _tensor(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensor(item) for item in value]
    if not hasattr(value, "dtype"):
        return value
    found = torch.from_numpy(value)
    return found.requires_grad_(found.is_floating_point())


def _flat(values: Sequence[Any]) -> list[Any]:
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return [item for item in items if isinstance(item, torch.Tensor)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="", help="the names of some models")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    wanted = given.models.split(",") if given.models else [make.__name__ for make in MODELS]
    patch = pytest.MonkeyPatch()
    with kernel_device(patch, runner.KernelGraph), patch.context() as inside:
        _as_on_a_device(inside)
        rows = [row for make in MODELS if make.__name__ in wanted for row in measured(make(SCALE))]
    print(table(rows))


if __name__ == "__main__":
    main()

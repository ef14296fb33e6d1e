"""What a training step of whole models launches, beside what torch.compile does for the same text. No GPU is needed.

python benchmarks/model_launches.py         a table of all models
python benchmarks/model_launches.py --keep  which goes into docs/kernels.md

Counted is a step of a second call, value and all gradients: kernels, calls of the library, what torch's eager ops
launch between those (PyTorch's profiler tells; views and empty memory are none), and the bytes of the elements that
kernels and calls of the library read and write, each once. Ours are those of the plan, which the reference of kernels
runs; theirs the nodes of Inductor's scheduler for processors after fusion, each a kernel, wherever a compiled graph is
called, while the graph itself runs op by op. What torch.compile leaves to eager torch, for a branch on data in a loop,
is in no graph, and its bytes are not counted.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import markdown, print_or_keep
from inputs.model_arguments import MODELS
from peers import torch_models
from torch._inductor import compile_fx, config, graph, scheduler
from torch.autograd.profiler import profile, record_function

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "kernels" / "models")]
import data_programs  # noqa: E402
import kernel_device  # noqa: E402
import whole_models  # noqa: E402
from gradscript.compiler.fusion.program import ExternStep  # noqa: E402
from gradscript.compiler.scheduling.costs import bytes_moved  # noqa: E402

SCALE = 0.05
PROGRAMS = ("chunks_of_loss", "tbptt", "routed", "beam")
DOCUMENT = Path(__file__).parents[1] / "docs" / "kernels.md"
MARKS = ("<!-- counted by `python benchmarks/model_launches.py --keep` -->", "<!-- end of what steps launch -->")
INSIDE = "what is counted by its plan"
NO_LAUNCH = re.compile(
    r"aten::_?(alias|as_strided_?|chunk|detach|empty\w*|expand\w*|flatten|lift_fresh|narrow|new_empty|permute|reshape\w*|resize_"
    r"|resolve_\w+|result_type|select|slice|split\w*|squeeze|t|to|transpose|unbind|unsqueeze|unsafe_view|view\w*)"
)
"""Ops of torch that compute nothing."""
Job = tuple[str, Callable[..., Any], Callable[..., Any], list[Any]]


@dataclass
class Launches:
    """Of one step: kernels, calls of the library, what eager ops launch, bytes, and how many graphs or parts of a plan
    ran."""

    kernels: int = 0
    library: int = 0
    eager: int = 0
    bytes: int = 0
    parts: int = 0

    def add(self, other: Launches) -> None:
        self.kernels += other.kernels
        self.bytes += other.bytes
        self.library += other.library
        self.parts += 1

    def reset(self) -> None:
        self.kernels = self.library = self.eager = self.bytes = self.parts = 0

    def cells(self) -> tuple[str, str]:
        """What is launched, and what of it in which way; bytes."""
        total = self.kernels + self.library + self.eager
        moved = f"{self.bytes:,}" if not self.eager else f"{self.bytes:,} and more" if self.bytes else ""
        return f"{total:,} ({self.kernels} + {self.library} + {self.eager})", moved


def ours(function: Callable[..., Any], arguments: list[Any]) -> Launches:
    """What a second step of ours launches on a device."""
    total, run = Launches(), kernel_device.FixedProgram.run

    def counted(program: Any, values: Sequence[Any]) -> list[Any]:
        found = Launches()
        for step in program._program.steps:
            if isinstance(step, ExternStep):
                if not step.is_view:
                    found.library += 1
                    found.bytes += _held_bytes(program._program, step)
            else:
                found.kernels += 1
                found.bytes += sum(bytes_moved(step.kernel).values())
        total.add(found)
        with record_function(INSIDE):
            results: list[Any] = run(program, values)
        return results

    patch = pytest.MonkeyPatch()
    with kernel_device.kernel_device(patch), patch.context() as inside:
        inside.setattr(kernel_device.FixedProgram, "run", counted)
        _count(function, arguments, total)
    return total


def _held_bytes(program: Any, step: ExternStep) -> int:
    """Of the tensors that a call of the library reads and writes."""
    metas = [program.layouts[name].meta for name in {*step.read, *step.written} if name in program.layouts]
    return sum(meta.numel * meta.dtype.itemsize for meta in metas)


class _Counted(Exception):
    """A graph was scheduled, and nothing is to be compiled."""


class Inductor:
    """A backend of torch.compile that counts what Inductor would launch, and runs the graph op by op."""

    def __init__(self) -> None:
        self.total = Launches()
        self._last = Launches()

    def __call__(self, module: Any, inputs: Sequence[Any]) -> Any:
        return compile_fx.compile_fx(module, inputs, inner_compile=self._compile)

    def _compile(self, module: Any, inputs: Sequence[Any], **options: Any) -> Any:
        kept = deepcopy(module)
        self._last = Launches()
        with pytest.MonkeyPatch().context() as patch:
            patch.setattr(graph.GraphLowering, "codegen", lambda lowering: self._schedule(lowering))
            # Inductor gives what is raised in it another type.
            with suppress(Exception):
                compile_fx.compile_fx_inner(module, inputs, **options)
        found = self._last
        assert found.kernels or found.library, "Inductor scheduled nothing"

        def call(arguments: list[Any]) -> list[Any]:
            self.total.add(found)
            given = arguments.copy()
            arguments.clear()
            with torch.no_grad(), record_function(INSIDE):
                return list(kept(*given))

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def _schedule(self, lowering: Any) -> None:
        lowering.init_wrapper_code()
        lowering._update_scheduler()
        for node in lowering.scheduler.nodes:
            if isinstance(node, scheduler.ExternKernelSchedulerNode):
                self._last.library += 1
                self._last.bytes += node.get_read_write_buffers_sizes()
            elif not isinstance(node, scheduler.NopKernelSchedulerNode):
                self._last.kernels += 1
                self._last.bytes += node.get_read_write_buffers_sizes()
        raise _Counted


def theirs(function: Callable[..., Any], arguments: list[Any]) -> Launches:
    """What a second step by torch.compile launches."""
    torch._dynamo.reset()
    inductor = Inductor()
    compiled = torch.compile(function, backend=inductor, dynamic=False)
    _count(compiled, arguments, inductor.total)
    return inductor.total


def _count(function: Callable[..., Any], arguments: list[Any], total: Launches) -> None:
    """Have a second step count."""
    _step(function, arguments)
    total.reset()
    with profile() as found:
        _step(function, arguments)
    total.eager = sum(map(_launches, found.function_events))


def _launches(event: Any) -> bool:
    """Whether an op of torch launches something, beside what is counted otherwise: one that is made of no such op."""
    if not _computes(event) or any(map(_computes, _inside(event))):
        return False
    while event is not None:
        if event.name == INSIDE:
            return False
        event = event.cpu_parent
    return True


def _computes(event: Any) -> bool:
    return event.name.startswith("aten::") and not NO_LAUNCH.fullmatch(event.name)


def _inside(event: Any) -> Iterator[Any]:
    """All that an event consists of."""
    pending = list(event.cpu_children)
    while pending:
        found = pending.pop()
        yield found
        pending += found.cpu_children


def _step(function: Callable[..., Any], arguments: list[Any]) -> None:
    value = function(*arguments)
    flat = [item for given in arguments for item in (given if isinstance(given, list) else [given])]
    leaves = [item for item in flat if isinstance(item, torch.Tensor) and item.requires_grad]
    with record_function(INSIDE):
        seed = torch.ones_like(value)
    torch.autograd.grad(value, leaves, seed, allow_unused=True)


def jobs() -> Iterator[Job]:
    """Each model: its name, ours, torch's, and arguments."""
    for make in MODELS:
        model = make(SCALE)
        yield model.name, model.function, torch_models.MODELS[model.name], torch_models.as_leaves(list(model.arguments))
    for name in whole_models.MODELS:
        arguments = whole_models.tensors(whole_models.arguments(name))
        yield f"`{name}` of the tests", whole_models.UNIT[name], whole_models.eager(name), arguments
    for name in PROGRAMS:
        yield name, data_programs.UNIT[name], data_programs.eager(name), data_programs.arguments(name, 1)


def counted() -> str:
    """The table."""
    rows = []
    for name, function, peer, arguments in jobs():
        found, other = ours(function, arguments).cells(), theirs(peer, arguments).cells()
        rows.append([name, *(cell for pair in zip(found, other, strict=True) for cell in pair)])
    return markdown(["model", "launches", "`torch.compile`", "bytes", "`torch.compile`"], rows)


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    config.force_disable_caches = True
    print_or_keep(__doc__, DOCUMENT, MARKS, counted)


if __name__ == "__main__":
    main()

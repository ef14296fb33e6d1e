"""Sizes that vary on devices: kernels of Triton are planned for classes of them, and give what exact plans do."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import gradscript as gs
import pytest
import torch
from amounts import some_of
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.runtime.kernels.program import DeviceProgram
from gradscript.runtime.kernels.runner import KernelGraph
from gradscript.runtime.kernels.triton.kernel import TritonKernel
from kernel_device import kernel_device
from sized_functions import TEXT

pytest.importorskip("triton")
ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
from batch_texts import CASES, unit  # noqa: E402
from inputs.suite_shapes import COLUMNS, Classes  # noqa: E402

SUITE, UNIT = unit(), gs.CompilationUnit(TEXT)
NAMES = list(UNIT.functions)
DRAWN = random.Random(7)
SIZES = (4096, 1024, 8192, 4, 31, 32, 33, 1, 2, *DRAWN.sample(range(1, 8193), 30))


@pytest.mark.parametrize("names", some_of([NAMES[i::4] for i in range(4)]), ids=",".join)
def test_results_are_those_of_exact_plans_to_the_bit(names: list[str], tmp_path: Path) -> None:
    script = Path(__file__).with_name("size_class_running.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "GRADSCRIPT_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, str(script), *names], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.count("ok ") == len(names)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[TritonKernel]]:
    """Each kernel that is made ready, on a device where launches do nothing."""
    found: list[TritonKernel] = []
    init = TritonKernel.__init__

    def noted(kernel: TritonKernel, *given: Any, **named: Any) -> None:
        init(kernel, *given, **named)
        found.append(kernel)

    monkeypatch.setattr(TritonKernel, "__init__", noted)
    monkeypatch.setattr(TritonKernel, "launch", lambda *given: None)
    with kernel_device(monkeypatch, KernelGraph):
        yield found


def _like(given: Any) -> Any:
    if isinstance(given, Classes):
        return torch.zeros(given.rows, dtype=torch.int64)
    return torch.empty(given) if isinstance(given, tuple) else given


@pytest.mark.parametrize("case", some_of(CASES))
def test_the_suite_has_few_texts_and_few_plans(case: str, built: list[TritonKernel]) -> None:
    name, shapes = CASES[case]
    columns = 64 if case.startswith("rope") else COLUMNS.get(case, 1024)
    graph, texts, plans = KernelGraph(differentiable_graph(SUITE[name].callee)), dict[int, set[str]](), []
    for size in SIZES:
        program = graph.fixed([_like(given) for given in shapes(size, columns)])
        assert isinstance(program, DeviceProgram)
        for place, kernel in enumerate(program.kernels):
            texts.setdefault(place, set()).add(kernel.text)
        plans.append(len(built))
    assert max(map(len, texts.values())) <= 4
    steps = sum(after > before for before, after in pairwise(plans))
    # 1, 2 and 3 are planned for as they are, and what varies is open from the second size on.
    assert steps <= 8, plans


@pytest.mark.parametrize("name", some_of(sorted({*NAMES} - {"attended"})))
def test_a_training_step_at_a_new_size_plans_nothing(name: str, built: list[TritonKernel]) -> None:
    function, counts = gs.CompilationUnit(TEXT)[name], []
    for size in (64, 80, 60, 96, 100, 60, *range(66, 96)):
        x, w = torch.empty(size, 16, requires_grad=True), torch.empty(16, requires_grad=True)
        y = function(x, w)
        torch.autograd.grad(y, [x, w], torch.empty(y.shape))
        counts.append(len(built))
    # What even sizes decide is another class.
    assert counts[-1] == counts[-20], counts


def test_schedules_that_are_timed_are_so_for_each_size(built: list[TritonKernel]) -> None:
    function, counts = gs.CompilationUnit(TEXT).normed, []
    with gs.settings.autotuning(True):
        for size in (64, 80, 96, 112):
            function(torch.empty(size, 16), torch.empty(16))
            counts.append(len(built))
    assert len(set(counts)) == 4


def test_second_derivatives_at_new_sizes_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are asked of the gradient for the very sizes."""
    unit = gs.CompilationUnit("def f(x, w):\n    return torch.tanh(x * w) / x.size(0)\n")
    with kernel_device(monkeypatch):
        for size in (8, 12, 16, 20, 9):
            x = torch.linspace(-1, 1, size * 3, dtype=torch.float64).reshape(size, 3).requires_grad_()
            w = torch.linspace(0.5, 1, 3, dtype=torch.float64, requires_grad=True)
            found, wanted = (
                torch.autograd.grad(torch.autograd.grad(y.sum(), x, create_graph=True)[0].pow(2).sum(), [x, w])
                for y in (unit.f(x, w), torch.tanh(x * w) / size)
            )
            for have, want in zip(found, wanted, strict=True):
                torch.testing.assert_close(have, want)

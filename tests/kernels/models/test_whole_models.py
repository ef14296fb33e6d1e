"""Models with branches and loops on data: kernels in C and the kernels' reference beside torch in float64."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.autodiff.flatten import flatten_signature
from gradscript.compiler.codegen.triton.module import supports
from gradscript.runtime.kernels.c.launched import LaunchedKernels
from kernel_device import kernel_device
from kernel_reference import run_fused
from whole_models import MODELS, NEWTON, TEXT, UNIT, arguments, eager, flat, tensors


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels in C that run."""
    found: list[str] = []
    run = LaunchedKernels.run

    def counted(kernels: LaunchedKernels, *given: Any) -> None:
        found.extend(kernels.plan.functions)
        run(kernels, *given)

    monkeypatch.setattr(LaunchedKernels, "run", counted)
    return found


def close(have: Any, want: Any) -> None:
    have, want = np.asarray(have), want.detach().numpy()
    assert have.shape == want.shape
    np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-10 * max(float(abs(want).max(initial=0)), 1.0))


@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_by_kernels_in_c(name: str, launches: list[str]) -> None:
    values = arguments(name)
    given = tensors(values)
    want = eager(name)(*given)
    wanted = torch.autograd.grad(want, flat(given), allow_unused=True)
    with gs.settings.backend("c"):
        close(UNIT[name](*values), want)
        assert launches
        launches.clear()
        result, pull_back = gs.vjp(UNIT[name], *values)
        close(result, want)
        assert launches
        launches.clear()
        gradients = pull_back(np.ones_like(result))
    assert launches
    found = flat([g for g, value in zip(gradients, values, strict=True) if not isinstance(value, int | float)])
    for have, expected in zip(found, wanted, strict=True):
        close(have, torch.zeros(have.shape, dtype=torch.float64) if expected is None else expected)


@pytest.mark.parametrize("name", MODELS)
def test_values_by_the_reference(name: str) -> None:
    graph = flatten_signature(differentiable_graph(UNIT[name].callee))
    values = arguments(name)
    (found,) = run_fused(graph, values, supports)
    close(found, eager(name)(*tensors(values)))


@pytest.mark.parametrize("name", ["chain", "early_exit", "search", "truncated"])
def test_second_derivatives_by_kernels_in_c(name: str, launches: list[str]) -> None:
    """Of the squares of all gradients, through torch's autograd."""
    found = []
    for function in (eager(name), UNIT[name]):
        given = tensors(arguments(name))
        leaves = [tensor for tensor in flat(given) if tensor.is_floating_point()]
        with gs.settings.backend("c"):
            first = torch.autograd.grad(function(*given), leaves, create_graph=True, allow_unused=True)
            total = sum((g * g).sum() for g in first if g is not None)
            found.append(torch.autograd.grad(total, leaves, allow_unused=True))
    assert launches
    for want, have in zip(*found, strict=True):
        if want is not None:
            close(have.detach(), want)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_by_the_reference(name: str) -> None:
    given = tensors(arguments(name))
    want = eager(name)(*given)
    wanted = torch.autograd.grad(want, flat(given), allow_unused=True)
    with kernel_device(pytest.MonkeyPatch()) as runs:
        result = UNIT[name](*given)
        close(result.detach(), want)
        found = torch.autograd.grad(result, flat(given), allow_unused=True)
    assert runs.kernels
    for have, expected in zip(found, wanted, strict=True):
        if expected is not None:
            close(have, expected)


def test_models_by_the_interpreter_of_triton() -> None:
    """In a process of its own, for Triton decides when it is imported whether it interprets."""
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    models = some_of(("early_exit", "translation", "experts"))
    command = [sys.executable, str(Path(__file__).parent / "model_running.py"), *models]
    run = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    assert sum(line.startswith("ok ") for line in run.stdout.splitlines()) == len(models)


def test_an_iteration_until_it_converges_has_the_gradient_that_it_was_given(launches: list[str]) -> None:
    v = np.random.default_rng(1).standard_normal((4, 3))
    x = torch.tensor(v, requires_grad=True)
    want = (x.norm(dim=-1) * 3).sum()
    (first,) = torch.autograd.grad(want, x)
    with gs.settings.backend("c"):
        result, pull_back = gs.vjp(NEWTON.lengths, v)
        (gradient,) = pull_back(np.ones_like(result))
    assert launches
    close(result, want)
    close(gradient, first)


def _python_calls(layers: int) -> int:
    """How many calls of Python's functions it takes to plan the kernels of both passes."""
    values = arguments("transformer", layers)
    function = gs.CompilationUnit(TEXT, "models.grad").transformer
    count = 0

    def counted(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        function.kernels(*values)
    finally:
        sys.setprofile(None)
    return count


def test_many_layers_take_no_longer_to_plan_than_few() -> None:
    _python_calls(6)
    assert _python_calls(24) <= 1.2 * _python_calls(6)

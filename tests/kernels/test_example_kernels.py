"""The formulas of examples/kernels: values and gradients beside torch, by their kernels' meaning and in C."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.autodiff.gradient import residuals_of
from gradscript.compiler.fusion.fuse import pair_gradient
from gradscript.compiler.types.dtypes import DType
from gradscript.runtime.kernels import notices
from gradscript.runtime.kernels.listing import known_layout
from kernel_reference import run_fused

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "fusion" / "rows")]

from inputs.example_shapes import ARGUMENTS, arguments  # noqa: E402
from row_program_running import few_elements  # noqa: E402

F = torch.nn.functional

PATHS = sorted((ROOT / "examples" / "kernels").glob("*.grad"))
TEXTS = {path: path.read_text(encoding="utf-8") for path in PATHS}
UNITS = [gs.CompilationUnit(text, path.name) for path, text in TEXTS.items()]
HELPERS = ("widened",)
FUNCTIONS = {f.name: f for unit in UNITS for f in unit.functions.values() if f.name not in HELPERS}
SIZES = ((4, 6), (8, 18))
"""With the planner's thresholds made small: rows that a program holds, and longer ones."""


def _torch_function(name: str) -> Callable[..., Any]:
    """The formula as Python over torch; of one with a backward of its own, the forward alone."""
    text = next(text for text in TEXTS.values() if f"def {name}(" in text)
    names: dict[str, Any] = {
        "torch": torch,
        "F": F,
        "gs": SimpleNamespace(constant=torch.Tensor.detach, recompute=lambda x: x),
    }
    exec(text, names)
    found = names[name]

    def function(*args: Any) -> Any:
        result = found(*args)
        return result[0] if isinstance(result, tuple) and callable(result[-1]) else result

    return function


def _by_torch(function: Callable[..., Any], given: list[Any]) -> tuple[list[Any], ...]:
    """Values, gradients, and the gradients of the values."""
    tensors = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in given]
    results = function(*tensors)
    results = list(results) if isinstance(results, tuple) else [results]
    generator = np.random.default_rng(7)
    seeds = [np.asarray(generator.normal(size=tuple(r.shape))) for r in results]
    torch.autograd.backward(results, [torch.tensor(s) for s in seeds])
    gradients = [None if t.grad is None else t.grad.numpy() for t in tensors]
    return [r.detach().numpy() for r in results], gradients, seeds


def _require_equal(name: str, have: list[Any], wanted: list[Any]) -> None:
    for number, (found, want) in enumerate(zip(have, wanted, strict=True)):
        if want is None:
            assert found is None or not np.any(found), (name, number)
            continue
        scale = max(float(np.abs(want).max(initial=0)), 1e-3)
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-11 * scale, err_msg=f"{name}: number {number}")


def test_there_is_one_set_of_arguments_for_each() -> None:
    assert set(FUNCTIONS) == set(ARGUMENTS)
    assert len(FUNCTIONS) >= 49


@pytest.mark.parametrize("name", ARGUMENTS)
def test_kernels_give_what_torch_gives(name: str) -> None:
    for seed, (rows, columns) in enumerate(SIZES):
        given = arguments(name, rows, columns, seed=seed)
        values, gradients, seeds = _by_torch(_torch_function(name), given)
        found, found_gradients = _by_kernels(name, given, seeds)
        _require_equal(name, found, values)
        _require_equal(name, found_gradients, gradients)


def _by_kernels(name: str, given: list[Any], seeds: list[Any]) -> tuple[list[Any], list[Any]]:
    """Values and gradients by the meaning of kernels, those between the rounds of a loop too."""
    callee, count = FUNCTIONS[name].callee, len(given)
    given = [*given, *(argument.default for argument in callee.schema.arguments[count:])]
    layouts = [known_layout(value, settled=False) for value in given]
    needs = [isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in given]
    gradient = pair_gradient(differentiable_graph(callee), layouts, needs)
    with few_elements() as split:
        outputs = run_fused(gradient.f, given, _supports, split)
        taken = [seeds[i] for i in gradient.input_vjps] + residuals_of(gradient, given, outputs)
        found = run_fused(gradient.df, taken, _supports, split)
    by_input = dict(zip(gradient.output_vjps, found, strict=True))
    return outputs[: gradient.num_real_outputs], [by_input.get(i) for i in range(count)]


def _supports(primitive: str, dtype: DType) -> bool:
    return True


@pytest.fixture
def in_c(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where what runs op by op is an error."""
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.getbasetemp() / "examples"))
    monkeypatch.setattr(notices, "TOLD", set())
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


@pytest.mark.usefixtures("in_c")
@pytest.mark.parametrize("name", some_of(ARGUMENTS))
def test_kernels_in_c_give_what_torch_gives(name: str) -> None:
    given = arguments(name, 8, 12)
    values, gradients, seeds = _by_torch(_torch_function(name), given)
    results, pull_back = gs.vjp(FUNCTIONS[name], *given)
    _require_equal(name, list(results) if isinstance(results, tuple) else [results], values)
    _require_equal(name, list(pull_back(tuple(seeds) if len(seeds) > 1 else seeds[0])), gradients)


LIBRARY: dict[str, Callable[..., Any]] = {
    "rms_norm": lambda x, w: F.rms_norm(x, [x.size(-1)], w, 1e-6),
    "rms_norm_llama": lambda x, w: F.rms_norm(x, [x.size(-1)], w, 1e-6),
    "rms_norm_gemma": lambda x, w: F.rms_norm(x, [x.size(-1)], 1 + w, 1e-6),
    "layer_norm": lambda x, w, b: F.layer_norm(x, [x.size(-1)], w, b),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "instance_norm": F.instance_norm,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "geglu": lambda x, g: F.gelu(x, approximate="tanh") * g,
    "swiglu": lambda x, g: F.silu(x) * g,
    "glu": F.glu,
    "mish": F.mish,
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "cross_entropy": F.cross_entropy,
    "smoothed_cross_entropy": lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
    "weighted_cross_entropy": lambda x, t, w: F.cross_entropy(x, t, w.detach(), ignore_index=0),
    "kl_divergence": lambda p, q: F.kl_div(p, q.detach(), reduction="batchmean"),
    "embedding": lambda w, i: F.embedding(i, w),
    "linear_cross_entropy": lambda x, w, t: F.cross_entropy(x @ w.t(), t),
    "tiled_mlp": lambda x, g, u, d: (F.silu(x @ g.t()) * (x @ u.t())) @ d.t(),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_formulas_are_what_torch_calls_so(name: str) -> None:
    given = arguments(name, 8, 12, seed=3)
    values, gradients, _ = _by_torch(LIBRARY[name], given)
    own, own_gradients, _ = _by_torch(_torch_function(name), given)
    _require_equal(name, own, values)
    _require_equal(name, own_gradients, gradients)


@pytest.mark.parametrize("path", some_of(PATHS), ids=lambda path: path.stem)
def test_formulas_pass_the_check(path: Path) -> None:
    unit = UNITS[PATHS.index(path)]
    for function in unit.functions.values():
        if function.name in HELPERS:
            continue
        report = gs.check(function, *arguments(function.name, 4, 6))
        assert report.ok, str(report)

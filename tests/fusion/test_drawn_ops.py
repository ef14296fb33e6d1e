"""Which ops kernels are made of: those of floats that are pointwise, and what is made of such."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.fusion.fuse import fuse
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.ops.registry import OPS, Op, Trait
from gradscript.compiler.types.dtypes import FLOAT32
from gradscript.runtime.kernels.listing import supported_by_c, supports

LIBRARY = frozenset(
    ("digamma", "erfinv", "i0", "special_erfcx", "special_i0e", "special_i1", "special_i1e", "special_log_ndtr")
)
LIBRARY |= {"special_ndtri", "special_zeta"}
"""Functions that C or Triton have no text for."""
OTHERS = frozenset(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "where", "masked_fill"))
OTHERS |= {"bitwise_left_shift", "bitwise_right_shift"}
"""Which torch refuses of floats alone."""


def _of_tensors() -> dict[str, Op]:
    """The pointwise ops of nothing but tensors, by name."""
    return {
        str(op.schema).partition("(")[0]: op
        for op in OPS.all()
        if op.has(Trait.POINTWISE) and all(str(argument.type) == "Tensor" for argument in op.schema.arguments)
        if op.schema.base_name not in LIBRARY | OTHERS
    }


@pytest.mark.parametrize("name", sorted(_of_tensors()))
def test_pointwise_ops_of_floats_are_drawn_into_kernels(name: str) -> None:
    count = len(_of_tensors()[name].schema.arguments)
    inputs = [f"%{letter}" for letter in "abcd"[:count]]
    typed = ", ".join(f"{value} : Tensor" for value in inputs)
    graph = gs.parse_ir(f"graph f({typed}):\n  %1 : Tensor = {name}({', '.join(inputs)})\n  return (%1)\n")
    for supported in (supports, supported_by_c):
        program = fuse(graph, [Layout.contiguous(Meta((4, 8), FLOAT32))] * count, supported)
        assert len(program.kernels) == len(program.steps) == 1


SAMPLES = (
    "torch.isclose(x, y)",
    "torch.isfinite(x)",
    "torch.isposinf(x)",
    "torch.isneginf(x)",
    "torch.logical_and(x, y)",
    "torch.logical_xor(x, y)",
    "torch.logaddexp(x, y)",
    "torch.logaddexp2(x, y)",
    "F.hardshrink(x)",
)
SPECIAL = (0.0, -0.0, 0.5, -0.5, 0.4999, 1.0, np.inf, -np.inf, np.nan, 3e38, -2.0, 100.0)


@pytest.mark.parametrize("expression", SAMPLES)
def test_what_ops_decide_within_is_decided_as_torch_does(
    expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    x, y = (grid.ravel() for grid in np.meshgrid(np.float32(SPECIAL), np.float32(SPECIAL)))
    function = gs.CompilationUnit(f"def f(x, y):\n    return {expression}\n").f
    assert not function.kernels(x, y).library
    names = {"torch": torch, "F": torch.nn.functional, "x": torch.tensor(x), "y": torch.tensor(y)}
    wanted = eval(expression, names).numpy()
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        np.testing.assert_allclose(function(x, y), wanted, rtol=3e-7)


MOVES = (
    "torch.roll(x, [1, -2], [0, 1])",
    "torch.roll(x, 9)",
    "torch.rot90(x)",
    "torch.rot90(x, 2, [0, 1])",
    "torch.rot90(x, -1, [0, 1])",
    "x.diagonal(1)",
    "x.diagonal(-2)",
    "torch.diag(x)",
    "torch.diag(x[0], -1)",
    "torch.diag_embed(x, -2, 0, 1)",
    "x.diagonal_scatter(y.diagonal(), 0)",
    "torch.diagonal_scatter(x[None] * y[:, None, :1], y[:, :1] * x[0, :4], 1, 1, 2)",
    "x.trace()",
    "F.pad(x, [1, -1, 0, 2], 'constant', 0.5)",
    "torch.where(x > y, x, math.nan).nansum(-1)",
    "x.count_nonzero(-1) * x[:, 0]",
    "x.count_nonzero([0, 1]) * x",
    "x.aminmax(dim=-1)[0]",
    "x.aminmax()[1]",
)


@pytest.mark.parametrize("expression", MOVES)
def test_values_and_gradients_of_what_moves_elements_need_no_library(
    expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    generator = np.random.default_rng(0)
    x, y = np.asarray(generator.normal(size=(4, 6))), np.asarray(generator.normal(size=(4, 6)))
    function = gs.CompilationUnit(f"def f(x, y):\n    return {expression}\n").f
    assert not function.kernels(x, y).library
    tensors = [torch.tensor(array, requires_grad=True) for array in (x, y)]
    names = {"torch": torch, "F": torch.nn.functional, "math": math}
    wanted = eval(expression, names | dict(zip("xy", tensors, strict=True)))
    seed = np.asarray(generator.normal(size=tuple(wanted.shape)))
    wanted.backward(torch.tensor(seed))
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        result, pullback = gs.vjp(function, x, y)
        gradients = pullback(seed)
    np.testing.assert_allclose(result, wanted.detach().numpy(), rtol=1e-12)
    for gradient, tensor in zip(gradients, tensors, strict=True):
        found = np.zeros(tensor.shape) if gradient is None else gradient
        np.testing.assert_allclose(found, np.zeros(tensor.shape) if tensor.grad is None else tensor.grad, rtol=1e-12)


REDUCED = ("x.amax(-1)", "x.amin(0)", "x.max()", "x.aminmax(dim=-1)[0]", "x.sum(-1)", "x.prod(-1)", "x.count_nonzero()")


@pytest.mark.parametrize("expression", REDUCED)
def test_reductions_of_bools_are_built(expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    x = np.arange(24).reshape(4, 6) % 5 > 0
    function = gs.CompilationUnit(f"def f(x):\n    return {expression}\n").f
    wanted = eval(expression, {"x": torch.tensor(x)}).numpy()
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        result = function(x)
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted)

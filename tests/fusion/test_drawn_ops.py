"""Which ops kernels are made of: those of floats that are pointwise, and what is made of such."""

from __future__ import annotations

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

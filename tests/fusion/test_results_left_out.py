"""Results that a mask of outputs does not ask for are not there, whatever computes the others."""

from __future__ import annotations

from itertools import product

import gradscript as gs
import numpy as np
import pytest

pytest.importorskip("torch")

from gradscript.compiler.ops import OPS, Op
from gradscript.compiler.types.dtypes import FLOAT64
from samples.table import LAYOUTS, calls

MASKS = list(product([True, False], repeat=3))
SOURCE = """
def f(g, x, mean, rstd, w: Optional[Tensor], b: Optional[Tensor]):
    return torch.native_layer_norm_backward(g, x, [4], mean, rstd, w, b, {mask})

def used(g, x, mean, rstd, w: Optional[Tensor], b: Optional[Tensor]):
    dx, dw, db = torch.native_layer_norm_backward(g, x, [4], mean, rstd, w, b, {mask})
    return dx * x
"""


def _operands(affine: tuple[bool, bool]) -> list[np.ndarray | None]:
    rng = np.random.default_rng(0)
    g, x = rng.normal(size=(2, 3, 4))
    mean, rstd = x.mean(1, keepdims=True), 1 / x.std(1, keepdims=True)
    return [g, x, mean, rstd, *(rng.normal(size=4) if given else None for given in affine)]


def _told(results: tuple[np.ndarray | None, ...]) -> list[list[float] | None]:
    return [None if r is None else np.round(r, 9).tolist() for r in results]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("affine", list(product([True, False], repeat=2)))
def test_what_a_mask_leaves_out_is_none(mask: tuple[bool, ...], affine: tuple[bool, bool]) -> None:
    unit = gs.CompilationUnit(SOURCE.format(mask=list(mask)))
    operands = _operands(affine)
    with gs.settings.backend("numpy"):
        expected = unit.f(*operands)
    assert [r is not None for r in expected] == [a and b for a, b in zip(mask, (True, *affine), strict=True)]
    with gs.settings.backend("c"):
        assert _told(unit.f(*operands)) == _told(expected)
    if not mask[0]:
        return
    found = []
    for backend in ("numpy", "c"):
        with gs.settings.backend(backend):
            value, pullback = gs.vjp(unit.used, *operands)
            found.append(_told(pullback(np.ones_like(value))))
    assert found[0] == found[1]


def _masked() -> list[Op]:
    return [op for op in OPS.all() if any(a.name == "output_mask" for a in op.schema.arguments)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("op", _masked(), ids=lambda op: op.schema.base_name)
def test_every_op_that_takes_a_mask_leaves_the_same_out(op: Op, mask: tuple[bool, ...]) -> None:
    at = [a.name for a in op.schema.arguments].index("output_mask")
    given = ", ".join(f"x{i}: {a.type}" for i, a in enumerate(op.schema.arguments) if i != at)
    names = ", ".join(str(list(mask)) if i == at else f"x{i}" for i in range(len(op.schema.arguments)))
    f = gs.CompilationUnit(f"def f({given}):\n    return torch.{op.schema.base_name}({names})\n").f
    for call in calls(op):
        arguments = call.arguments(op, FLOAT64, 0, LAYOUTS["contiguous"])
        values = [value for i, value in enumerate(arguments) if i != at]
        found = []
        for backend in ("numpy", "c"):
            with gs.settings.backend(backend):
                found.append(_told(f(*values)))
        assert found[0] == found[1]

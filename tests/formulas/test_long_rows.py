"""No op and no gradient takes the square of the memory of a row, unless its result does."""

from __future__ import annotations

import tracemalloc
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of
from gradscript.compiler.ops.registry import OPS, Op
from gradscript.compiler.types.types import BOOL, FLOAT, INT, NUMBER, is_tensor, strip_optional
from samples.array_derivatives import op_function

LENGTH, LARGEST = 1024, 2 << 20
"""Elements of a row, and bytes at most: of their square there are eight million."""
LONG = 60_000
"""Of which there are 29 gigabytes."""
SQUARES = frozenset(
    (
        *("combinations", "diag", "diagflat", "diag_embed", "addr", "outer", "ger", "kron", "vander", "linalg_vander"),
        # Whose matrices have as many columns as rows.
        *("linalg_svd", "linalg_lstsq", "ormqr"),
    )
)
"""Ops whose results are such."""


def _arguments(op: Op, dimensions: int) -> list[Any] | None:
    """Rows for tensors, and defaults; None where something else is asked for."""
    rng, found = np.random.default_rng(1), list[Any]()
    for argument in op.schema.arguments:
        kind = strip_optional(argument.type)
        if is_tensor(argument.type):
            found.append(rng.uniform(0.1, 0.9, (2, LENGTH)[-dimensions:]))
        elif not argument.required:
            found.append(argument.default)
        elif kind is not argument.type:
            found.append(None)
        elif kind in (INT, FLOAT, NUMBER, BOOL):
            found.append({INT: -1, BOOL: False}.get(kind, 0.5))
        else:
            return None
    return found


def _peak(op: Op, given: list[Any]) -> int:
    """Bytes that were allocated at once for values and gradients, op by op."""
    function = op_function(op)
    with gs.settings.backend("numpy"):
        gs.vjp(function, *given)
        tracemalloc.start()
        try:
            results, pullback = gs.vjp(function, *given)
            is_row = isinstance(results, tuple)
            seeds = [
                np.ones_like(r) if getattr(r, "dtype", None) == np.float64 else None
                for r in (results if is_row else [results])
            ]
            pullback(tuple(seeds) if is_row else seeds[0])
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_op_takes_the_square_of_a_row() -> None:
    measured, large = 0, list[str]()
    for op in some_of([op for op in OPS.all() if op.schema.arguments and op.schema.base_name not in SQUARES]):
        for dimensions in (1, 2):
            given = _arguments(op, dimensions)
            try:
                peak = None if given is None else _peak(op, given)
            except (gs.CompileError, gs.RuntimeFailure, TypeError):
                continue
            if peak is not None:
                measured += 1
                large += [f"{op.schema.full_name} of {dimensions}: {peak}"] if peak > LARGEST else []
                break
    assert measured > 20
    assert not large


@pytest.mark.parametrize("name", ["logcumsumexp", "cumprod"])
def test_gradient_of_a_long_row(name: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, LONG)) if name == "logcumsumexp" else rng.choice([-1.0, 1.0, 1.001], (2, LONG))
    if name == "cumprod":
        x[0, 40_000] = 0
        x[1, [0, 7]] = 0
    seed = rng.standard_normal((2, LONG))
    function = gs.CompilationUnit(f"def f(x):\n    return torch.{name}(x, -1)\n").f
    _, pullback = gs.vjp(function, x)
    leaf = torch.tensor(x, requires_grad=True)
    getattr(torch, name)(leaf, -1).backward(torch.tensor(seed))
    assert leaf.grad is not None
    np.testing.assert_allclose(pullback(seed)[0], leaf.grad.numpy(), rtol=1e-9, atol=1e-9)

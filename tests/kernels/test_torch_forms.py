"""Ops of ours that torch has no name for, run on its tensors without a detour over arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gradscript.compiler.ops.registry import OPS
from gradscript.runtime.kernels import torch_ops

CPU = torch.device("cpu")
ADD_N = OPS.named("gs::add_n")


def refuse(*arguments: Any) -> Any:
    raise AssertionError("evaluated on arrays")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("shapes", [[(3, 4)] * 5, [(4,), (3, 1), (), (3, 4)], [(2,)]])
def test_add_n(dtype: torch.dtype, shapes: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_ops, "_by_definition", refuse)
    generator = torch.Generator().manual_seed(0)
    terms = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    found = torch_ops.op_runner(ADD_N, CPU)([terms])
    np.testing.assert_array_equal(found.numpy(), ADD_N.evaluate([term.numpy() for term in terms]))
    assert found.dtype == dtype and all(found.data_ptr() != term.data_ptr() for term in terms)


def test_of_nothing() -> None:
    with pytest.raises(RuntimeError, match="non-empty list"):
        torch_ops.op_runner(ADD_N, CPU)([[]])

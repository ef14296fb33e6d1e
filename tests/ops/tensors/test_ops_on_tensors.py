"""Ops as programs for devices call them on torch tensors, on the CPU here.

Dtypes and shapes are those of the op on arrays, and where the form is ours so are the elements.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gradscript.compiler.ops.registry import OPS, Op
from gradscript.compiler.types import dtypes
from samples.array_calls import CASES, FAMILIES
from samples.array_calls import family as family_of
from samples.arrays import LAYOUTS, Call, to_numpy, to_torch

torch = pytest.importorskip("torch")
from gradscript.runtime.kernels.by_torch import ops  # noqa: E402
from gradscript.runtime.kernels.by_torch.forms import FORMS  # noqa: E402

CPU = torch.device("cpu")


def _forms(result: Any) -> list[Any]:
    """Dtype and shape of each tensor, in order; None for what is none."""
    leaves = _flat(result)
    return [(leaf.dtype, leaf.shape) if isinstance(leaf, np.ndarray) else None for leaf in leaves]


def _as_tensors(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_as_tensors(item) for item in value)
    return to_torch(value) if isinstance(value, np.ndarray | np.generic) else value


def _check(op: Op, call: Call, dtype: dtypes.DType) -> None:
    arguments = call.arguments(op, dtype, 7, LAYOUTS["contiguous"])
    with np.errstate(all="ignore"):
        wanted = op.evaluate(*arguments)
    found = to_numpy(ops.op_function(op, CPU)(*[_as_tensors(argument) for argument in arguments]))
    assert _forms(found) == _forms(wanted)
    if op.schema.full_name in FORMS:
        for mine, theirs in zip(_flat(found), _flat(wanted), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)


def _flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in _flat(item)] if isinstance(result, list | tuple) else [result]


@pytest.mark.parametrize("family", FAMILIES)
def test_results_have_the_forms_of_arrays(family: str) -> None:
    failed = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in OPS.all():
            if family_of(op) != family:
                continue
            for number, call in enumerate(CASES[op.schema.full_name.partition("::")[2]]):
                try:
                    _check(op, call, dtypes.FLOAT32)
                except Exception as error:
                    failed.append(f"{op.schema.full_name}, {number}: {error!r}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("name", [name for name in FORMS if name.partition("::")[2] in CASES])
def test_forms_of_integers_are_those_of_arrays(name: str) -> None:
    op = OPS.named(name)
    for call in CASES[name.partition("::")[2]]:
        try:
            op.evaluate(*call.arguments(op, dtypes.INT64, 7, LAYOUTS["contiguous"]))
        except RuntimeError:
            continue
        _check(op, call, dtypes.INT64)
